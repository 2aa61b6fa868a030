//! The server, and a proxy in front of an application that asks it.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate_testbed::{Daemon, DaemonBuilder, Http, HttpAnswer, Program, Ready};

use crate::application::REACHED;

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// `tidegate serve`.
pub(crate) struct Tidegate {
    pub(crate) daemon: Daemon,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
}

impl Tidegate {
    pub(crate) fn start(policy: &str, flags: &[&str]) -> Result<Tidegate> {
        let mut builder = Daemon::builder()?;
        let (http, grpc) = (builder.port()?, builder.port()?);
        let policy = builder.write("policy.yaml", policy)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve").arg("--policy").arg(policy).args(["--resp", "off"]).args(flags);
        command.args(["--http", &local(http), "--grpc", &local(grpc)]);
        let daemon = builder.start(command, Ready::Answers(http, "/readyz".to_owned()))?;
        Ok(Tidegate { daemon, http, grpc })
    }
}

/// A proxy that is up.
pub(crate) struct Standing {
    pub(crate) proxy: Daemon,
    pub(crate) port: u16,
}

impl Standing {
    /// Writes the files, each as it ships but for its addresses, and runs the program on them.
    pub(crate) fn start(
        mut builder: DaemonBuilder,
        program: Program,
        args: &[&str],
        files: impl FnOnce(&DaemonBuilder, u16) -> Vec<(&'static str, String)>,
    ) -> Result<Standing> {
        let port = builder.port()?;
        for (name, text) in files(&builder, port) {
            builder.write(name, &text)?;
        }
        let mut command = program.command()?;
        // Some keep things in the home of the user who runs them.
        command.args(args).env("HOME", builder.folder()).env_remove("XDG_DATA_HOME");
        Ok(Standing { proxy: builder.start(command, Ready::Accepts(port))?, port })
    }

    pub(crate) fn get(&self, target: &str) -> HttpAnswer {
        self.send("GET", target, &[])
    }

    pub(crate) fn send(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        self.try_from(Ipv4Addr::LOCALHOST, method, target, headers)
            .unwrap_or_else(|error| panic!("{error:#}; the proxy said: {}", self.proxy.log()))
    }

    pub(crate) fn get_from(&self, address: Ipv4Addr, target: &str) -> HttpAnswer {
        self.try_from(address, "GET", target, &[])
            .unwrap_or_else(|error| panic!("{error:#}; the proxy said: {}", self.proxy.log()))
    }

    fn try_from(
        &self,
        address: Ipv4Addr,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<HttpAnswer> {
        let body = if method == "POST" { "sent".as_bytes() } else { b"" };
        Http::connect_from(address, self.port)?.send(method, target, headers, body)
    }

    /// Sends a request with this body, and with these headers besides.
    pub(crate) fn send_body(
        &self,
        from: Ipv4Addr,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpAnswer> {
        Http::connect_from(from, self.port)?.send(method, target, headers, body)
    }

    /// Fails unless the application was reached.
    pub(crate) fn reaches(&self, target: &str) -> Result<HttpAnswer> {
        let answer = self.try_from(Ipv4Addr::LOCALHOST, "GET", target, &[])?;
        ensure!(answer.status == 200 && answer.text().starts_with(REACHED), "{answer:?}");
        Ok(answer)
    }
}

/// What ships, with one address replaced.
#[track_caller]
pub(crate) fn swap(shipped: &str, from: &str, to: &str) -> String {
    assert!(shipped.contains(from), "there is no `{from}` any more");
    shipped.replace(from, to)
}

pub(crate) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
