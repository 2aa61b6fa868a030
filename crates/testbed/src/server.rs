//! One server: a process in a folder of its own, on a port of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::folder::Folder;
use crate::port::Port;
use crate::resp::Resp;
use crate::running::{Running, end_of};
use crate::settings::{Mode, Ports};
use crate::{Flavor, Reply, ServerBuilder, wait};

/// One server process. Killed, and its folder removed, when dropped.
#[derive(Debug)]
pub struct Server {
    /// Before the folder and the ports, which it uses until it has ended.
    running: Option<Running>,
    builder: ServerBuilder,
    port: Port,
    tls_port: Option<Port>,
    folder: Folder,
}

impl Server {
    /// Redis with nothing set but that it keeps nothing on disk.
    pub fn start() -> Result<Server> {
        Server::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new(Mode::Alone)
    }

    /// The port of this server; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port for TLS, if it was asked for.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port.as_ref().map(Port::number)
    }

    /// Where to connect.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Where to connect by TLS, if it was asked for.
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port().map(|port| format!("rediss://127.0.0.1:{port}"))
    }

    /// Which program this is.
    pub fn flavor(&self) -> Flavor {
        self.builder.flavor
    }

    /// Runs a command on a connection of its own. What the server refuses is a [`Reply::Error`].
    pub fn run(&self, args: &[&str]) -> Result<Reply> {
        self.run_within(REPLY_WITHIN, args)
    }

    /// Like [`Server::run`], but gives up when no reply comes within that time.
    pub fn run_within(&self, within: Duration, args: &[&str]) -> Result<Reply> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.run_bytes(within, &args)
    }

    /// Like [`Server::run`], but a refusal is an error.
    pub fn must(&self, args: &[&str]) -> Result<Reply> {
        accepted(self.run(args)?, &args.join(" "))
    }

    pub(crate) fn must_bytes(&self, args: &[&[u8]]) -> Result<Reply> {
        accepted(self.run_bytes(REPLY_WITHIN, args)?, &String::from_utf8_lossy(args[0]))
    }

    /// Stops the process where it is: connections stay open and nothing is answered.
    ///
    /// # Panics
    ///
    /// If it is down.
    pub fn pause(&self) {
        let paused = self.up().and_then(Running::pause);
        assert!(paused.is_ok(), "cannot pause a server: {paused:?}");
    }

    /// Lets the process go on.
    ///
    /// # Panics
    ///
    /// If it is down.
    pub fn resume(&self) {
        let resumed = self.up().and_then(Running::resume);
        assert!(resumed.is_ok(), "cannot resume a server: {resumed:?}");
    }

    /// Kills the process; it stays down until [`Server::restart`].
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it again on the same port in the same folder, after killing it if it is up, and
    /// waits until it answers, be it that it is still loading.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.spawn()?;
        self.wait_for_answer()
    }

    /// Whether the process runs, paused or not.
    pub fn is_up(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.has_ended())
    }

    /// Its working folder: the log, the configuration, and what it keeps if it is configured to.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// Starts a server, on another port if something else took the first one meanwhile.
    pub(crate) fn launch(builder: &ServerBuilder) -> Result<Server> {
        let mut server = Server::begin(builder.clone())?;
        for _ in 1..PORTS_TRIED {
            match server.wait_for_answer() {
                Err(_) if server.log().contains("already in use") => {
                    server = Server::begin(builder.clone())?;
                }
                other => return other.map(|()| server),
            }
        }
        server.wait_for_answer().map(|()| server)
    }

    /// Starts a server and does not wait for it.
    pub(crate) fn begin(builder: ServerBuilder) -> Result<Server> {
        let folder = Folder::new("server")?;
        let port = Port::claim()?;
        let tls_port = if builder.has_tls() { Some(Port::claim()?) } else { None };
        let mut server = Server { running: None, builder, port, tls_port, folder };
        let tls = server.tls_port();
        let ports = Ports { plain: server.port(), bus: server.port.bus(), tls };
        server.builder.write(&server.folder.path().join(CONFIGURATION), ports)?;
        server.spawn()?;
        Ok(server)
    }

    /// Where other nodes of its cluster reach it.
    pub(crate) fn bus(&self) -> u16 {
        self.port.bus()
    }

    pub(crate) fn wait_for_answer(&self) -> Result<()> {
        let ping = || self.run_within(PING_WITHIN, &["PING"]);
        let answered = wait::for_some(START_WITHIN, "the server answers", || {
            if self.is_up() { ping().map(|_| Some(true)) } else { Ok(Some(false)) }
        });
        match answered {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(anyhow!("the server ended; the end of its log:\n{}", end_of(&self.log())))
            }
            Err(error) => {
                Err(error.context(format!("the end of the server's log:\n{}", end_of(&self.log()))))
            }
        }
    }

    fn spawn(&mut self) -> Result<()> {
        let binary = self.builder.flavor.binary()?;
        let mut command = Command::new(&binary);
        command.arg(CONFIGURATION);
        if self.builder.mode == Mode::Sentinel {
            command.arg("--sentinel");
        }
        let folder = self.folder.path();
        self.running = Some(Running::spawn(&mut command, folder, &folder.join(LOG))?);
        Ok(())
    }

    fn run_bytes(&self, within: Duration, args: &[&[u8]]) -> Result<Reply> {
        let mut client = Resp::connect(self.port(), within)?;
        if !self.builder.greeting.is_empty() {
            let greeting: Vec<&[u8]> = self.builder.greeting.iter().map(String::as_bytes).collect();
            accepted(client.call(&greeting)?, "the greeting")?;
        }
        client.call(args)
    }

    fn up(&self) -> Result<&Running> {
        self.running.as_ref().context("the server is down; restart it first")
    }
}

fn accepted(reply: Reply, what: &str) -> Result<Reply> {
    match reply {
        Reply::Error(message) => bail!("the server refused `{what}`: {message}"),
        other => Ok(other),
    }
}

const CONFIGURATION: &str = "server.conf";
const LOG: &str = "server.log";
const PORTS_TRIED: usize = 5;
const REPLY_WITHIN: Duration = Duration::from_secs(5);
const PING_WITHIN: Duration = Duration::from_millis(500);
const START_WITHIN: Duration = Duration::from_secs(20);
