//! What a server says about itself, and whether it will do.
//!
//! One `INFO` tells it all: version, role, cluster, loading, eviction. It is answered even while a
//! server loads its data.

use redis::{Pipeline, ServerError, Value};

use super::pipe::{Loss, Pipe};
use crate::error::ConnectError;
use crate::settings::Address;

/// What a server says about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Info {
    /// As `redis 7.2.4`.
    pub(super) server: String,
    pub(super) role: String,
    pub(super) is_cluster: bool,
    /// Another one after each start; empty where something in between hides it.
    pub(super) run_id: String,
    is_loading: bool,
    is_too_old: bool,
    /// What is wrong with the eviction policy.
    pub(super) eviction: Option<String>,
}

/// What we need a server to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wanted {
    /// A primary that is no part of a cluster.
    Primary,
    /// A server of a cluster, in whatever role: replicas send us on.
    ClusterNode,
}

impl Info {
    /// Asks a new connection what it leads to, and that our user may run scripts there.
    pub(super) async fn ask(pipe: &Pipe, address: &Address) -> Result<Info, ConnectError> {
        let mut questions = Pipeline::with_capacity(3);
        questions.cmd("CLIENT").arg("SETNAME").arg("tidegate");
        questions.cmd("INFO");
        questions.cmd("EVAL").arg("return redis.call('TIME')").arg(0);
        let answers = pipe.ask(&questions).await.map_err(|loss| lost(&loss, address))?;
        // Nothing depends on the name, so a user that may not set it may stay without.
        let [_named, info, script] = &answers[..] else {
            return Err(unexpected(address, "too few answers"));
        };
        let info = Info::parse(&text(info, address)?);
        match script {
            // It is said again, with more, by `check`.
            Value::ServerError(error) if matches!(error.code(), "LOADING" | "MASTERDOWN") => {}
            Value::ServerError(error) => return Err(refused(error, address)),
            _ => {}
        }
        Ok(info)
    }

    /// Whether the server will do for what we want of it.
    pub(super) fn check(&self, wanted: Wanted, address: &Address) -> Result<(), ConnectError> {
        let address = address.to_string();
        if self.is_too_old {
            return Err(ConnectError::TooOld { address, version: self.server.clone() });
        }
        match wanted {
            Wanted::Primary if self.is_cluster => Err(ConnectError::IsACluster { address }),
            Wanted::ClusterNode if !self.is_cluster => Err(ConnectError::NotACluster { address }),
            Wanted::Primary if self.role == "slave" => Err(ConnectError::OnlyReplica { address }),
            _ if self.is_loading => Err(ConnectError::Loading { address }),
            Wanted::Primary | Wanted::ClusterNode => Ok(()),
        }
    }

    fn parse(text: &str) -> Info {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("")
        };
        let is_valkey = field("server_name") == "valkey";
        let (name, version) = if is_valkey {
            ("valkey", field("valkey_version"))
        } else {
            ("redis", field("redis_version"))
        };
        // Scripts write ticks as whole numbers of the server's own width.
        let is_narrow = field("arch_bits") == "32";
        let bits = if is_narrow { " of 32 bits" } else { "" };
        Info {
            server: format!("{name} {version}{bits}"),
            role: field("role").to_owned(),
            is_cluster: field("cluster_enabled") == "1",
            run_id: field("run_id").to_owned(),
            is_loading: field("loading") == "1",
            is_too_old: is_narrow || (!is_valkey && is_older(version)),
            eviction: eviction(field("maxmemory_policy"), field("maxmemory")),
        }
    }
}

/// Nobody mends versions before 6.2 any more, and our tests do not run on them.
fn is_older(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < (6, 2),
        // A proxy that says nothing may still do.
        _ => false,
    }
}

