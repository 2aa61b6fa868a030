//! Calls cargo, the one that runs us, from the root of the workspace.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// A cargo call, not yet started.
pub(crate) fn cargo<S: AsRef<std::ffi::OsStr>>(root: &Path, args: &[S]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    command
}

/// Whether this cargo knows the subcommand; says nothing either way.
pub(crate) fn knows(root: &Path, subcommand: &str) -> bool {
    let mut probe = cargo(root, &[subcommand, "--version"]);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Runs a call to its end, passing each line of its stdout on and showing it to `see`.
pub(crate) fn watch(mut command: Command, mut see: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo does not start")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("cargo's output breaks off")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    child.wait().context("cargo does not end")
}

/// What `cargo metadata` says about the packages of this workspace.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    let args = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let output = cargo(root, &args).output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// Where cargo builds.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    let metadata = metadata(root)?;
    let target = metadata["target_directory"].as_str();
    Ok(target.context("cargo metadata names no target directory")?.into())
}
