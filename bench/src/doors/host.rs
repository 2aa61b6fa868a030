//! A server in a process of its own, on a core of its own, and what Linux says of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use tidegate_testbed::{Daemon, DaemonBuilder, Ready};

use super::server::Door;
use crate::status;

/// Ends when it is dropped.
pub(super) struct Host {
    daemon: Daemon,
    ports: Ports,
}

/// One for each door; not every server has every door.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) resp: u16,
    pub(super) http: u16,
    pub(super) grpc: u16,
}

impl Ports {
    pub(super) fn claim(place: &mut DaemonBuilder) -> Result<Self> {
        Ok(Self { resp: place.port()?, http: place.port()?, grpc: place.port()? })
    }
}

impl Host {
    /// Starts a program on its core, and waits until it is ready.
    pub(super) fn start(
        place: DaemonBuilder,
        ports: Ports,
        program: &Path,
        args: &[String],
        ready: Ready,
    ) -> Result<Self> {
        ensure!(program.is_file(), "there is no `{}`", program.display());
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &SERVER_CORE.to_string()]).arg(program).args(args);
        Ok(Self { daemon: place.start(command, ready)?, ports })
    }

    pub(super) fn port(&self, door: Door) -> u16 {
        match door {
            Door::Resp => self.ports.resp,
            Door::Http => self.ports.http,
            Door::Grpc => self.ports.grpc,
        }
    }

    /// A file in its folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.daemon.folder().join(name)
    }

    /// Processor time of all its threads.
    pub(super) fn cpu(&self) -> Result<Duration> {
        status::cpu_of(self.pid()?)
    }

    pub(super) fn resident(&self) -> Result<u64> {
        status::bytes_of(self.pid()?, "VmRSS")
    }

    fn pid(&self) -> Result<i32> {
        self.daemon.pid().context("the server has ended")
    }
}

/// Puts the load on its core, and lets this process and its children open many connections.
pub(super) fn prepare() -> Result<()> {
    run_on_load_core()?;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("cannot raise the limit of open files")
}

/// Puts this thread where no server runs.
pub(crate) fn run_on_load_core() -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    ensure!(cores > LOAD_CORE, "needs two cores: one for the server, one for the load");
    run_on(LOAD_CORE)
}

/// Puts this thread where servers run.
pub(super) fn run_on_server_core() -> Result<()> {
    run_on(SERVER_CORE)
}

fn run_on(core: usize) -> Result<()> {
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own).context("cannot choose a core")
}

const SERVER_CORE: usize = 0;
const LOAD_CORE: usize = 1;
