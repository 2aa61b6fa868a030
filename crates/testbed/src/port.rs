//! Ports on the loopback, each for one server until that is dropped.
//!
//! They lie below what the system gives to outgoing connections, so that none of those takes the
//! port of a server that is down for a moment; and each is claimed by a UDP socket of the same
//! number, which no server uses, so that no two test processes choose the same.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use anyhow::{Result, bail};

use crate::folder::chance;

#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Holds the number against other test processes.
    _claim: UdpSocket,
}

impl Port {
    /// A port where nothing listens, nor on its cluster bus.
    pub(crate) fn claim() -> Result<Port> {
        for _ in 0..ATTEMPTS {
            if let Some(port) = Port::try_claim(FIRST + random_below(COUNT)) {
                return Ok(port);
            }
        }
        bail!("no free port from {FIRST} on: end some of what listens there")
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// Where cluster nodes talk to each other; servers before 7.0 know no other place.
    pub(crate) const fn bus(&self) -> u16 {
        self.number + BUS_OFFSET
    }

    fn try_claim(number: u16) -> Option<Port> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number + BUS_OFFSET)).ok()?;
        Some(Port { number, _claim: claim })
    }
}

fn random_below(count: u16) -> u16 {
    u16::try_from(chance() % u64::from(count)).unwrap_or_default()
}

const FIRST: u16 = 11_000;
const COUNT: u16 = 9_000;
const BUS_OFFSET: u16 = 10_000;
const ATTEMPTS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_not_given_twice() {
        let port = Port::claim().unwrap();
        assert!(Port::try_claim(port.number()).is_none());
    }

    #[test]
    fn neither_is_one_where_something_listens() {
        let number = Port::claim().unwrap().number();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        assert!(Port::try_claim(number).is_none());
        drop(listener);
    }
}
