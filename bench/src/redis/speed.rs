//! Decisions per second, both sides in turn in every round.

use std::time::Duration;

use ::tidegate::Kind;
use anyhow::{Result, ensure};

use super::Wanted;
use super::host::Host;
use super::side::{Crowd, Lap, Side};
use super::time::Time;
use super::traffic::{Expects, Scene, Traffic, scenes};
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median, micros};

/// Adds a table and a figure for every algorithm under every traffic.
pub(super) async fn add_to(
    report: &mut Report,
    host: &Host,
    effort: Effort,
    wanted: Wanted<'_>,
) -> Result<()> {
    for kind in KINDS.into_iter().filter(|kind| wanted.has(&kind.to_string())) {
        for scene in scenes(effort) {
            let traffic = || scene.traffic.iter().filter(|it| wanted.measures(it.name));
            if traffic().next().is_none() {
                continue;
            }
            host.flush()?;
            let sides = Side::pair(&host.url(), kind, scene.quota, &Time::OfDay).await?;
            for side in &sides {
                fill(side, &scene).await?;
            }
            for traffic in traffic() {
                let [plain, ours] = measure(host, &sides, &scene, traffic, effort).await?;
                let ratio = Spread::of_ratios(&ours.speeds, &plain.speeds);
                report.tables.push(table(kind, traffic, &[plain, ours]));
                report.figures.push(Figure {
                    name: format!("redis/{}/{kind}", traffic.name),
                    value: ratio.median,
                    unit: Unit::Ratio,
                    target: Target::AtLeast(traffic.target),
                });
            }
        }
    }
    Ok(())
}

/// One side under one traffic, one value a round.
struct Row {
    name: &'static str,
    /// Decisions per second.
    speeds: Vec<f64>,
    /// Microseconds that half of the decisions took at most.
    medians: Vec<f64>,
    /// The same for all but one in a hundred.
    tails: Vec<f64>,
    /// Microseconds of the server's processor for one decision.
    server: Vec<f64>,
    /// The same of ours.
    client: Vec<f64>,
    decisions: u64,
    admitted: u64,
}

impl Row {
    fn new(side: &Side) -> Self {
        Self {
            name: side.name(),
            speeds: Vec::new(),
            medians: Vec::new(),
            tails: Vec::new(),
            server: Vec::new(),
            client: Vec::new(),
            decisions: 0,
            admitted: 0,
        }
    }

    fn add(&mut self, lap: &Lap, server_cpu: Duration) {
        let decisions = float(lap.decisions);
        self.speeds.push(decisions / lap.wall.as_secs_f64());
        self.medians.push(micros(lap.latencies.all_but(2)));
        self.tails.push(micros(lap.latencies.all_but(100)));
        self.server.push(micros(server_cpu) / decisions);
        self.client.push(micros(lap.client_cpu) / decisions);
        self.decisions += lap.decisions;
        self.admitted += lap.admitted;
    }
}

/// Has every client asked about as often as the scene wants.
async fn fill(side: &Side, scene: &Scene) -> Result<()> {
    for pass in 0..scene.passes() {
        let (admitted, expected) = (side.pass(scene.clients).await?, scene.admits(pass));
        let name = side.name();
        ensure!(admitted == expected, "{name} admits `{admitted}` of `{expected}` while filling");
    }
    Ok(())
}

async fn measure(
    host: &Host,
    sides: &[Side; 2],
    scene: &Scene,
    traffic: &Traffic,
    effort: Effort,
) -> Result<[Row; 2]> {
    let mut rows = [Row::new(&sides[0]), Row::new(&sides[1])];
    for round in 0..ROUNDS {
        for turn in 0..sides.len() {
            // Who begins changes with every round.
            let place = (turn + round) % sides.len();
            let crowd = Crowd {
                tasks: traffic.tasks,
                clients: scene.clients,
                round: WARM_UP_ROUND + 1 + round as u64,
            };
            let (lap, server_cpu) = time(host, &sides[place], crowd, effort).await?;
            let expected = if scene.expects == Expects::AllPass { lap.decisions } else { 0 };
            let (name, admitted) = (rows[place].name, lap.admitted);
            ensure!(admitted == expected, "{name} admits `{admitted}` instead of `{expected}`");
            rows[place].add(&lap, server_cpu);
        }
    }
    Ok(rows)
}

/// One turn of one side, and the server's processor time in it.
async fn time(host: &Host, side: &Side, crowd: Crowd, effort: Effort) -> Result<(Lap, Duration)> {
    side.lap(Crowd { round: WARM_UP_ROUND, ..crowd }, effort.of_time(TURN) / WARM_UP).await?;
    let before = host.cpu()?;
    let lap = side.lap(crowd, effort.of_time(TURN)).await?;
    Ok((lap, host.cpu()?.saturating_sub(before)))
}

fn table(kind: Kind, traffic: &Traffic, rows: &[Row; 2]) -> Table {
    let title = format!("{} {kind}: {}", traffic.name, traffic.about);
    let mut table = Table::new(title, &HEAD);
    for row in rows {
        let ratio = Spread::of_ratios(&row.speeds, &rows[0].speeds);
        table.add(vec![
            row.name.to_owned(),
            format!("{:.0}", median(&row.speeds)),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
            format!("{:.1}", median(&row.medians)),
            format!("{:.1}", median(&row.tails)),
            format!("{:.2}", median(&row.server)),
            format!("{:.2}", median(&row.client)),
            format!("{:.1} %", 100.0 * float(row.admitted) / float(row.decisions)),
        ]);
    }
    table
}

const HEAD: [&str; 9] = [
    "side",
    "decisions/s",
    "of plain",
    "least..greatest",
    "us p50",
    "us p99",
    "server us",
    "client us",
    "admitted",
];
const KINDS: [Kind; 2] = [Kind::TokenBucket, Kind::Gcra];
/// Many and short: what else the machine does then falls on both sides of a round.
const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(500);
/// A sixteenth of a turn is played before the timer starts.
const WARM_UP: u32 = 16;
const WARM_UP_ROUND: u64 = 0;
