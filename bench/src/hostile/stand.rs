//! The server that is attacked: as it ships, on ports of its own, on all processors.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_testbed::{Daemon, Ready};

use crate::doors::built;
use crate::status;

/// Ends when it is dropped.
pub(super) struct Stand {
    daemon: Daemon,
    pub(super) ports: Ports,
}

/// One for each door.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) http: u16,
    pub(super) grpc: u16,
    pub(super) resp: u16,
}

impl Stand {
    pub(super) fn start() -> Result<Self> {
        let mut place = Daemon::builder()?;
        let ports = Ports { http: place.port()?, grpc: place.port()?, resp: place.port()? };
        let program = built("tidegate")?;
        ensure!(program.is_file(), "there is no `{}`", program.display());
        let mut command = Command::new(program);
        command.args(["serve", "--policy"]).arg(place.write("policy.yaml", POLICY)?);
        for (flag, port) in [("--http", ports.http), ("--grpc", ports.grpc), ("--resp", ports.resp)]
        {
            command.args([flag, &format!("127.0.0.1:{port}")]);
        }
        let ready = Ready::Answers(ports.http, "/readyz".to_owned());
        Ok(Self { daemon: place.start(command, ready)?, ports })
    }

    pub(super) fn resident(&self) -> Result<u64> {
        status::bytes_of(self.daemon.pid().context("the server has ended")?, "VmRSS")
    }

    /// Whether it is still there and has nothing to regret.
    pub(super) fn is_well(&self) -> Result<()> {
        ensure!(self.daemon.is_up(), "the server has ended");
        let log = self.daemon.log();
        ensure!(!log.contains("panicked"), "the server has panicked: {log}");
        Ok(())
    }
}

/// Lets this process and its children open many connections.
pub(super) fn prepare() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("cannot raise the limit of open files")
}

/// Lets everybody pass, and counts the peers apart from the honest client.
const POLICY: &str =
    "rules: [{ name: all, key: attribute:peer, algorithm: fixed-window, limit: 1000000000/day }]\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_one() {
        tidegate_gate::Gate::from_text(POLICY).unwrap();
    }
}
