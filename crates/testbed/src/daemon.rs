//! Any program that listens: a process in a folder of its own, on ports that were claimed for it.
//!
//! Its ports are known before it starts, so that its configuration can name them.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::process::Signal;

use crate::folder::Folder;
use crate::port::Port;
use crate::running::{Running, end_of};
use crate::{Http, wait};

/// What a program starts with, collected before it does.
#[derive(Debug)]
pub struct DaemonBuilder {
    folder: Folder,
    ports: Vec<Port>,
}

/// When a program has started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ready {
    /// Something accepts connections on that port.
    Accepts(u16),
    /// A `GET` of that target on that port is answered with 200.
    Answers(u16, String),
}

/// A program that runs. Killed with its children, and its folder removed, when dropped.
#[derive(Debug)]
pub struct Daemon {
    /// Before the folder and the ports, which it uses until it has ended.
    running: Option<Running>,
    command: Command,
    ready: Ready,
    place: DaemonBuilder,
}

impl DaemonBuilder {
    /// Claims a port.
    pub fn port(&mut self) -> Result<u16> {
        self.ports.push(Port::claim()?);
        Ok(self.ports[self.ports.len() - 1].number())
    }

    /// Where it will run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into its folder, and says where that is.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder().join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }

    /// Runs the command in its folder, and waits until it is ready.
    pub fn start(self, command: Command, ready: Ready) -> Result<Daemon> {
        let mut daemon = Daemon { running: None, command, ready, place: self };
        daemon.restart()?;
        Ok(daemon)
    }
}

impl Daemon {
    /// Makes a folder for a program.
    pub fn builder() -> Result<DaemonBuilder> {
        Ok(DaemonBuilder { folder: Folder::new("daemon")?, ports: Vec::new() })
    }

    /// Its ports, in the order in which they were claimed; the same after a restart.
    pub fn ports(&self) -> Vec<u16> {
        self.place.ports.iter().map(Port::number).collect()
    }

    /// Its working folder: the log, and what was written there.
    pub fn folder(&self) -> &Path {
        self.place.folder()
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join(LOG)).unwrap_or_default()
    }

    /// Stops it where it is: connections stay open and nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.up()?.pause()
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.up()?.resume()
    }

    /// Kills it; it stays down until [`Daemon::restart`].
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Sends it `SIGHUP`, by which most programs read their configuration again.
    pub fn reload(&self) -> Result<()> {
        self.up()?.signal(Signal::HUP)
    }

    /// Sends it `SIGTERM`, and does not wait.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.up()?.signal(Signal::TERM)
    }

    /// Waits until it has ended by itself, and says how. It is killed when it does not in time.
    pub fn wait_for_end(&mut self, within: Duration) -> Result<ExitStatus> {
        let running = self.running.take().context("it is down already")?;
        running.end(within).with_context(|| self.said())
    }

    /// Asks it to stop by `SIGTERM`, waits until it did, and says how it ended.
    pub fn stop(&mut self, within: Duration) -> Result<ExitStatus> {
        self.ask_to_stop()?;
        self.wait_for_end(within)
    }

    /// Starts it again in the same place, killing it first if it is up, and waits until ready.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let folder = self.place.folder();
        self.running = Some(Running::spawn(&mut self.command, folder, &folder.join(LOG))?);
        self.wait_until_ready()
    }

    /// Whether it runs, paused or not.
    pub fn is_up(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.has_ended())
    }

    /// The number of its process.
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|running| running.pid().as_raw_pid())
    }

    fn wait_until_ready(&self) -> Result<()> {
        let ready = wait::for_some(START_WITHIN, "the program is ready", || {
            if self.is_up() { self.ready.look().map(|()| Some(true)) } else { Ok(Some(false)) }
        });
        match ready {
            Ok(true) => Ok(()),
            Ok(false) => Err(anyhow!("the program ended; {}", self.said())),
            Err(error) => Err(error.context(self.said())),
        }
    }

    fn said(&self) -> String {
        let program = self.command.get_program().display();
        format!("the end of what `{program}` said:\n{}", end_of(&self.log()))
    }

    fn up(&self) -> Result<&Running> {
        self.running.as_ref().context("it is down; restart it first")
    }
}

impl Ready {
    fn look(&self) -> Result<()> {
        match self {
            Ready::Accepts(port) => drop(TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?),
            Ready::Answers(port, target) => {
                let mut http = Http::connect_within(*port, LOOK_WITHIN)?;
                let answer = http.send("GET", target, &[], b"")?;
                ensure!(answer.status == 200, "{target} answers {}", answer.status);
            }
        }
        Ok(())
    }
}

const LOG: &str = "daemon.log";
const LOOK_WITHIN: Duration = Duration::from_secs(1);
const START_WITHIN: Duration = Duration::from_secs(30);
