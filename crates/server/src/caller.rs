//! The caller of a request, where something is held for the caller.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The caller, by the best identity that is known.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Caller {
    /// By the line of the token file that has its token.
    Token(u32),
    /// By the beginning of its certificate's digest.
    Certificate(u64),
    /// By its address; of IPv6, by the network of 64 bits, which one machine may have for itself.
    Address(IpAddr),
    /// A client behind a proxy that asks for it, by the digest of a key.
    Key(u64),
}

impl Caller {
    pub(crate) fn at(address: IpAddr) -> Caller {
        Caller::Address(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(whole) => Ipv6Addr::from_bits(whole.to_bits() >> 64 << 64).into(),
        })
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Token(line) => write!(f, "token:{line}"),
            Caller::Certificate(digest) => write!(f, "certificate:{digest:016x}"),
            Caller::Address(address) => write!(f, "address:{address}"),
            Caller::Key(digest) => write!(f, "key:{digest:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_one_machine_has_is_one_caller() {
        let at = |address: &str| Caller::at(address.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_eq!(at("2001:db8::1").to_string(), "address:2001:db8::");
        assert_eq!(Caller::Certificate(1).to_string(), "certificate:0000000000000001");
    }
}
