//! Reads a URL. Only what is not secret is ever quoted in an error.

use std::time::Duration;

use super::{Address, Credentials, Protocol, Settings, TlsSettings, Topology};
use crate::error::ConnectError;

pub(super) fn parse(url: &str) -> Result<Settings, ConnectError> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("the URL has no `://`"))?;
    let (kind, tls) = scheme_of(scheme)?;
    // A password may hold an `@` that was not encoded; a host may not.
    let (secret, rest) = match rest.rsplit_once('@') {
        Some((secret, rest)) => (Some(secret), rest),
        None => (None, rest),
    };
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = hosts_of(hosts, kind.default_port())?;
    let (topology, database) = kind.topology(hosts, path)?;
    Ok(Settings {
        topology,
        credentials: secret.map(credentials_of).transpose()?.flatten(),
        sentinel_credentials: None,
        database,
        tls: tls.then(TlsSettings::default),
        connect_timeout: CONNECT_TIMEOUT,
        protocol: Protocol::default(),
        is_required: false,
    })
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// More than this is a mistake, and every one may have to be waited for.
const HOSTS_MAX: usize = 64;

#[derive(Clone, Copy)]
enum Kind {
    Single,
    Sentinel,
    Cluster,
}

impl Kind {
    fn default_port(self) -> u16 {
        match self {
            Kind::Sentinel => 26379,
            Kind::Single | Kind::Cluster => 6379,
        }
    }

    fn topology(
        self,
        mut hosts: Vec<Address>,
        path: &str,
    ) -> Result<(Topology, i64), ConnectError> {
        match self {
            Kind::Single if hosts.len() > 1 => {
                Err(bad("several hosts need `redis+cluster://` or `redis+sentinel://`"))
            }
            Kind::Single => Ok((Topology::Single(hosts.remove(0)), database_of(path)?)),
            Kind::Cluster if !matches!(path, "" | "0") => {
                Err(bad(format!("a cluster has database 0 only, not `{path}`")))
            }
            Kind::Cluster => Ok((Topology::Cluster(hosts), 0)),
            Kind::Sentinel => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(bad("the URL does not name the master that sentinels look after"));
                }
                let master = decode(master).ok_or_else(|| bad("the master's name is not text"))?;
                Ok((Topology::Sentinel { sentinels: hosts, master }, database_of(database)?))
            }
        }
    }
}

fn scheme_of(scheme: &str) -> Result<(Kind, bool), ConnectError> {
    let (base, kind) = match scheme.split_once('+') {
        None => (scheme, Kind::Single),
        Some((base, "sentinel")) => (base, Kind::Sentinel),
        Some((base, "cluster")) => (base, Kind::Cluster),
        Some(_) => return Err(bad(format!("`{scheme}` is not a scheme that we know"))),
    };
    match base {
        "redis" | "valkey" => Ok((kind, false)),
        "rediss" | "valkeys" => Ok((kind, true)),
        _ => Err(bad(format!("`{scheme}` is not a scheme that we know"))),
    }
}

fn hosts_of(hosts: &str, default_port: u16) -> Result<Vec<Address>, ConnectError> {
    let list = hosts
        .split(',')
        .map(|host| address(host, default_port))
        .collect::<Result<Vec<_>, ConnectError>>()?;
    if list.len() > HOSTS_MAX {
        return Err(bad(format!("{} hosts are more than {HOSTS_MAX}", list.len())));
    }
    Ok(list)
}

fn address(text: &str, default_port: u16) -> Result<Address, ConnectError> {
    // An IPv6 address stands in brackets, since it has colons of its own.
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            // It may be a password whose host is missing: only digits are said again.
            _ if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(bad(format!("`{port}` is not a port")));
            }
            _ => {
                let reason = "what follows the last `:` is not a port, or the `@host` is missing";
                return Err(bad(reason.to_owned()));
            }
        },
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '?' || c == '#') {
        return Err(bad(format!("`{text}` does not name a host")));
    }
    Ok(Address { host: host.to_owned(), port })
}

fn database_of(path: &str) -> Result<i64, ConnectError> {
    match path.trim_end_matches('/') {
        "" => Ok(0),
        number => match number.parse::<u16>() {
            Ok(number) => Ok(i64::from(number)),
            Err(_) => Err(bad(format!("`{number}` is not the number of a database"))),
        },
    }
}

