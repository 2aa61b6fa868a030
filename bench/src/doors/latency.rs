//! How long an answer takes at half of the load that a server can bear.
//!
//! Requests come when they are due, whether or not others were answered, and their time runs from
//! then: a server that pauses is late for all who came meanwhile.

use std::time::Duration;

use anyhow::Result;

use super::entrant::Entrant;
use super::host::Host;
use super::load::{Clients, Load, Until};
use super::progress;
use super::server::{Door, Server};
use super::speed::{clients, plain_shape};
use crate::figure::{Figure, Target, Unit};
use crate::order::Random;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median, micros};

/// Adds the table and the figures of all doors.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let title = "latency: microseconds at half of the most that each server can do";
    let mut table = Table::new(title.to_owned(), &HEAD);
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
    /// What all but one in a hundred stayed within.
    tails: Vec<f64>,
    longest: Vec<f64>,
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
    let latencies = load.pace(&mut clients, rate, effort.of_time(TURN))?;
    row.rates.push(rate);
    row.medians.push(micros(latencies.all_but(2)));
    row.tails.push(micros(latencies.all_but(100)));
    row.longest.push(micros(latencies.longest()));
    Ok(())
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

const HEAD: [&str; 6] =
    ["server", "requests/s", "us p50", "us p99", "least..greatest", "us longest"];
const DOORS: [(&str, Door, &[Server]); 3] = [
    ("resp", Door::Resp, &[Server::Redis, Server::Throttlecrab, Server::Tidegate]),
    ("http", Door::Http, &[Server::Throttlecrab, Server::Tidegate]),
    ("grpc", Door::Grpc, &[Server::Throttlecrab, Server::Tidegate]),
];
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(2);
