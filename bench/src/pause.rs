//! The longest single call while millions of keys come and go.
//!
//! On a shared machine the longest of ten million calls is often one that the scheduler
//! interrupted. Beside the wall time stand the call's own processor time, which leaves out
//! other threads of this machine, and the longest gap of a loop that does nothing.
//!
//! The figure is the processor time, as long as no call ever waited: then it is what the call
//! would take on a quiet machine. If one did wait, for a lock say, the wall time counts.

use std::time::Duration;

use anyhow::Result;

use crate::figure::{Figure, Target, Unit, own_algorithm};
use crate::histogram::Histogram;
use crate::idle;
use crate::key::Key;
use crate::report::{Report, Table};
use crate::setting::{Effort, Form, Quota, Setting};
use crate::statistics::{median, micros};
use crate::status;
use crate::subject::{CONTENDERS, Contender};
use crate::timer;

pub(crate) fn run(effort: Effort) -> Result<Report> {
    let mut report = Report::new(ABOUT);
    let mut table = Table::new("Longest call, in microseconds".to_owned(), &HEAD);
    for contender in CONTENDERS.iter().filter(|contender| contender.pauses) {
        let runs: Vec<Pauses> =
            (0..RUNS).map(|_| come_and_go(contender, effort)).collect::<Result<_>>()?;
        let middle = |pick: fn(&Pauses) -> Duration| {
            median(&runs.iter().map(|run| micros(pick(run))).collect::<Vec<_>>())
        };
        let wall = middle(|run| run.wall.longest());
        let own = middle(|run| run.own.longest());
        let waits: u64 = runs.iter().map(|run| run.waits).sum();
        let control = longest_gap(runs[0].length);
        let sweep = match runs[0].sweep {
            Some(_) => format!("{:.0}", middle(|run| run.sweep.unwrap_or_default())),
            None => "-".to_owned(),
        };
        table.add(vec![
            contender.name.to_owned(),
            format!("{wall:.0}"),
            format!("{own:.0}"),
            waits.to_string(),
            format!("{:.1}", middle(|run| run.wall.all_but(10_000))),
            format!("{:.0}", micros(control)),
            sweep,
        ]);
        report.figures.extend(own_algorithm(contender.name).map(|algorithm| Figure {
            name: format!("pause/{algorithm}"),
            value: if waits == 0 { own } else { wall },
            unit: Unit::Microseconds,
            target: Target::AtMost(LONGEST_MAX_US),
        }));
    }
    report.tables.push(table);
    idle::add_to(&mut report, effort);
    Ok(report)
}

/// The times of every call of one run.
struct Pauses {
    wall: Histogram,
    own: Histogram,
    /// How often a call gave up its processor of its own accord.
    waits: u64,
    length: Duration,
    sweep: Option<Duration>,
}

fn come_and_go(contender: &Contender, effort: Effort) -> Result<Pauses> {
    let keys = effort.of(KEYS);
    let lifetime = effort.of_time(LIFETIME);
    let quota = Quota { per: lifetime, burst: 1 };
    let subject = (contender.make)(&Setting { keys, quota, form: Form::Text });
    let start = timer::now();
    let waits_before = status::thread_waits()?;
    let mut key = Key::numbered(0);
    let mut calls = Calls::new();
    for number in 0..keys {
        key.renumber(number);
        calls.time(|| subject.decide(&key));
    }
    // The last key is asked on until all the others have expired, and half as long again for
    // the subject to notice.
    let filled = timer::now();
    while filled.elapsed() < lifetime + lifetime / 2 {
        calls.time(|| subject.decide(&key));
    }
    let waits = status::thread_waits()? - waits_before;
    let length = start.elapsed();
    let swept = timer::now();
    let sweep = subject.sweep().then(|| swept.elapsed());
    Ok(Pauses { wall: calls.wall, own: calls.own, waits, length, sweep })
}

/// Times calls one by one.
struct Calls {
    wall: Histogram,
    own: Histogram,
}

impl Calls {
    fn new() -> Self {
        Self { wall: Histogram::new(), own: Histogram::new() }
    }

    fn time<T>(&mut self, call: impl FnOnce() -> T) {
        let cpu_before = timer::own_cpu();
        let before = timer::now();
        std::hint::black_box(call());
        let wall = before.elapsed();
        self.own.add(timer::own_cpu().saturating_sub(cpu_before));
        self.wall.add(wall);
    }
}

/// What the machine alone does to a loop that only reads the clock.
fn longest_gap(time: Duration) -> Duration {
    let start = timer::now();
    let mut last = start;
    let mut longest = Duration::ZERO;
    while last - start < time {
        let now = timer::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

const ABOUT: &str = "Ten million keys are inserted, then expire. Every call is timed. \
    Each number is the median of five runs; the longest call is the median of five maxima. \
    \"Own CPU\" leaves out the time in which other threads ran; \
    it is the figure unless a call ever gave up its processor to wait (\"waits\"). \
    \"Control\" is the longest gap of a loop that only reads the clock, for as long as one run. \
    \"Sweep\" is the call by which users of a subject must ask it to forget.";
const HEAD: [&str; 7] = ["subject", "wall", "own CPU", "waits", "p99.99", "control", "sweep"];
const LONGEST_MAX_US: f64 = 1000.0;
const KEYS: u64 = 10_000_000;
/// Longer than it takes to insert all keys, so that they are all there at once.
const LIFETIME: Duration = Duration::from_secs(12);
const RUNS: usize = 5;