/// `user:password`, `:password`, or `password` alone, which is how some write it.
fn credentials_of(secret: &str) -> Result<Option<Credentials>, ConnectError> {
    let (user, password) = secret.split_once(':').unwrap_or(("", secret));
    let not_text = || bad("user and password must be percent-encoded UTF-8");
    let user = decode(user).ok_or_else(not_text)?;
    let password = decode(password).ok_or_else(not_text)?;
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    Ok(Some(Credentials { user: (!user.is_empty()).then_some(user), password }))
}

/// Undoes percent-encoding. `None` if a `%` is not followed by two digits, or it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::BadUrl { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[track_caller]
    fn check(url: &str, topology: &Topology, database: i64, tls: bool) {
        let settings = parse(url).unwrap();
        assert_eq!(&settings.topology, topology);
        assert_eq!(settings.database, database);
        assert_eq!(settings.tls.is_some(), tls);
    }

    #[test]
    fn every_kind_of_url_is_read() {
        check("redis://h", &Topology::Single(at("h", 6379)), 0, false);
        check("valkey://h:7/3", &Topology::Single(at("h", 7)), 3, false);
        check("rediss://u:p@h/", &Topology::Single(at("h", 6379)), 0, true);
        check("valkeys://[::1]:5", &Topology::Single(at("::1", 5)), 0, true);
        check("redis://[::1]", &Topology::Single(at("::1", 6379)), 0, false);
        let sentinels = vec![at("a", 26379), at("b", 5)];
        let master = "my master".to_owned();
        let sentinel = Topology::Sentinel { sentinels, master };
        check("redis+sentinel://a,b:5/my%20master/2", &sentinel, 2, false);
        check("rediss+sentinel://:p@a,b:5/my%20master", &sentinel, 0, true);
        let cluster = Topology::Cluster(vec![at("a", 1), at("b", 6379)]);
        check("redis+cluster://a:1,b", &cluster, 0, false);
        check("valkeys+cluster://a:1,b/0", &cluster, 0, true);
    }

    #[track_caller]
    fn check_credentials(url: &str, user: Option<&str>, password: &str) {
        let credentials = parse(url).unwrap().credentials.unwrap();
        assert_eq!((credentials.user.as_deref(), &*credentials.password), (user, password));
    }

    #[test]
    fn users_and_passwords_are_decoded() {
        check_credentials("redis://u:p@h", Some("u"), "p");
        check_credentials("redis://:p@h", None, "p");
        check_credentials("redis://p@h", None, "p");
        check_credentials("redis://u%40x:p%2F%3a%25@h", Some("u@x"), "p/:%");
        check_credentials("redis://u:p@q@h", Some("u"), "p@q");
        check_credentials("redis://u:a:b@h", Some("u"), "a:b");
        assert_eq!(parse("redis://h").unwrap().credentials, None);
        assert_eq!(parse("redis://@h").unwrap().credentials, None);
    }

    #[track_caller]
    fn check_bad(url: &str, quoted: &str) {
        let message = parse(url).unwrap_err().to_string();
        assert!(message.contains(quoted), "{message}");
        assert!(message.contains("redis://user:password@host:6379/0"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }

    #[test]
    fn a_bad_url_is_quoted_without_its_password() {
        check_bad("localhost:6379", "`://`");
        check_bad("http://h", "`http`");
        check_bad("redis+ring://u:s3cret@h", "`redis+ring`");
        check_bad("redis://u:s3cret@h:port", "is not a port");
        check_bad("redis://u:s3cret", "`@host` is missing");
        check_bad("redis://u:s3cret@h:99999", "`99999`");
        check_bad("redis://u:s3cret@h:0", "`0`");
        check_bad("redis://u:s3cret@", "name a host");
        check_bad("redis://u:s3cret@h/one", "`one`");
        check_bad("redis://u:s3cret@a,b", "redis+cluster://");
        check_bad("redis+cluster://a/1", "`1`");
        check_bad("redis+sentinel://a", "name the master");
        check_bad("redis://u:s3cret%@h", "percent-encoded");
        check_bad("redis://u:s3cret%+1@h", "percent-encoded");
        check_bad(&format!("redis+cluster://{}a", "a,".repeat(64)), "65 hosts");
    }

    #[test]
    fn debug_does_not_show_the_password() {
        let settings = parse("rediss://u:s3cret@h").unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
