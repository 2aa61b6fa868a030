//! Decisions per second at one door, and what the server's processor spends on each.

use std::time::Duration;

use anyhow::Result;

use super::entrant::Entrant;
use super::host::Host;
use super::progress;
use super::server::{Door, Server};
use crate::figure::{Figure, Target, Unit};
use crate::load::{Clients, Lap, Load, Shape, Until};
use crate::order::Random;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median, micros};

/// One way to load one door.
struct Race {
    name: &'static str,
    about: &'static str,
    door: Door,
    shape: Shape,
    /// What ours has to reach at least, as a multiple of whose speed.
    targets: &'static [(Server, &'static str, f64)],
    /// Whether ours may spend no more of the processor than Redis.
    bounds_cpu: bool,
}

/// Adds the table and the figures of every race at a door.
pub(super) fn add_to(report: &mut Report, door: Door, effort: Effort) -> Result<()> {
    let servers: &[Server] = match door {
        Door::Resp => &[Server::Redis, Server::RedisCell, Server::Throttlecrab, Server::Tidegate],
        Door::Http | Door::Grpc => &[Server::Throttlecrab, Server::Tidegate],
    };
    let entrants = Entrant::all(servers, door, clients(effort));
    for race in RACES.iter().filter(|race| race.door == door) {
        let rows = run(race, &entrants, effort)?;
        report.tables.push(table(race, &entrants, &rows));
        report.figures.extend(figures(race, &entrants, &rows));
    }
    Ok(())
}

/// One server's rounds; empty if it could not be had.
#[derive(Default)]
struct Row {
    /// Decisions per second.
    speeds: Vec<f64>,
    /// Microseconds of the server's processor for one decision.
    server: Vec<f64>,
    /// The same of the load's.
    load: Vec<f64>,
}

impl Row {
    fn add(&mut self, lap: &Lap, server_cpu: Duration) {
        let decisions = float(lap.replies);
        self.speeds.push(decisions / lap.wall.as_secs_f64());
        self.server.push(micros(server_cpu) / decisions);
        self.load.push(micros(lap.cpu) / decisions);
    }
}

fn run(race: &Race, entrants: &[Entrant], effort: Effort) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = entrants.iter().map(|_| Row::default()).collect();
    let rounds = if effort == Effort::Quick { 2 } else { ROUNDS };
    for round in 0..rounds {
        progress(&format!("{}, round {} of {rounds}", race.name, round + 1));
        for turn in 0..entrants.len() {
            // Who begins changes with every round.
            let place = (turn + round) % entrants.len();
            if let Ok(host) = &entrants[place].host {
                let (lap, cpu) = lap(race, entrants[place].server, host, round, effort)?;
                rows[place].add(&lap, cpu);
            }
        }
    }
    Ok(rows)
}

fn lap(
    race: &Race,
    server: Server,
    host: &Host,
    round: usize,
    effort: Effort,
) -> Result<(Lap, Duration)> {
    let mut clients = Clients::Any(Random::seeded(round as u64), clients(effort));
    let mut load = Load::open(host.port(race.door), race.shape, &server.talk(race.door))?;
    let turn = effort.of_time(TURN);
    load.saturate(&mut clients, Until::After(turn / WARM_UP))?;
    let before = host.cpu()?;
    let lap = load.saturate(&mut clients, Until::After(turn))?;
    Ok((lap, host.cpu()?.saturating_sub(before)))
}

fn row_of<'a>(server: Server, entrants: &[Entrant], rows: &'a [Row]) -> Option<&'a Row> {
    let place = entrants.iter().position(|entrant| entrant.server == server)?;
    rows.get(place).filter(|row| !row.speeds.is_empty())
}

fn table(race: &Race, entrants: &[Entrant], rows: &[Row]) -> Table {
    let base = entrants.first().map_or("", |entrant| entrant.server.name(race.door));
    let of_base = format!("of {base}");
    let head =
        ["server", "decisions/s", &of_base, "least..greatest", "server us", "busy", "load us"];
    let mut table = Table::new(format!("{}: {}", race.name, race.about), &head);
    for (entrant, row) in entrants.iter().zip(rows) {
        let mut cells = vec![entrant.name(race.door)];
        if row.speeds.is_empty() {
            cells.resize(head.len(), String::new());
            table.add(cells);
            continue;
        }
        let ratio = row_of(entrants[0].server, entrants, rows)
            .map(|base| Spread::of_ratios(&row.speeds, &base.speeds));
        let (speed, server) = (median(&row.speeds), median(&row.server));
        cells.push(format!("{speed:.0}"));
        cells.push(ratio.map_or(String::new(), |ratio| format!("{:.3}", ratio.median)));
        cells.push(
            ratio.map_or(String::new(), |ratio| {
                format!("{:.3}..{:.3}", ratio.least, ratio.greatest)
            }),
        );
        cells.push(format!("{server:.2}"));
        cells.push(format!("{:.0} %", speed * server / 1e4));
        cells.push(format!("{:.2}", median(&row.load)));
        table.add(cells);
    }
    if race.door == Door::Grpc {
        let mut cells = vec![NO_LIMITADOR.to_owned()];
        cells.resize(head.len(), String::new());
        table.add(cells);
    }
    table
}

