//! A service on a core of its own, and the load that it is under from another.
//!
//! On one core with the service the load would have a say in how fast that is: the less a service
//! leaves of a core, the more often either is interrupted by the other. So would a load that
//! sleeps: the slower a service is, the more of its answers wake somebody, which it pays for.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::CHILD;
use crate::load::talk::{Http, Start, Talk};
use crate::load::{Clients, Load, Shape, Until};
use crate::order::Random;
use crate::statistics::float;

/// A service in a process of its own, and connections to it; killed when it is dropped.
pub(super) struct Served {
    child: Child,
    /// A line to the child asks for its processor time, which is the next line from it.
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
    load: Load,
}

/// What a while under load came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Requests per second.
    pub(super) rate: f64,
    /// The service's processor time for each of them, in microseconds.
    pub(super) cpu_us: f64,
}

impl Served {
    pub(super) fn start(contender: &str) -> Result<Served> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut child = Command::new("taskset")
            .args(["--cpu-list", SERVICE_CORE])
            .arg(own)
            .args([CHILD, contender])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the service")?;
        let asks = child.stdin.take().context("the service has no input")?;
        let output = child.stdout.take().context("the service has no output")?;
        let (mut says, mut address) = (BufReader::new(output), String::new());
        says.read_line(&mut address).context("the service says no address")?;
        let address: SocketAddr = address
            .trim()
            .parse()
            .with_context(|| format!("the service `{contender}` did not start"))?;
        let talk = Http::get("/search/things?q=#######", "\"more\":false");
        let start: Start = Box::new(move || Box::new(talk.clone()) as Box<dyn Talk>);
        let load = Load::open(address.port(), SHAPE, &start)?;
        Ok(Served { child, asks, says, load })
    }

    /// Has it answer for so long.
    pub(super) fn load(&mut self, time: Duration) -> Result<Stretch> {
        let mut clients = Clients::Any(Random::seeded(0), CLIENTS);
        let before = self.cpu_ns()?;
        let lap = self.load.saturate(&mut clients, Until::After(time))?;
        let cpu_ns = self.cpu_ns()?.saturating_sub(before);
        let replies = float(lap.replies);
        let rate = replies / lap.wall.as_secs_f64();
        Ok(Stretch { rate, cpu_us: float(cpu_ns) / replies / 1e3 })
    }

    /// The processor time that the service has used.
    fn cpu_ns(&mut self) -> Result<u64> {
        writeln!(self.asks).context("the service is not there any more")?;
        let mut said = String::new();
        self.says.read_line(&mut said).context("the service says no processor time")?;
        said.trim().parse().context("processor time is in nanoseconds")
    }
}

const SERVICE_CORE: &str = "0";
/// As many connections as wrk opens in most articles, one request at a time on each.
const SHAPE: Shape = Shape { connections: 50, in_flight: 1, in_step: false, sleeps: false };
/// What is searched for: different in every request, and nothing to the service.
const CLIENTS: u32 = 1_000_000;

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
