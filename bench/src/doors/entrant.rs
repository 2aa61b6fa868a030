//! A server that is ready to be measured, or the reason why it is not.

use anyhow::Result;

use super::host::Host;
use super::progress;
use super::server::{Door, Server};
use crate::load::{Clients, Load, Shape, Until};

/// What cannot be had makes a row that says so, and figures that do not hold.
pub(super) struct Entrant {
    pub(super) server: Server,
    pub(super) host: Result<Host>,
}

impl Entrant {
    /// Starts each, and has it asked once about each of its clients.
    pub(super) fn all(servers: &[Server], door: Door, clients: u32) -> Vec<Self> {
        servers.iter().map(|server| Self::new(*server, door, clients)).collect()
    }

    fn new(server: Server, door: Door, clients: u32) -> Self {
        let host = server.start().and_then(|host| {
            progress(&format!("filling {}", server.name(door)));
            fill(server, &host, door, clients)?;
            Ok(host)
        });
        if let Err(error) = &host {
            progress(&format!("going on without {}: {error:#}", server.name(door)));
        }
        Self { server, host }
    }

    pub(super) fn name(&self, door: Door) -> String {
        let name = self.server.name(door);
        match &self.host {
            Ok(_) => name.to_owned(),
            Err(_) => format!("{name}: could not be had"),
        }
    }
}

/// Asks once about each client, so that all keys are there.
pub(super) fn fill(server: Server, host: &Host, door: Door, clients: u32) -> Result<()> {
    let in_flight = if door == Door::Resp { 16 } else { 1 };
    let shape = Shape { connections: 50, in_flight, in_step: true, sleeps: true };
    let mut load = Load::open(host.port(door), shape, &server.filling(door))?;
    load.saturate(&mut Clients::InTurn(0), Until::Asked(clients.into()))?;
    Ok(())
}
