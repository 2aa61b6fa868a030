//! The servers: how each is started, and how each is asked at its doors.
//!
//! Every decision is under a quota that lets it pass and that keeps the client's key live: one a
//! minute, a million at once. Our policy has one rule for HTTP and one for gRPC.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tidegate_testbed::{Daemon, DaemonBuilder, Ready};

use super::host::{Host, Ports};
use crate::load::talk::{Grpc, Http, Resp, Start, Talk};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Tidegate,
    Redis,
    RedisCell,
    Throttlecrab,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Resp,
    Http,
    Grpc,
}

impl Server {
    /// Its name, and what it is asked.
    pub(super) fn name(self, door: Door) -> &'static str {
        match (self, door) {
            (Self::Tidegate, Door::Resp) => "tidegate `CL.THROTTLE`",
            (Self::Tidegate, Door::Http) => "tidegate `POST /v1/check`",
            (Self::Tidegate, Door::Grpc) => "tidegate `ShouldRateLimit`",
            (Self::Redis, _) => "Redis `GET`",
            (Self::RedisCell, _) => "redis-cell `CL.THROTTLE`",
            (Self::Throttlecrab, Door::Resp) => "throttlecrab `THROTTLE`",
            (Self::Throttlecrab, Door::Http) => "throttlecrab `POST /throttle`",
            (Self::Throttlecrab, Door::Grpc) => "throttlecrab `Throttle`",
        }
    }

    pub(super) fn start(self) -> Result<Host> {
        let mut place = Daemon::builder()?;
        let ports = Ports::claim(&mut place)?;
        match self {
            Self::Tidegate => tidegate(place, ports),
            Self::Redis => redis(place, ports, &[]),
            Self::RedisCell => redis_cell(place, ports),
            Self::Throttlecrab => throttlecrab(place, ports),
        }
    }

    /// How it is asked whether a client may pass, or for Redis itself, for a key.
    pub(super) fn talk(self, door: Door) -> Start {
        match (self, door) {
            (Self::Redis, _) => starts(Resp::new(&["GET", KEY], "$3\r\n", 2)),
            (Self::RedisCell, _) | (Self::Tidegate, Door::Resp) => {
                starts(Resp::new(&["CL.THROTTLE", KEY, BURST, COUNT, PERIOD], "*5\r\n:0\r\n", 6))
            }
            (Self::Tidegate, Door::Http) => starts(Http::post("/v1/check", CHECK, PASSES)),
            (Self::Tidegate, Door::Grpc) => starts(Grpc::new(RLS, &rls_request())),
            (Self::Throttlecrab, Door::Resp) => {
                starts(Resp::new(&["THROTTLE", KEY, BURST, COUNT, PERIOD], "*5\r\n:1\r\n", 6))
            }
            (Self::Throttlecrab, Door::Http) => {
                starts(Http::post("/throttle", THROTTLE, r#""allowed":true"#))
            }
            (Self::Throttlecrab, Door::Grpc) => {
                starts(Grpc::new(THROTTLE_CALL, &throttle_request()))
            }
        }
    }

    /// How its store is filled before it is measured: a key that is asked about has to be there.
    pub(super) fn filling(self, door: Door) -> Start {
        match self {
            Self::Redis => starts(Resp::new(&["SET", KEY, "yes"], "+OK\r\n", 1)),
            _ => self.talk(door),
        }
    }
}

fn starts<T: Talk + Clone + 'static>(talk: T) -> Start {
    Box::new(move || Box::new(talk.clone()))
}

fn tidegate(place: DaemonBuilder, ports: Ports) -> Result<Host> {
    let policy = place.write(POLICY_FILE, &policy_with_burst(1_000_000))?;
    let mut args = words(&["serve", "--keys-max", "2000000", "--policy"]);
    args.push(policy.display().to_string());
    for (flag, port) in [("--resp", ports.resp), ("--http", ports.http), ("--grpc", ports.grpc)] {
        args.extend([flag.to_owned(), format!("127.0.0.1:{port}")]);
    }
    let ready = Ready::Answers(ports.http, "/readyz".to_owned());
    Host::start(place, ports, &built("tidegate")?, &args, ready)
}

