//! Our Redis store beside the published scripts: speed and memory, on one real server.
//!
//! `plain` holds the scripts and `ours` the store; `speed` and `weight` ask both.

mod host;
mod ours;
mod plain;
mod side;
mod speed;
mod time;
mod traffic;
mod weight;

use anyhow::{Context, Result};
use tokio::runtime;

use self::host::Host;
use crate::report::Report;
use crate::setting::Effort;

/// What can be had alone: traffic, memory, and algorithms.
pub(crate) const PARTS: [&str; 7] =
    ["alone", "million", "hot", "flood", MEMORY, "token-bucket", "gcra"];
const MEMORY: &str = "memory";

/// The parts that are wanted.
#[derive(Clone, Copy)]
struct Wanted<'a>(&'a [&'static str]);

impl Wanted<'_> {
    /// Whether this is measured: traffic or memory, if any such was named.
    fn measures(self, what: &str) -> bool {
        self.is_among(&PARTS[..5], what)
    }

    /// Whether it is measured by this algorithm.
    fn has(self, kind: &str) -> bool {
        self.is_among(&PARTS[5..], kind)
    }

    fn is_among(self, group: &[&str], part: &str) -> bool {
        self.0.contains(&part) || !self.0.iter().any(|named| group.contains(named))
    }
}

/// Measures some of the parts, or all if none is named.
pub(crate) fn run(effort: Effort, parts: &[&'static str]) -> Result<Report> {
    let wanted = Wanted(parts);
    let host = Host::start()?;
    let mut report = Report::new(format!("{}, on loopback. {ABOUT}", host.describe()?));
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("no runtime")?.block_on(async {
        speed::add_to(&mut report, &host, effort, wanted).await?;
        if wanted.measures(MEMORY) {
            weight::add_to(&mut report, &host, effort).await?;
        }
        anyhow::Ok(())
    })?;
    Ok(report)
}

const ABOUT: &str = "The store beside the scripts that articles publish, \
    called by EVALSHA over one multiplexed connection of the same client library. \
    Every key was asked about before. \
    Median of fifteen rounds; in every round each side runs in turn for half a second. \
    \"Of plain\" is the median of the rounds' own ratios of decisions per second: \
    trust it more than the numbers beside it, which move with the machine's load. \
    \"Server us\" and \"client us\" are processor time for one decision: \
    the greater of them is the ceiling, and the client is one thread, connections included. \
    Refusals of the flood are remembered by our store for a quarter of a second. \
    Memory is the growth of `used_memory`, names and expiry included, \
    shared out among the clients; names are as each side makes them.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::tidegate::{Kind, Span};

    use super::side::Side;
    use super::time::Time;
    use super::*;
    use crate::setting::Quota;

    const KINDS: [Kind; 5] =
        [Kind::FixedWindow, Kind::Gcra, Kind::SlidingLog, Kind::SlidingWindow, Kind::TokenBucket];

    #[tokio::test]
    async fn both_sides_admit_a_burst_and_no_more() {
        let host = Host::start().unwrap();
        let quota = Quota { per: Duration::from_hours(1), burst: 3 };
        for kind in KINDS {
            host.flush().unwrap();
            let (time, clock) = Time::standing();
            for side in Side::pair(&host.url(), kind, quota, &time).await.unwrap() {
                let mut admitted = Vec::new();
                for _ in 0..5 {
                    admitted.push(side.pass(2).await.unwrap());
                    clock.advance(Span::from_millis(1));
                }
                assert_eq!(admitted, [2, 2, 2, 0, 0], "{} {kind}", side.name());
            }
        }
    }
}
