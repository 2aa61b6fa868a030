//! The load: wrk, and what it says.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::CHILD;

/// A service in a process of its own; killed when it is dropped.
pub(super) struct Served {
    child: Child,
    address: String,
}

impl Served {
    pub(super) fn start(contender: &str) -> Result<Served> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut child = Command::new(own)
            .args([CHILD, contender])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the service")?;
        let output = child.stdout.take().context("the service has no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).context("the service says no address")?;
        ensure!(!address.trim().is_empty(), "the service `{contender}` did not start");
        Ok(Served { child, address: address.trim().to_owned() })
    }

    /// Requests per second.
    pub(super) fn load(&self, time: Duration) -> Result<f64> {
        let seconds = time.as_secs().max(1);
        let url = format!("http://{}/search/things?q=x", self.address);
        let output = Command::new("wrk")
            .args(["-t2", "-c50", &format!("-d{seconds}s"), &url])
            .output()
            .context("cannot start wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "wrk failed: {text}");
        ensure!(!text.contains("Non-2xx"), "the service refused: {text}");
        let line = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
        let rate = line.and_then(|line| line.trim().parse().ok());
        rate.with_context(|| format!("wrk says no rate: {text}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
