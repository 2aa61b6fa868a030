//! The fair queue: how long a turn takes, and how fair the turns are.
//!
//! The time is that of the order alone, without a lock and without a clock; what a turn is worth
//! is measured in virtual time, where one cell takes one tick.

mod bound;
mod mouse;
mod shares;
mod speed;

use tidegate::Tick;
use tidegate::fair::order::{Path, Queue, Request, Room, Settings, Started, Turn, Weight};
use tidegate::fair::{Class, Shed};

use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float};

pub(crate) fn run(effort: Effort) -> Report {
    let mut report = Report::new(ABOUT);
    speeds(&mut report, effort);
    let violations = bound::violations(effort.of(bound::DISPATCHES));
    report.figures.push(figure("bound", violations, Unit::Violations, Target::AtMost(0.0)));
    let shares = shares::worst_second(effort.of(shares::SECONDS));
    report.figures.push(figure("jain", shares.jain, Unit::Ratio, Target::AtLeast(0.9999)));
    report.figures.push(figure("lag", shares.lag, Unit::Requests, Target::AtMost(1.0)));
    let wait = mouse::wait(effort.of(mouse::REQUESTS));
    report.figures.push(figure("mouse", wait, Unit::Requests, Target::AtMost(1.0)));
    report
}

fn speeds(report: &mut Report, effort: Effort) {
    let mut table = Table::new("Nanoseconds".to_owned(), &["what", "ns", "least..greatest"]);
    for scene in speed::SCENES {
        let measured = scene.measure(effort);
        let spread = Spread::of(&measured.each);
        table.add(row(scene.about.to_owned(), &spread));
        if !measured.whole.is_empty() {
            table.add(row("the same, and completed".to_owned(), &Spread::of(&measured.whole)));
        }
        if let Some(most) = scene.most {
            let target = Target::AtMost(most);
            report.figures.push(figure(scene.name, spread.median, Unit::Nanoseconds, target));
        }
    }
    report.tables.push(table);
}

fn row(about: String, spread: &Spread) -> Vec<String> {
    let range = format!("{:.1}..{:.1}", spread.least, spread.greatest);
    vec![about, format!("{:.1}", spread.median), range]
}

fn figure(name: &str, value: f64, unit: Unit, target: Target) -> Figure {
    Figure { name: format!("fair/{name}"), value, unit, target }
}

/// As much as anybody could want.
const ROOM: Room = Room { free: u32::MAX, whole: u32::MAX };

fn queue<T>(requests_max: u32) -> Queue<T> {
    let shed: Option<Shed> = None;
    Queue::new(Settings { requests_max, flow_requests_max: 1_000, shed, ..Settings::default() })
}

fn request(flow: u64, weight: u32, cost: u32, deadline: Tick) -> Request {
    Request { path: Path::of(flow, Weight::new(weight)), class: Class::Normal, cost, deadline }
}

fn start<T>(queue: &mut Queue<T>, now: Tick) -> Option<Started<T>> {
    loop {
        match queue.dispatch(now, ROOM)? {
            Turn::Start(started) => return Some(started),
            Turn::Drop(_) => {}
        }
    }
}

/// A draw below `bound`, of a generator that costs next to nothing.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// Jain's index: one if all are equal.
fn jain(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = float(values.clone().count() as u64);
    let sum: f64 = values.clone().sum();
    let squares: f64 = values.map(|value| value * value).sum();
    sum * sum / (count * squares)
}

const ABOUT: &str = "\
    One core, no lock, no clock. A turn is one request taken in and one dispatched; what had \
    started is completed a thousand at a time, and the line below says what a turn takes with \
    that. Processor time, median of nine rounds. The bound: two flows that have requests, \
    each served by weight, never differ by more than one largest request of each, over any \
    span; looked at after every dispatch. Jain's index and the lag are those of the worst of \
    all spans of a thousand dispatches among ten tenants with weights of one to four, who \
    always have requests of one cell; the lag is how many requests a tenant is behind its \
    share. The mouse sends a request every two to four rounds of a thousand tenants who always \
    have requests of one to ten cells; the figure is its longest wait, less 1.1 times its \
    longest wait alone, in largest requests.";
