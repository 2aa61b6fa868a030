//! Who asks: the client's address behind proxies, and the network that it counts as.
//!
//! Anybody can write any header. An entry counts only when the host that handed it over is trusted,
//! so entries are read from the nearest one outwards and reading stops at the first that is not
//! trusted, or cannot be read: what lies beyond was written by a stranger.

mod entry;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;

use crate::misread::{Misread, did_you_mean, quoted};
use crate::suggest::did_you_mean as nearest;

/// The most entries that are looked at: no request passes so many proxies.
const HOPS_MAX: usize = 64;

/// Which header says who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Believes {
    /// `X-Forwarded-For`
    XForwardedFor,
    /// `Forwarded` of RFC 7239.
    Forwarded,
}

/// Which proxies to believe about who asks, and how wide a client is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Proxies {
    /// With none, headers are ignored.
    pub(crate) trusted: Vec<IpNet>,
    pub(crate) believes: Believes,
    /// How many bits of an IPv4 address make a client.
    pub(crate) ipv4_prefix: u8,
    /// How many bits of an IPv6 address make a client: one household has a whole network.
    pub(crate) ipv6_prefix: u8,
}

/// The network that a client counts as. Displays as a key's part: the address alone when it is one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Group(IpNet);

impl Default for Proxies {
    /// Trusts nobody.
    fn default() -> Proxies {
        Proxies {
            trusted: Vec::new(),
            believes: Believes::XForwardedFor,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        }
    }
}

impl Proxies {
    /// The client's address. `lines` are the values of the header that is believed, as they came.
    pub(crate) fn client<'l>(
        &self,
        peer: Option<IpAddr>,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Option<IpAddr> {
        let mut reached = peer?.to_canonical();
        if !self.trusts(reached) {
            return Some(reached);
        }
        let lines: SmallVec<[&[u8]; 8]> = lines.collect();
        let outwards =
            lines.iter().rev().flat_map(|line| entry::from_the_right(line, self.believes));
        for entry in outwards.take(HOPS_MAX) {
            let Some(address) = entry::address(entry, self.believes) else { break };
            reached = address;
            if !self.trusts(reached) {
                break;
            }
        }
        Some(reached)
    }

    /// The network that a client of this address counts as.
    pub(crate) fn group(&self, address: IpAddr) -> Group {
        let address = address.to_canonical();
        if matches!(address, IpAddr::V4(_)) && 32 <= self.ipv4_prefix {
            return Group(IpNet::from(address));
        }
        let prefix = match address {
            IpAddr::V4(_) => self.ipv4_prefix.min(32),
            IpAddr::V6(_) => self.ipv6_prefix.min(128),
        };
        let network = IpNet::new(address, prefix).unwrap_or_else(|_| IpNet::from(address));
        Group(network.trunc())
    }

    /// As [`Proxies::group`], but for a wider network of IPv6, of so many bits; it is never
    /// narrower than what counts as one client.
    pub(crate) fn group_of(&self, address: IpAddr, ipv6_bits: u8) -> Group {
        let ipv6_prefix = self.ipv6_prefix.min(ipv6_bits);
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = IpNet::new(address.into(), ipv6_prefix.min(128));
                Group(network.unwrap_or_else(|_| IpNet::from(IpAddr::from(address))).trunc())
            }
            address @ IpAddr::V4(_) => self.group(address),
        }
    }

    /// Whether a header has any say in who asks.
    pub(crate) fn believes_anybody(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// The name of the header that is believed, in lower case.
    pub(crate) fn header(&self) -> &'static str {
        match self.believes {
            Believes::XForwardedFor => "x-forwarded-for",
            Believes::Forwarded => "forwarded",
        }
    }

    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            write!(f, "{}", self.0.addr())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// The networks of `text`: one, one address, or those that go by the name `private` or `loopback`.
pub(crate) fn networks(text: &str) -> Result<Vec<IpNet>, Misread> {
    const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
    const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];
    let text = text.trim();
    match text {
        "private" => PRIVATE.into_iter().map(network).collect(),
        "loopback" => LOOPBACK.into_iter().map(network).collect(),
        _ => network(text).map(|network| vec![network]),
    }
}

fn network(text: &str) -> Result<IpNet, Misread> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let Ok(network) = text.parse::<IpNet>().or_else(|_| address()) else {
        let form = "write a network such as `10.0.0.0/8`, an address, `private` or `loopback`";
        let meant = nearest(text, ["private", "loopback"]);
        let message = format!("{} is not a network", quoted(text));
        return Err(Misread::new(message, did_you_mean(meant, form)));
    };
    if network != network.trunc() {
        let message = format!("{} is an address within a network", quoted(text));
        let help = format!("write `{}` for all of it, or `{}`", network.trunc(), network.addr());
        return Err(Misread::new(message, help));
    }
    Ok(unwrapped(network))
}

/// Addresses are unwrapped before they are compared, so networks of wrapped ones are too.
fn unwrapped(network: IpNet) -> IpNet {
    const WRAPPING: u8 = 96;
    let prefix = network.prefix_len().checked_sub(WRAPPING);
    match (network.addr(), network.addr().to_canonical(), prefix) {
        (IpAddr::V6(_), IpAddr::V4(inside), Some(prefix)) => {
            IpNet::new(inside.into(), prefix).unwrap_or(network)
        }
        _ => network,
    }
}

#[cfg(test)]
mod tests;
