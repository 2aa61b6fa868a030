//! The service with and without limits, in turn.

use std::time::Duration;

use anyhow::Result;

use super::load::Served;
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, median};

/// What is served, and its name in the table.
const CONTENDERS: [(&str, &str); 7] = [
    ("none", "none"),
    ("tidegate", "tidegate, three rules"),
    ("tidegate-none", "tidegate, three rules, `headers: none`"),
    ("governor", "tower_governor, one limit"),
    ("governor-three", "tower_governor, three limits"),
    ("tidegate-share", "tidegate, three rules and a share"),
    ("share", "tidegate, a share alone"),
];
/// Short and many: what disturbs a machine lasts for seconds, and should disturb neighbors alike.
const ROUNDS: usize = 27;
const ROUND: Duration = Duration::from_secs(1);

/// Adds the table and its figures.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let rounds = if effort == Effort::Quick { 1 } else { ROUNDS };
    let served: Vec<Served> =
        CONTENDERS.iter().map(|(served, _)| Served::start(served)).collect::<Result<_>>()?;
    let mut rates = vec![Vec::new(); CONTENDERS.len()];
    for service in &served {
        service.load(Duration::from_secs(1))?;
    }
    for _ in 0..rounds {
        for (service, rates) in served.iter().zip(&mut rates) {
            rates.push(service.load(effort.of_time(ROUND))?);
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
    let mut figure = |name: &str, value: f64, least: f64| {
        let target = Target::AtLeast(least);
        report.figures.push(Figure { name: name.to_owned(), value, unit: Unit::Ratio, target });
    };
    figure("layer/of-no-limit", Spread::of_ratios(&rates[1], &rates[0]).median, 0.9);
    let same_limits = Spread::of_ratios(&rates[1], &rates[4]).median;
    figure("layer/of-tower-governor", same_limits, 1.0);
    figure("layer/share", Spread::of_ratios(&rates[6], &rates[0]).median, 0.9);
    figure("layer/share-beside-rules", Spread::of_ratios(&rates[5], &rates[1]).median, 0.9);
    Ok(())
}