fn redis(place: DaemonBuilder, ports: Ports, more: &[String]) -> Result<Host> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path).map(|folder| folder.join("redis-server"));
    let program = programs.find(|file| file.is_file());
    let program = program.context("no redis-server; `cargo xtask servers` installs one")?;
    // Unless told, it takes fewer connections than it will get.
    let mut args = words(&["--bind", "127.0.0.1", "--save", "", "--maxclients", "15000"]);
    args.extend(["--port".to_owned(), ports.resp.to_string()]);
    args.extend_from_slice(more);
    Host::start(place, ports, &program, &args, Ready::Accepts(ports.resp))
}

fn redis_cell(place: DaemonBuilder, ports: Ports) -> Result<Host> {
    let module = peers()?.join("lib/libredis_cell.so");
    ensure!(module.is_file(), "there is no `{}`", module.display());
    redis(place, ports, &["--loadmodule".to_owned(), module.display().to_string()])
}

fn throttlecrab(place: DaemonBuilder, ports: Ports) -> Result<Host> {
    let mut args = words(&["--log-level", "warn"]);
    for (door, port) in [("redis", ports.resp), ("http", ports.http), ("grpc", ports.grpc)] {
        args.extend([format!("--{door}"), format!("--{door}-host"), "127.0.0.1".to_owned()]);
        args.extend([format!("--{door}-port"), port.to_string()]);
    }
    let ready = Ready::Answers(ports.http, "/health".to_owned());
    Host::start(place, ports, &peers()?.join("bin/throttlecrab-server"), &args, ready)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A program that was built beside this one.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("where is this program?")?;
    Ok(own.with_file_name(name))
}

/// Where `cargo xtask bench doors` puts the peers.
fn peers() -> Result<PathBuf> {
    let release = built("")?;
    Ok(release.parent().context("this program is in a target folder")?.join("peers"))
}

/// Two rules, each for those that say their key.
pub(super) fn policy_with_burst(burst: u32) -> String {
    let rule = |name: &str, key: &str| {
        format!(
            "  - name: {name}\n    key: {key}\n    if_missing: skip\n    algorithm: gcra\n    \
             limit: 60/h\n    burst: {burst}\n"
        )
    };
    format!("rules:\n{}{}", rule("keys", "header:x-api-key"), rule("clients", "attribute:client"))
}

/// `RateLimitRequest` with one descriptor of one entry.
fn rls_request() -> Vec<u8> {
    let entry = [text(1, "client"), text(2, KEY)].concat();
    let descriptor = nested(1, &entry);
    [text(1, "bench"), nested(2, &descriptor)].concat()
}

fn throttle_request() -> Vec<u8> {
    let number = |field: u8, value: u32| {
        let mut bytes = vec![field << 3];
        let mut rest = value;
        while rest > 0x7f {
            bytes.push(u8::try_from(rest & 0x7f).expect("seven bits") | 0x80);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).expect("seven bits"));
        bytes
    };
    let numbers = [number(2, 1_000_000), number(3, 60), number(4, 3_600), number(5, 1)];
    [text(1, KEY), numbers.concat()].concat()
}

fn text(field: u8, value: &str) -> Vec<u8> {
    nested(field, value.as_bytes())
}

fn nested(field: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("our messages are short");
    [&[field << 3 | 2, length], bytes].concat()
}

/// The policy's file in the server's folder.
pub(super) const POLICY_FILE: &str = "policy.yaml";
const KEY: &str = "client-#######";
const BURST: &str = "1000000";
const COUNT: &str = "60";
const PERIOD: &str = "3600";
const CHECK: &str =
    r#"{"method":"GET","path":"/x","ip":"192.0.2.1","headers":{"x-api-key":"client-#######"}}"#;
const PASSES: &str = r#"{"verdict":"allow""#;
const THROTTLE: &str =
    r#"{"key":"client-#######","max_burst":1000000,"count_per_period":60,"period":3600}"#;
const THROTTLE_CALL: &str = "/throttlecrab.RateLimiter/Throttle";
const RLS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_one() {
        tidegate_gate::Gate::from_text(&policy_with_burst(7)).unwrap();
    }

    #[test]
    fn messages_are_in_the_form_of_protocol_buffers() {
        assert_eq!(
            rls_request(),
            b"\x0a\x05bench\x12\x1a\x0a\x18\x0a\x06client\x12\x0eclient-#######"
        );
        assert!(throttle_request().ends_with(b"\x10\xc0\x84\x3d\x18\x3c\x20\x90\x1c\x28\x01"));
    }
}
