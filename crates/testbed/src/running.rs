//! A process that ends with its owner, and so do its children.
//!
//! It leads a group of its own: interrupting the tests leaves its end to its guard, and a signal
//! to the group reaches what it started, such as the workers of a proxy.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::guard::Guard;
use crate::wait;

/// A process and what ends it when we cannot.
#[derive(Debug)]
pub(crate) struct Running {
    guard: Option<Guard>,
    child: Child,
}

impl Running {
    /// Starts the command in `folder`, which goes with it; what it says is added to `log`.
    pub(crate) fn spawn(command: &mut Command, folder: &Path, log: &Path) -> Result<Running> {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write `{}`", log.display()))?;
        command.current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn();
        let program = command.get_program().display();
        let mut child = child.with_context(|| format!("`{program}` does not start"))?;
        match Guard::over(child.id(), folder) {
            Ok(guard) => Ok(Running { guard: Some(guard), child }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Stops it where it is, and waits until it stands still.
    pub(crate) fn pause(&self) -> Result<()> {
        self.ensure_up()?;
        kill_process_group(self.pid(), Signal::STOP)?;
        let stopped = || has_changed(self.pid(), WaitIdOptions::STOPPED);
        wait::until(STATE_WITHIN, "the process stands still", stopped)
    }

    pub(crate) fn resume(&self) -> Result<()> {
        self.ensure_up()?;
        Ok(kill_process_group(self.pid(), Signal::CONT)?)
    }

    /// Tells the process itself; what it started is its own to tell.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.ensure_up()?;
        Ok(kill_process(self.pid(), signal)?)
    }

    /// Waits until it has ended by itself, and says how.
    pub(crate) fn end(mut self, within: Duration) -> Result<ExitStatus> {
        wait::until(within, "the process ends", || self.has_ended())?;
        self.kill_all();
        Ok(self.child.wait()?)
    }

    /// Looks without reaping, so that nobody gets its number while we still use it.
    pub(crate) fn has_ended(&self) -> bool {
        has_changed(self.pid(), WaitIdOptions::EXITED)
    }

    /// Once only: after it was reaped, its number may be another's.
    fn kill_all(&mut self) {
        if self.guard.take().is_some() {
            // Fails only when all have ended already.
            kill_process_group(self.pid(), Signal::KILL).unwrap_or_default();
        }
    }

    fn ensure_up(&self) -> Result<()> {
        ensure!(!self.has_ended(), "the process has ended; restart it first");
        Ok(())
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_all();
        drop(self.child.wait());
    }
}

fn has_changed(pid: Pid, to: WaitIdOptions) -> bool {
    let options = to | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// The last lines of a log, for an error message.
pub(crate) fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

const LOG_LINES: usize = 20;
const STATE_WITHIN: Duration = Duration::from_secs(5);
