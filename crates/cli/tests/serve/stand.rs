//! The server as a process, and somebody who talks to one of its doors.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tidegate_testbed::{Daemon, Frame, Http, Http2, Ready, Resp};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Counts at each door by itself, and is at its end before long.
pub(crate) fn policy(limit: u32) -> String {
    format!(
        "rules: [{{ name: all, key: attribute:door, algorithm: fixed-window, limit: {limit}/day }}]"
    )
}

/// `tidegate serve`, with all doors.
pub(crate) struct Tidegate {
    pub(crate) daemon: Daemon,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
    pub(crate) resp: u16,
}

impl Tidegate {
    pub(crate) fn start(policy: &str, flags: &[&str]) -> Result<Tidegate> {
        let mut builder = Daemon::builder()?;
        let [http, grpc, resp] = [builder.port()?, builder.port()?, builder.port()?];
        let policy = builder.write("policy.yaml", policy)?;
        let mut command = command();
        command.arg("--policy").arg(policy).args(flags);
        command.args(["--http", &local(http), "--grpc", &local(grpc), "--resp", &local(resp)]);
        let daemon = builder.start(command, Ready::Answers(http, "/readyz".to_owned()))?;
        Ok(Tidegate { daemon, http, grpc, resp })
    }

    pub(crate) fn port(&self, door: Door) -> u16 {
        match door {
            Door::Http => self.http,
            Door::Grpc => self.grpc,
            Door::Resp => self.resp,
        }
    }

    /// How many bytes of memory it has.
    pub(crate) fn memory(&self) -> u64 {
        let pid = self.daemon.pid().expect("it runs");
        let pages = fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
        let resident = pages.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok());
        resident.expect("the second number") * 4_096
    }

    /// How many of a limit are left at a door.
    pub(crate) fn remaining(&self, door: Door) -> u64 {
        let body = format!(r#"{{"attributes":{{"door":"{}"}}}}"#, door.name());
        let told = Http::post(self.http, "/v1/peek", &body).expect("an answer");
        let told: serde_json::Value = serde_json::from_slice(&told.body).expect("an answer");
        told["remaining"].as_u64().expect("a number")
    }
}

/// The command without flags, and without what the tests' own surroundings say.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDEGATE_") {
            command.env_remove(name);
        }
    }
    command.arg("serve");
    command
}

pub(crate) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Door {
    Http,
    Grpc,
    Resp,
}

impl Door {
    pub(crate) const ALL: [Door; 3] = [Door::Http, Door::Grpc, Door::Resp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Door::Http => "http",
            Door::Grpc => "grpc",
            Door::Resp => "resp",
        }
    }
}

/// A connection to a door.
pub(crate) enum Talk {
    Http(Http),
    Grpc(Http2<TcpStream>),
    Resp(Resp),
}

impl Talk {
    pub(crate) fn open(server: &Tidegate, door: Door) -> Result<Talk> {
        Talk::to(door, server.port(door))
    }

    pub(crate) fn to(door: Door, port: u16) -> Result<Talk> {
        Ok(match door {
            Door::Http => Talk::Http(Http::connect_within(port, SOON)?),
            Door::Grpc => Talk::Grpc(Http2::over(connected(port)?)?),
            Door::Resp => Talk::Resp(Resp::connect(port, SOON)?),
        })
    }

    /// Asks once; whether it passes. An error is no answer, whole or at all.
    pub(crate) fn ask(&mut self) -> Result<bool> {
        match self {
            Talk::Http(http) => {
                let body = br#"{"attributes":{"door":"http"}}"#;
                let told = http.send("POST", "/v1/check", &JSON, body)?;
                anyhow::ensure!(told.status == 200, "{}", told.text());
                Ok(told.text().contains(r#"{"verdict":"allow""#))
            }
            Talk::Grpc(grpc) => {
                anyhow::ensure!(!grpc.is_ending(), "it takes no more requests");
                Ok(grpc.call(METHOD, MESSAGE)?.starts_with(&[8, 1]))
            }
            Talk::Resp(resp) => {
                let told = resp.call(&CHECK)?;
                Ok(told.items().get(1).context("no answer")?.text() == "allow")
            }
        }
    }
}

pub(crate) const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

pub(crate) fn connected(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(SOON))?;
    stream.set_write_timeout(Some(SOON))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub(crate) const CHECK: [&str; 4] = ["TIDEGATE.CHECK", "ATTRIBUTE", "door", "resp"];

/// A domain `d` and a descriptor of one entry, `door` = `grpc`.
pub(crate) const MESSAGE: &[u8] = b"\x0a\x01d\x12\x0e\x0a\x0c\x0a\x04door\x12\x04grpc";

/// The head of a call, as a frame.
pub(crate) fn call_head(stream: u32, flags: u8) -> Vec<u8> {
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    Frame::bytes(Frame::HEADERS, flags, stream, &Frame::post(METHOD, &fields))
}