/// Not a number where one of the two could not be had.
fn figures(race: &Race, entrants: &[Entrant], rows: &[Row]) -> Vec<Figure> {
    let ours = row_of(Server::Tidegate, entrants, rows);
    let ratio = |peer: Server, of: fn(&Row) -> &Vec<f64>| {
        let pair = ours.zip(row_of(peer, entrants, rows));
        pair.map_or(f64::NAN, |(ours, peer)| Spread::of_ratios(of(ours), of(peer)).median)
    };
    let mut figures: Vec<Figure> = race
        .targets
        .iter()
        .map(|(peer, name, least)| Figure {
            name: format!("doors/{}/of-{name}", race.name),
            value: ratio(*peer, |row| &row.speeds),
            unit: Unit::Ratio,
            target: Target::AtLeast(*least),
        })
        .collect();
    if race.bounds_cpu {
        figures.push(Figure {
            name: format!("doors/{}/cpu-of-redis-get", race.name),
            value: ratio(Server::Redis, |row| &row.server),
            unit: Unit::Ratio,
            target: Target::AtMost(1.0),
        });
    }
    figures
}

/// As many keys as Redis and each limiter hold.
pub(super) fn clients(effort: Effort) -> u32 {
    u32::try_from(effort.of(100_000)).expect("a small number")
}

/// Fifty connections, each with so many commands in flight.
const fn pipeline(in_flight: usize) -> Shape {
    Shape { connections: 50, in_flight, in_step: true, sleeps: true }
}

/// The shape in which a door is loaded when nobody waits for anybody else.
pub(super) const fn plain_shape(door: Door) -> Shape {
    match door {
        Door::Resp | Door::Http => pipeline(1),
        Door::Grpc => Shape { connections: 8, in_flight: 8, in_step: false, sleeps: true },
    }
}

const RACES: [Race; 5] = [
    Race {
        name: "resp-p1",
        about: "the Redis protocol, 50 connections, one command at a time",
        door: Door::Resp,
        shape: plain_shape(Door::Resp),
        targets: &[(Server::Redis, "redis-get", 1.0), (Server::Throttlecrab, "throttlecrab", 1.2)],
        bounds_cpu: false,
    },
    Race {
        name: "resp-p16",
        about: "the same, 16 commands in a pipeline",
        door: Door::Resp,
        shape: pipeline(16),
        targets: &PIPELINED,
        bounds_cpu: false,
    },
    Race {
        name: "resp-p64",
        about: "the same, 64 commands in a pipeline",
        door: Door::Resp,
        shape: pipeline(64),
        targets: &PIPELINED,
        bounds_cpu: true,
    },
    Race {
        name: "http",
        about: "HTTP/1.1 with keep-alive, 50 connections",
        door: Door::Http,
        shape: plain_shape(Door::Http),
        targets: &[(Server::Throttlecrab, "throttlecrab", 1.3)],
        bounds_cpu: false,
    },
    Race {
        name: "grpc",
        about: "gRPC, 8 connections with 8 calls in flight each",
        door: Door::Grpc,
        shape: plain_shape(Door::Grpc),
        targets: &[(Server::Throttlecrab, "throttlecrab", 1.0)],
        bounds_cpu: false,
    },
];
const PIPELINED: [(Server, &str, f64); 3] = [
    (Server::Redis, "redis-get", 1.0),
    (Server::RedisCell, "redis-cell", 2.0),
    (Server::Throttlecrab, "throttlecrab", 5.0),
];
/// It has a target of its own, twice its speed, for those who have it.
const NO_LIMITADOR: &str = "limitador-server: not published on crates.io, could not be had";
const ROUNDS: usize = 9;
const TURN: Duration = Duration::from_secs(1);
/// An eighth of a turn is played before the timer starts.
const WARM_UP: u32 = 8;
