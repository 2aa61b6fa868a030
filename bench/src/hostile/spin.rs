//! A process that spins: it takes its share of a processor and talks to nobody.

use std::env;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::timer;

/// Ends when it is dropped.
pub(super) struct Spinner(Child);

impl Spinner {
    /// Takes this share of a processor.
    pub(super) fn start(share: f64) -> Result<Self> {
        let own = env::current_exe().context("where is this program?")?;
        let child = Command::new(own).args([CHILD, &format!("{share:.3}")]).spawn();
        Ok(Self(child.context("cannot start a process that spins")?))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process does, until it is killed and not much longer than anybody needs it.
pub(crate) fn spin(share: f64) {
    let busy = PERIOD.mul_f64(share.clamp(0.0, 1.0));
    let end = timer::now() + LONGEST;
    while timer::now() < end {
        let start = timer::now();
        while start.elapsed() < busy {}
        timer::pause(PERIOD.saturating_sub(busy));
    }
}

/// The word by which this program is asked to spin.
pub(crate) const CHILD: &str = "spin-child";
const PERIOD: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_mins(2);
