//! The server beside other servers: every door, one core for the server and one for the load.
//!
//! `server` and `host` run what is measured; the rest are the measurements.

mod entrant;
mod host;
mod idle;
mod latency;
mod reload;
mod server;
mod speed;

use anyhow::Result;

pub(crate) use self::host::run_on_load_core;
use self::server::Door;
pub(crate) use self::server::built;
use crate::report::Report;
use crate::setting::Effort;

/// A measurement that can be had alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Resp,
    Http,
    Grpc,
    Latency,
    Idle,
    Reload,
}

impl Part {
    pub(crate) const ALL: [(&str, Self); 6] = [
        ("resp", Self::Resp),
        ("http", Self::Http),
        ("grpc", Self::Grpc),
        ("latency", Self::Latency),
        ("idle", Self::Idle),
        ("reload", Self::Reload),
    ];
}

/// Measures some of the parts, or all if none is named.
pub(crate) fn run(effort: Effort, parts: &[Part]) -> Result<Report> {
    host::prepare()?;
    let mut report = Report::new(ABOUT);
    let wanted = |part: &Part| parts.is_empty() || parts.contains(part);
    for part in Part::ALL.iter().map(|(_, part)| part).filter(|part| wanted(part)) {
        match part {
            Part::Resp => speed::add_to(&mut report, Door::Resp, effort)?,
            Part::Http => speed::add_to(&mut report, Door::Http, effort)?,
            Part::Grpc => speed::add_to(&mut report, Door::Grpc, effort)?,
            Part::Latency => latency::add_to(&mut report, effort)?,
            Part::Idle => idle::add_to(&mut report, effort)?,
            Part::Reload => reload::add_to(&mut report, effort),
        }
    }
    Ok(report)
}

/// Tells whoever waits what is going on; not on the output, which a machine may read.
fn progress(what: &str) {
    eprintln!("doors: {what}");
}

const ABOUT: &str = "`tidegate serve` beside Redis 7, redis-cell 0.2.2 in Redis, and \
    throttlecrab-server 0.4.40, each in a process of its own on the first core, over loopback. \
    The load is one thread on the second core, the same for all: it sends requests that are \
    written beforehand, and looks at every reply only to see that it lets the request pass. \
    A hundred thousand clients, drawn at random, all of whose keys are there. \
    Median of nine rounds; in every round each server runs in turn for a second. \
    Ratios are medians of the rounds' own ratios: trust them more than the numbers beside them, \
    which move with the machine's load. \
    \"Server us\" and \"load us\" are processor time for one decision, \"busy\" is how much of its \
    core the server used: where that is far below 100 %, the load or another program was the \
    ceiling. \
    Latency runs from when a request was due, at half of what the server had just shown that it \
    can do; tails are those of each tenth of a second, of which the median counts, because a \
    virtual machine loses its cores for milliseconds at a time: the tail of all requests together \
    stands beside it, and a loop on the server's core that answers at once, without any server, \
    shows what is the machine's own. \
    Quiet connections have asked once.";
