//! One server: a process in a folder of its own, on a port of its own.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::folder::Folder;
use crate::guard::Guard;
use crate::port::Port;
use crate::resp::Client;
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

/// A process and what ends it when we cannot.
#[derive(Debug)]
struct Running {
    guard: Option<Guard>,
    child: Child,
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
        let paused = self.signal(Signal::STOP).and_then(|pid| {
            wait::until(STATE_WITHIN, "the server stands still", || is_stopped(pid))
        });
        assert!(paused.is_ok(), "cannot pause a server: {paused:?}");
    }

    /// Lets the process go on.
    ///
    /// # Panics
    ///
    /// If it is down.
    pub fn resume(&self) {
        let resumed = self.signal(Signal::CONT);
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

    /// Its working folder: the log, the configuration, and what it keeps if it was told to.
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
            Ok(false) => Err(anyhow!("the server ended; the end of its log:\n{}", self.log_end())),
            Err(error) => {
                Err(error.context(format!("the end of the server's log:\n{}", self.log_end())))
            }
        }
    }

    fn spawn(&mut self) -> Result<()> {
        let binary = self.builder.flavor.binary()?;
        let log = self.open_log()?;
        let mut command = Command::new(&binary);
        command.current_dir(self.folder.path()).arg(CONFIGURATION);
        if self.builder.mode == Mode::Sentinel {
            command.arg("--sentinel");
        }
        // In a group of its own, so that interrupting the tests leaves the ending to its guard.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child =
            command.spawn().with_context(|| format!("`{}` does not start", binary.display()))?;
        let running = self.running.insert(Running { guard: None, child });
        running.guard = Some(Guard::over(running.child.id(), self.folder.path())?);
        Ok(())
    }

    fn open_log(&self) -> Result<File> {
        let path = self.folder.path().join(LOG);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.with_context(|| format!("cannot write `{}`", path.display()))
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn run_bytes(&self, within: Duration, args: &[&[u8]]) -> Result<Reply> {
        let mut client = Client::connect(self.port(), within)?;
        if !self.builder.greeting.is_empty() {
            let greeting: Vec<&[u8]> = self.builder.greeting.iter().map(String::as_bytes).collect();
            accepted(client.call(&greeting)?, "the greeting")?;
        }
        client.call(args)
    }

    fn signal(&self, signal: Signal) -> Result<Pid> {
        let running = self.running.as_ref().context("the server is down; restart it first")?;
        ensure!(!running.has_ended(), "the server has ended; restart it first");
        kill_process(running.pid(), signal)?;
        Ok(running.pid())
    }
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Looks without reaping, so that nobody gets its number while we still use it.
    fn has_ended(&self) -> bool {
        has_changed(self.pid(), WaitIdOptions::EXITED)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.guard = None;
        // Fails only when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_stopped(pid: Pid) -> bool {
    has_changed(pid, WaitIdOptions::STOPPED)
}

fn has_changed(pid: Pid, to: WaitIdOptions) -> bool {
    let options = to | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

fn accepted(reply: Reply, what: &str) -> Result<Reply> {
    match reply {
        Reply::Error(message) => bail!("the server refused `{what}`: {message}"),
        other => Ok(other),
    }
}

const CONFIGURATION: &str = "server.conf";
const LOG: &str = "server.log";
const LOG_LINES: usize = 20;
const PORTS_TRIED: usize = 5;
const REPLY_WITHIN: Duration = Duration::from_secs(5);
const PING_WITHIN: Duration = Duration::from_millis(500);
const START_WITHIN: Duration = Duration::from_secs(20);
const STATE_WITHIN: Duration = Duration::from_secs(5);
