//! Why there is no store to decide with: what `connect` found, and what to change.
//!
//! No message ever holds a password.

use std::fmt;

/// Why a store could not be connected to. The text says which setting to change.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one that we understand.
    BadUrl {
        /// What is wrong with it, quoting the part that is.
        reason: String,
    },
    /// A certificate or key could not be read.
    BadCertificate {
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers at the address.
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// A server answers at the address, and is not the one that it should be.
    Untrusted {
        /// Host and port.
        address: String,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The server wants a password, or another one.
    Unauthorized {
        /// Host and port.
        address: String,
        /// What the server said.
        reason: String,
    },
    /// The user may not run what the store needs.
    NoPermission {
        /// Host and port.
        address: String,
        /// What the server said.
        reason: String,
    },
    /// The server lacks what the scripts need.
    TooOld {
        /// Host and port.
        address: String,
        /// What it says it is.
        version: String,
    },
    /// A cluster was asked for, and the server is none.
    NotACluster {
        /// Host and port.
        address: String,
    },
    /// One server was asked for, and it is part of a cluster.
    IsACluster {
        /// Host and port.
        address: String,
    },
    /// The sentinels that answered do not know the name.
    UnknownMaster {
        /// The name that was asked for.
        name: String,
        /// The sentinels that were asked.
        sentinels: String,
    },
    /// The server is a replica, which cannot be written to.
    OnlyReplica {
        /// Host and port.
        address: String,
    },
    /// The server is reading its data from disk.
    Loading {
        /// Host and port.
        address: String,
    },
    /// The server answered with something else than we expected.
    Unexpected {
        /// Host and port.
        address: String,
        /// What it answered.
        reason: String,
    },
}

impl ConnectError {
    /// Whether time may mend it, without anybody changing the settings.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, ConnectError::Unreachable { .. } | ConnectError::Loading { .. })
    }
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConnectError as E;
        match self {
            E::BadUrl { reason } => write!(f, "{reason}, for example {EXAMPLES}"),
            E::BadCertificate { reason } => {
                write!(f, "{reason}; give certificates and keys as PEM")
            }
            E::Unreachable { address, reason } => {
                write!(f, "nobody answers at `{address}` ({reason}); {CHECK_ADDRESS}")
            }
            E::Untrusted { address, reason } => {
                write!(f, "`{address}` cannot be trusted ({reason}); {CHECK_CERTIFICATE}")
            }
            E::Unauthorized { address, reason } => {
                write!(f, "`{address}` does not let us in ({reason}); {CHECK_PASSWORD}")
            }
            E::NoPermission { address, reason } => {
                write!(f, "the user may not do what is needed at `{address}` ({reason}); {ACL}")
            }
            E::TooOld { address, version } => {
                write!(f, "`{address}` is {version}; use a 64-bit Redis 6.2 or later, or Valkey")
            }
            E::NotACluster { address } => {
                write!(f, "`{address}` is not part of a cluster; use `redis://{address}`")
            }
            E::IsACluster { address } => {
                write!(f, "`{address}` is part of a cluster; use `redis+cluster://{address}`")
            }
            E::UnknownMaster { name, sentinels } => write!(
                f,
                "no sentinel of `{sentinels}` knows a master `{name}`; use the name that \
                 `sentinel monitor <name> …` has in their configuration"
            ),
            E::OnlyReplica { address } => write!(
                f,
                "`{address}` is a replica; name the primary, or let Sentinel find it with \
                 `redis+sentinel://sentinel:26379/mymaster`"
            ),
            E::Loading { address } => {
                write!(f, "`{address}` is still reading its data from disk; wait for it")
            }
            E::Unexpected { address, reason } => {
                write!(f, "`{address}` answered `{reason}`; is it a Redis or Valkey server?")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

const EXAMPLES: &str = "`redis://user:password@host:6379/0`, `rediss://host:6379` for TLS, \
    `redis+sentinel://host:26379,host:26379/mymaster` or `redis+cluster://host:6379,host:6379`";

const CHECK_ADDRESS: &str = "check host and port, that the server runs and that its `bind` \
    setting lets us reach it; use `rediss://` if it speaks TLS only";

const CHECK_CERTIFICATE: &str = "name the authority that signed its certificate, use the host name \
    that stands in it, and give a certificate of your own if it asks for one";

const CHECK_PASSWORD: &str = "put user and password into the URL as `redis://user:password@host`, \
    or `redis://:password@host` if it has `requirepass` only";

/// Only what Redis 6.2 knows: one word that it does not know makes a server refuse the line.
const ACL: &str = "it needs EVALSHA, EVAL, GET, MGET, SET, PSETEX, INCRBY, PEXPIREAT, DEL, TIME, \
    EXISTS, INFO, and CLUSTER SLOTS and ASKING in a cluster; SCRIPT LOAD is not needed; for \
    example `ACL SETUSER tidegate on >password ~tg:* +evalsha +eval +get +mget +set +psetex \
    +incrby +pexpireat +del +time +exists +info +cluster|slots +asking +select +client|setname`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_to_do() {
        let address = || "h:1".to_owned();
        let reason = || "r".to_owned();
        let all = [
            (ConnectError::BadUrl { reason: reason() }, "redis+sentinel://"),
            (ConnectError::BadCertificate { reason: reason() }, "PEM"),
            (ConnectError::Unreachable { address: address(), reason: reason() }, "check host"),
            (ConnectError::Untrusted { address: address(), reason: reason() }, "authority"),
            (ConnectError::Unauthorized { address: address(), reason: reason() }, "password@"),
            (ConnectError::NoPermission { address: address(), reason: reason() }, "ACL SETUSER"),
            (ConnectError::TooOld { address: address(), version: reason() }, "6.2"),
            (ConnectError::NotACluster { address: address() }, "`redis://h:1`"),
            (ConnectError::IsACluster { address: address() }, "`redis+cluster://h:1`"),
            (
                ConnectError::UnknownMaster { name: reason(), sentinels: address() },
                "sentinel monitor",
            ),
            (ConnectError::OnlyReplica { address: address() }, "name the primary"),
            (ConnectError::Loading { address: address() }, "wait for it"),
            (ConnectError::Unexpected { address: address(), reason: reason() }, "is it a Redis"),
        ];
        for (error, advice) in all {
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
