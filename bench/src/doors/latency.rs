//! How long an answer takes at half of the load that a server can bear.
//!
//! Requests come when they are due, whether or not others were answered, and their time runs from
//! then: a server that pauses is late for all who came meanwhile. So is one whose core is taken
//! away, which virtual machines suffer all the time: tails are those of tenths of a second, of
//! which the median is reported, beside the tail of all, and beside a loop that does nothing.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::entrant::Entrant;
use super::host::{Host, run_on_server_core};
use super::progress;
use super::server::{Door, Server};
use super::speed::{clients, plain_shape};
use crate::figure::{Figure, Target, Unit};
use crate::histogram::Histogram;
use crate::load::{Clients, Load, Until};
use crate::order::Random;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median, micros};
use crate::timer;

/// Adds the table and the figures of all doors.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let title = "latency: microseconds at half of the most that each server can do";
    let mut table = Table::new(title.to_owned(), &HEAD);
    table.add(cells("a loop that answers at once".to_owned(), &alone(effort)?));
    for (name, door, servers) in DOORS {
        let entrants = Entrant::all(servers, door, clients(effort));
        let rows = run(name, door, &entrants, effort)?;
        for (entrant, row) in entrants.iter().zip(&rows) {
            table.add(cells(entrant.name(door), row));
            if entrant.server == Server::Tidegate {
                report.figures.push(figure(name, row));
            }
        }
    }
    report.tables.push(table);
    Ok(())
}

/// One server's rounds; empty if it could not be had.
#[derive(Default)]
struct Row {
    /// Requests per second.
    rates: Vec<f64>,
    medians: Vec<f64>,
    /// What all but one in a hundred stayed within, of each tenth of a second.
    tails: Vec<f64>,
    /// The same, of a whole round.
    whole_tails: Vec<f64>,
    longest: Vec<f64>,
}

impl Row {
    /// One round, its tenths measured by `pace`.
    fn add(
        &mut self,
        rate: f64,
        time: Duration,
        mut pace: impl FnMut() -> Result<Histogram>,
    ) -> Result<()> {
        let mut all = Histogram::new();
        for _ in 0..(time.as_millis() / TENTH.as_millis()).max(1) {
            let latencies = pace()?;
            self.tails.push(micros(latencies.all_but(100)));
            all.merge(&latencies);
        }
        self.rates.push(rate);
        self.medians.push(micros(all.all_but(2)));
        self.whole_tails.push(micros(all.all_but(100)));
        self.longest.push(micros(all.longest()));
        Ok(())
    }
}

/// What the machine does to whoever answers in no time at all on the server's core.
fn alone(effort: Effort) -> Result<Row> {
    progress("latency, a loop that answers at once");
    let (rate, mut row) = (50_000.0, Row::default());
    let looping = thread::spawn(move || {
        run_on_server_core()?;
        row.add(rate, effort.of_time(TURN), || Ok(lateness(rate)))?;
        anyhow::Ok(row)
    });
    looping.join().map_err(|_| anyhow!("the loop has panicked"))?
}

/// How late a loop is that does nothing but look at the clock, for a tenth of a second.
fn lateness(rate: f64) -> Histogram {
    let mut late = Histogram::new();
    let step = Duration::from_secs_f64(1.0 / rate);
    let mut due = timer::now();
    let end = due + TENTH;
    while due < end {
        let now = timer::now();
        while due <= now && due < end {
            late.add(now - due);
            due += step;
        }
    }
    late
}

fn run(name: &str, door: Door, entrants: &[Entrant], effort: Effort) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = entrants.iter().map(|_| Row::default()).collect();
    let rounds = if effort == Effort::Quick { 1 } else { ROUNDS };
    for round in 0..rounds {
        progress(&format!("latency, {name}, round {} of {rounds}", round + 1));
        for (entrant, row) in entrants.iter().zip(&mut rows) {
            if let Ok(host) = &entrant.host {
                turn(row, entrant.server, host, door, effort)?;
            }
        }
    }
    Ok(rows)
}

fn turn(row: &mut Row, server: Server, host: &Host, door: Door, effort: Effort) -> Result<()> {
    let mut clients = Clients::Any(Random::seeded(1), clients(effort));
    let mut load = Load::open(host.port(door), plain_shape(door), &server.talk(door))?;
    let most = load.saturate(&mut clients, Until::After(effort.of_time(TURN) / 2))?;
    let rate = float(most.replies) / most.wall.as_secs_f64() / 2.0;
    row.add(rate, effort.of_time(TURN), || load.pace(&mut clients, rate, TENTH))
}

fn cells(name: String, row: &Row) -> Vec<String> {
    if row.tails.is_empty() {
        let mut cells = vec![name];
        cells.resize(HEAD.len(), String::new());
        return cells;
    }
    let tails = Spread::of(&row.tails);
    vec![
        name,
        format!("{:.0}", median(&row.rates)),
        format!("{:.0}", median(&row.medians)),
        format!("{:.0}", tails.median),
        format!("{:.0}..{:.0}", tails.least, tails.greatest),
        format!("{:.0}", median(&row.whole_tails)),
        format!("{:.0}", median(&row.longest)),
    ]
}

fn figure(name: &str, row: &Row) -> Figure {
    Figure {
        name: format!("doors/latency/{name}"),
        value: if row.tails.is_empty() { f64::NAN } else { median(&row.tails) },
        unit: Unit::Microseconds,
        target: Target::AtMost(1_000.0),
    }
}

const HEAD: [&str; 7] = [
    "server",
    "requests/s",
    "us p50",
    "us p99 in a tenth",
    "least..greatest",
    "us p99 of all",
    "us longest",
];
const DOORS: [(&str, Door, &[Server]); 3] = [
    ("resp", Door::Resp, &[Server::Redis, Server::Throttlecrab, Server::Tidegate]),
    ("http", Door::Http, &[Server::Throttlecrab, Server::Tidegate]),
    ("grpc", Door::Grpc, &[Server::Throttlecrab, Server::Tidegate]),
];
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(2);
/// Short enough that most of them see no stall of the machine, with thousands of requests each.
const TENTH: Duration = Duration::from_millis(100);
