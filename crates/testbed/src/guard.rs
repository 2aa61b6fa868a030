//! Ends a server whose owner was killed, and could drop nothing.
//!
//! A shell waits on a pipe that only our process holds open. When that closes, whatever the
//! reason, it kills the server's group and removes its folder. Asking the system to signal the
//! server when its parent dies would need unsafe code, and would mean the thread that started it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// The shell. Dropped before its server, so that it never kills a process of the same number.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Guards the process that leads the group of that number.
    pub(crate) fn over(pid: u32, folder: &Path) -> Result<Guard> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guard", &pid.to_string()]).arg(folder);
        // In a group of its own: what interrupts the tests must not end it before its work.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = command.spawn().context("`sh` does not start; is it in PATH?")?;
        Ok(Guard { shell })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

const SCRIPT: &str = r#"read -r _; kill -KILL "-$1"; rm -rf -- "$2""#;
