//! What a connection costs a server that was asked once on it and hears nothing more.

use anyhow::Result;

use super::progress;
use super::server::{Door, Server};
use crate::figure::{Figure, Target, Unit};
use crate::load::{Clients, Load, Shape, Until};
use crate::order::Random;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::float;

/// Adds the table and its figures.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let head = ["server", "connections", "bytes of each"];
    let mut table = Table::new("idle: resident bytes of a quiet connection".to_owned(), &head);
    for case in CASES {
        let connections = usize::try_from(effort.of(case.connections))?;
        for server in case.servers {
            let name = server.name(case.door);
            progress(&format!("idle, {name}"));
            let weight = weigh(*server, case.door, connections);
            let bytes = weight.as_ref().copied().unwrap_or(f64::NAN);
            table.add(match weight {
                Ok(bytes) => vec![name.to_owned(), connections.to_string(), format!("{bytes:.0}")],
                Err(error) => {
                    progress(&format!("going on without {name}: {error:#}"));
                    vec![format!("{name}: could not be had"), String::new(), String::new()]
                }
            });
            if *server == Server::Tidegate {
                report.figures.push(Figure {
                    name: format!("doors/idle/{}", case.name),
                    value: bytes,
                    unit: Unit::BytesPerConnection,
                    target: Target::AtMost(case.most),
                });
            }
        }
    }
    report.tables.push(table);
    Ok(())
}

/// The growth of a fresh server by so many connections, shared out among them.
fn weigh(server: Server, door: Door, connections: usize) -> Result<f64> {
    let host = server.start()?;
    let open = |connections: usize, requests: u64, talk| {
        let shape = Shape { connections, in_flight: 1, in_step: true, sleeps: true };
        let mut load = Load::open(host.port(door), shape, &talk)?;
        // All about one client, whose key is there: the store does not grow.
        let mut clients = Clients::Any(Random::seeded(1), 1);
        load.saturate(&mut clients, Until::Asked(requests))?;
        anyhow::Ok(load)
    };
    let first = open(1, 1, server.filling(door))?;
    let busy = open(1, BUSY, server.talk(door))?;
    let before = host.resident()?;
    let quiet = open(connections, connections as u64, server.talk(door))?;
    let after = host.resident()?;
    drop((first, busy, quiet));
    Ok(float(after.saturating_sub(before)) / float(connections as u64))
}

struct Case {
    name: &'static str,
    door: Door,
    connections: u64,
    /// Bytes.
    most: f64,
    servers: &'static [Server],
}

const CASES: [Case; 2] = [
    Case {
        name: "resp",
        door: Door::Resp,
        connections: 10_000,
        most: 16.0 * 1_024.0,
        servers: &[Server::Redis, Server::Throttlecrab, Server::Tidegate],
    },
    Case {
        name: "http",
        door: Door::Http,
        connections: 5_000,
        most: 32.0 * 1_024.0,
        servers: &[Server::Throttlecrab, Server::Tidegate],
    },
];
/// Requests before anything is weighed: what a server makes once is there then.
const BUSY: u64 = 1_000;
