//! The service with and without limits, in turn.

use std::time::Duration;

use anyhow::Result;

use super::load::Served;
use crate::doors::run_on_load_core;
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, median};

/// What is served, and its name in the table.
const CONTENDERS: [(&str, &str); 9] = [
    ("none", "none"),
    ("tidegate", "tidegate, three rules"),
    ("tidegate-legacy", "tidegate, three rules, `headers: legacy`"),
    ("tidegate-none", "tidegate, three rules, `headers: none`"),
    ("tidegate-around", "tidegate, three rules, around the router"),
    ("governor-three", "tower_governor, three limits"),
    ("governor", "tower_governor, one limit"),
    ("tidegate-share", "tidegate, three rules and a share"),
    ("share", "tidegate, a share alone"),
];
/// Two take turns for so long: what disturbs a machine lasts for seconds, and should disturb both.
/// More than two would find each other's code in the caches, which no service has to put up with.
const ROUNDS: usize = 13;
const ROUND: Duration = Duration::from_millis(100);
/// Both are started anew so often: where a process happens to have its memory makes a few percent.
const STARTS: usize = 7;

/// Adds the table and its figures.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    run_on_load_core()?;
    let head = ["limits", "requests/s", "of no limit", "least..greatest", "added us a request"];
    let mut table = Table::new("An axum service under load".to_owned(), &head);
    for (served, name) in &CONTENDERS[1..] {
        let Race { rate, ratio, added_us } = race([served, "none"], effort)?;
        table.add(vec![
            (*name).to_owned(),
            format!("{rate:.0}"),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
            format!("{added_us:.2}"),
        ]);
        if let Some((_, name)) = ADDED.iter().find(|(it, _)| it == served) {
            let target = Target::AtMost(ADDED_US_MAX);
            report.figures.push(figure(name, added_us, Unit::Microseconds, target));
        }
    }
    report.tables.push(table);
    // The same three limits, and fields that are most like theirs.
    let Race { ratio, .. } = race(["tidegate-legacy", "governor-three"], effort)?;
    let (name, target) = ("layer/of-tower-governor", Target::AtLeast(1.0));
    report.figures.push(figure(name, ratio.median, Unit::Ratio, target));
    Ok(())
}

/// Whose processor time has a bound, and the figure's name.
const ADDED: [(&str, &str); 2] = [("tidegate", "layer/added"), ("share", "layer/added/share")];

/// How much processor time a request may take beyond what it takes without limits: the service's,
/// which counts the kernel's on its behalf.
const ADDED_US_MAX: f64 = 1.5;

/// What came of two that took turns.
struct Race {
    /// Requests per second of the first.
    rate: f64,
    /// Of those of the second.
    ratio: Spread,
    /// The processor time that the first takes for a request beyond what the second takes, in
    /// microseconds.
    added_us: f64,
}

/// Has two take turns, round by round.
fn race(both: [&str; 2], effort: Effort) -> Result<Race> {
    let starts = if effort == Effort::Quick { 1 } else { STARTS };
    let (mut rates, mut added) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..starts {
        let mut served = [Served::start(both[0])?, Served::start(both[1])?];
        for service in &mut served {
            service.load(ROUND)?;
        }
        for round in 0..ROUNDS {
            let mut cpu_us = [0.0; 2];
            for turn in 0..2 {
                // Who begins changes with every round.
                let which = (turn + round) % 2;
                // The first answers after a pause are not like those that follow.
                served[which].load(ROUND / 10)?;
                let stretch = served[which].load(ROUND)?;
                rates[which].push(stretch.rate);
                cpu_us[which] = stretch.cpu_us;
            }
            added.push(cpu_us[0] - cpu_us[1]);
        }
    }
    let ratio = Spread::of_ratios(&rates[0], &rates[1]);
    Ok(Race { rate: median(&rates[0]), ratio, added_us: median(&added) })
}

fn figure(name: &str, value: f64, unit: Unit, target: Target) -> Figure {
    Figure { name: name.to_owned(), value, unit, target }
}
