//! The service with and without limits, in turn.

use std::time::Duration;

use anyhow::{Context, Result};

use super::load::Served;
use crate::doors::run_on_load_core;
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, median};

/// What is served, and its name in the table.
const CONTENDERS: [(&str, &str); 9] = [
    ("none", "none"),
    ("fixed", "none, but five fields that never change"),
    ("tidegate", "tidegate, three rules"),
    ("tidegate-legacy", "tidegate, three rules, `headers: legacy`"),
    ("tidegate-none", "tidegate, three rules, `headers: none`"),
    ("governor-three", "tower_governor, three limits"),
    ("governor", "tower_governor, one limit"),
    ("tidegate-share", "tidegate, three rules and a share"),
    ("share", "tidegate, a share alone"),
];
/// Short and many: what disturbs a machine lasts for a second, and should disturb neighbors alike.
const ROUNDS: usize = 1_001;
const ROUND: Duration = Duration::from_millis(20);

/// Adds the table and its figures.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let rounds = if effort == Effort::Quick { 3 } else { ROUNDS };
    let mut served: Vec<Served> =
        CONTENDERS.iter().map(|(served, _)| Served::start(served)).collect::<Result<_>>()?;
    run_on_load_core()?;
    let mut rates = vec![Vec::new(); CONTENDERS.len()];
    for service in &mut served {
        service.load(Duration::from_secs(1))?;
    }
    for round in 0..rounds {
        for turn in 0..served.len() {
            // Who begins changes with every round.
            let place = (turn + round) % served.len();
            // The first answers after a pause are not like those that follow.
            served[place].load(ROUND / 10)?;
            rates[place].push(served[place].load(ROUND)?);
        }
    }
    let head = ["limits", "requests/s", "of no limit", "least..greatest"];
    let mut table = Table::new("An axum service under load".to_owned(), &head);
    for ((_, name), each) in CONTENDERS.into_iter().zip(&rates) {
        let ratio = Spread::of_ratios(each, &rates[0]);
        table.add(vec![
            name.to_owned(),
            format!("{:.0}", median(each)),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
        ]);
    }
    report.tables.push(table);
    // The median of the rounds' own ratios of one contender to another.
    let place = |served: &str| CONTENDERS.iter().position(|(it, _)| *it == served);
    let of = |one: &str, other: &str| {
        let (one, other) = (place(one).context("one")?, place(other).context("another")?);
        anyhow::Ok(Spread::of_ratios(&rates[one], &rates[other]).median)
    };
    let figures = [
        ("layer/of-no-limit", of("tidegate", "none")?, 0.9),
        ("layer/of-tower-governor", of("tidegate", "governor-three")?, 1.0),
        ("layer/of-tower-governor/like-fields", of("tidegate-legacy", "governor-three")?, 1.0),
        ("layer/share", of("share", "none")?, 0.9),
        ("layer/share-beside-rules", of("tidegate-share", "tidegate")?, 0.9),
    ];
    report.figures.extend(figures.map(|(name, value, least)| {
        let target = Target::AtLeast(least);
        Figure { name: name.to_owned(), value, unit: Unit::Ratio, target }
    }));
    Ok(())
}