/// A server without a bound never evicts, whatever its policy.
fn eviction(policy: &str, bound: &str) -> Option<String> {
    if matches!(policy, "" | "noeviction") || matches!(bound, "" | "0") {
        return None;
    }
    Some(format!(
        "`maxmemory-policy` is `{policy}`, and every key that is evicted is a free reset; run \
         `CONFIG SET maxmemory-policy noeviction`, or give us a server of our own"
    ))
}

fn text(value: &Value, address: &Address) -> Result<String, ConnectError> {
    if let Value::ServerError(error) = value {
        return Err(refused(error, address));
    }
    redis::from_redis_value_ref(value).map_err(|error| unexpected(address, &error.to_string()))
}

/// What an error of the server means for the user who set us up.
pub(super) fn refused(error: &ServerError, address: &Address) -> ConnectError {
    let reason = format!("{} {}", error.code(), error.details().unwrap_or_default());
    let address = address.to_string();
    // Inside a script, a missing permission is an error of the script.
    let is_permission = error.code() == "NOPERM"
        || reason.contains("can't run this command")
        || reason.contains("no permissions");
    match error.code() {
        _ if is_permission => ConnectError::NoPermission { address, reason },
        "NOAUTH" | "WRONGPASS" => ConnectError::Unauthorized { address, reason },
        "LOADING" => ConnectError::Loading { address },
        _ => ConnectError::Unexpected { address, reason },
    }
}

/// What a question without an answer means for the user who set us up.
pub(super) fn lost(loss: &Loss, address: &Address) -> ConnectError {
    let (address, reason) = (address.to_string(), loss.to_string());
    match loss {
        Loss::Nonsense(_) => ConnectError::Unexpected { address, reason },
        Loss::Untrusted(_) => ConnectError::Untrusted { address, reason },
        // A server that closes the connection on a question has not understood it, or is gone:
        // the next try will tell.
        Loss::Ended(_) | Loss::Late | Loss::Full => ConnectError::Unreachable { address, reason },
    }
}

fn unexpected(address: &Address, reason: &str) -> ConnectError {
    ConnectError::Unexpected { address: address.to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: Wanted, expected: &str) {
        let address = Address { host: "h".to_owned(), port: 1 };
        let said = match Info::parse(text).check(wanted, &address) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn servers_are_known_by_what_they_say() {
        let redis = |version: &str| format!("redis_version:{version}\r\nrole:master\r\n");
        check(&redis("6.2.0"), Wanted::Primary, "fine");
        check(&redis("10.0.1"), Wanted::Primary, "fine");
        check(&redis("6.0.16"), Wanted::Primary, "`h:1` is redis 6.0.16; use a 64-bit Redis 6.2");
        check(&redis("5.0.7"), Wanted::Primary, "use a 64-bit Redis 6.2");
        let valkey = "redis_version:5.0.0\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        check(valkey, Wanted::Primary, "fine");
        assert_eq!(Info::parse(valkey).server, "valkey 8.0.1");
        check("redis_version:7.0.0\r\ncluster_enabled:1", Wanted::Primary, "redis+cluster://h:1");
        check("redis_version:7.0.0\r\ncluster_enabled:1", Wanted::ClusterNode, "fine");
        check("redis_version:7.0.0\r\ncluster_enabled:0", Wanted::ClusterNode, "`redis://h:1`");
        check("redis_version:7.0.0\r\narch_bits:32", Wanted::Primary, "64-bit");
        check("redis_version:7.0.0\r\nrole:slave", Wanted::Primary, "is a replica");
        check("redis_version:7.0.0\r\nloading:1", Wanted::Primary, "reading its data");
    }

    #[test]
    fn a_policy_that_evicts_is_named_if_there_is_a_bound() {
        assert_eq!(eviction("noeviction", "100"), None);
        assert_eq!(eviction("allkeys-lru", "0"), None);
        let warning = eviction("allkeys-lru", "100").unwrap();
        assert!(warning.contains("`allkeys-lru`"), "{warning}");
        assert!(warning.contains("CONFIG SET maxmemory-policy noeviction"), "{warning}");
    }
}
