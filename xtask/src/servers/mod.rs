//! `cargo xtask servers`: installs the programs that tests run: servers, proxies and clients.
//!
//! The system's packages come first, since the others are fetched by what is in them. Where all
//! can be had, a failure is an error; elsewhere tests say what they did without.

mod kit;
mod quiet;
mod system;
mod wheel;

use std::env::{self, consts};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, bail};

use crate::cargo;

/// Installs what is missing. What is there is neither changed nor stopped.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = cargo::target_dir(root)?.join("servers");
    system::install_missing(&folder)?;
    // They wait for the network more than for a core.
    let failed = thread::scope(|scope| {
        let node = scope.spawn(|| kit::NODE.report(&folder));
        let python = scope.spawn(|| kit::PYTHON.report(&folder));
        let wheels = wheel::WHEELS.iter().map(|wheel| wheel.report(&folder));
        let mut failed: Vec<Option<&str>> = wheels.collect();
        // A thread that panicked has said so.
        failed.extend([node, python].map(|thread| thread.join().unwrap_or(Some("a kit"))));
        failed
    });
    let failed: Vec<&str> = failed.into_iter().flatten().collect();
    if !failed.is_empty() && can_have_all() {
        bail!("not installed: {}; why is above, and this system can have all", failed.join(", "));
    }
    Ok(())
}

/// Installs what makes load for a measurement.
pub(crate) fn install_load(root: &Path) -> Result<()> {
    system::install_load(&cargo::target_dir(root)?.join("servers"))
}

/// Installs what other servers are built with and run in.
pub(crate) fn install_peers(root: &Path) -> Result<()> {
    system::install_peers(&cargo::target_dir(root)?.join("servers"))
}

/// Whether nothing but a mistake or the network keeps a program from being installed here.
fn can_have_all() -> bool {
    system::obstacle().is_none() && consts::OS == "linux" && consts::ARCH == "x86_64"
}

/// Says what came of an installation, and gives the name of what is not there.
fn report(name: &'static str, version: &str, installed: Result<()>) -> Option<&'static str> {
    match installed {
        Ok(()) => println!("servers: {name} is there: {version}"),
        Err(error) => {
            println!("servers: going on without {name}, whose tests will be skipped: {error:#}");
            return Some(name);
        }
    }
    None
}

/// Where a program is in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs a program to its end and gives what it printed; what it complained of is in the error.
fn output(program: impl AsRef<OsStr>, args: &[&OsStr]) -> Result<String> {
    let name = program.as_ref().to_string_lossy();
    let output = Command::new(&program).args(args).output();
    let output = output.with_context(|| format!("`{name}` does not start"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "`{name}` failed: {}", last_line(&said));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_its_last_words() {
        assert_eq!(last_line("first\nerror: the last\n\n"), "error: the last");
        assert_eq!(last_line("\n"), "it did not say why");
    }

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert_eq!(report("Envoy", "1.0", Ok(())), None);
        assert_eq!(report("Envoy", "1.0", Err(anyhow::anyhow!("no network"))), Some("Envoy"));
    }
}
