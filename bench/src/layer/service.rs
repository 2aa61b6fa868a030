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
const CONTENDERS: [(&str, &str); 12] = [
    ("none", "none"),
    ("idle", "none, but a layer that does nothing"),
    ("fixed", "none, but five fields that never change"),
    ("counts", "none, but five fields with three counts"),
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
    let compare = |one: &str, other: &str| -> Result<(f64, Spread)> {
        let rates = in_turn([one, other], effort)?;
        Ok((median(&rates[0]), Spread::of_ratios(&rates[0], &rates[1])))
    };
    let head = ["limits", "requests/s", "of no limit", "least..greatest"];
    let mut table = Table::new("An axum service under load".to_owned(), &head);
    for (served, name) in &CONTENDERS[1..] {
        let (rate, ratio) = compare(served, "none")?;
        table.add(vec![
            (*name).to_owned(),
            format!("{rate:.0}"),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
        ]);
        if let Some((_, name, least)) = TARGETS.iter().find(|(it, ..)| it == served) {
            report.figures.push(figure(name, &ratio, *least));
        }
    }
    report.tables.push(table);
    for (one, other, name, least) in RACES {
        report.figures.push(figure(name, &compare(one, other)?.1, least));
    }
    Ok(())
}

/// What has to be kept of a service with no limit.
const TARGETS: [(&str, &str, f64); 2] =
    [("tidegate", "layer/of-no-limit", 0.9), ("share", "layer/share", 0.9)];

/// What has to be kept of another.
const RACES: [(&str, &str, &str, f64); 3] = [
    ("tidegate", "governor-three", "layer/of-tower-governor", 1.0),
    ("tidegate-legacy", "governor-three", "layer/of-tower-governor/like-fields", 1.0),
    ("tidegate-share", "tidegate", "layer/share-beside-rules", 0.9),
];

/// Requests per second of two that take turns, round by round.
fn in_turn(both: [&str; 2], effort: Effort) -> Result<[Vec<f64>; 2]> {
    let starts = if effort == Effort::Quick { 1 } else { STARTS };
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..starts {
        let mut served = [Served::start(both[0])?, Served::start(both[1])?];
        for service in &mut served {
            service.load(ROUND)?;
        }
        for round in 0..ROUNDS {
            for turn in 0..2 {
                // Who begins changes with every round.
                let which = (turn + round) % 2;
                // The first answers after a pause are not like those that follow.
                served[which].load(ROUND / 10)?;
                rates[which].push(served[which].load(ROUND)?);
            }
        }
    }
    Ok(rates)
}

fn figure(name: &str, ratio: &Spread, least: f64) -> Figure {
    let target = Target::AtLeast(least);
    Figure { name: name.to_owned(), value: ratio.median, unit: Unit::Ratio, target }
}
