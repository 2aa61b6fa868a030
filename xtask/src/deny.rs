//! `cargo xtask deny`: what may enter the dependency tree, as `deny.toml` says it.
//!
//! Licences, bans and sources need no network. The database of advisories does: where it cannot be
//! reached, the task says so instead of calling the tree sound.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{self, cargo};
use crate::servers::last_line;

/// Pinned: another version may know other fields of `deny.toml`.
const VERSION: &str = "0.20.2";

/// Installs cargo-deny if it is missing, then checks the tree.
pub(crate) fn run(root: &Path) -> Result<()> {
    let program = installed(root)?;
    let check = ["check", "licenses", "bans", "sources"];
    ensure!(
        call(root, &program, &check).status()?.success(),
        "a dependency breaks a rule of deny.toml, listed above; `cargo xtask deny` repeats this"
    );
    if let Some(why) = unreachable(root, &program)? {
        println!("deny: licences, bans and sources are in order");
        println!("deny: ADVISORIES WERE NOT CHECKED, their database cannot be reached: {why}");
        return Ok(());
    }
    let check = ["check", "--disable-fetch", "advisories"];
    ensure!(
        call(root, &program, &check).status()?.success(),
        "a dependency has an advisory, listed above; update it, or add the advisory to \
         deny.toml with the reason why it does not concern us"
    );
    println!("deny: licences, bans, sources and advisories are in order");
    Ok(())
}

/// Why the advisories cannot be fetched, if they cannot.
fn unreachable(root: &Path, program: &Path) -> Result<Option<String>> {
    let fetch =
        call(root, program, &["fetch", "db"]).output().context("cargo-deny does not start")?;
    let said = String::from_utf8_lossy(&fetch.stderr);
    Ok((!fetch.status.success()).then(|| last_line(&said).to_owned()))
}

/// Where the program is, once it is there. It is built without optimization: it runs for seconds.
fn installed(root: &Path) -> Result<PathBuf> {
    let folder = cargo::target_dir(root)?.join("tools");
    let program = folder.join("bin/cargo-deny");
    let version = Command::new(&program).arg("--version").output();
    let there = version.is_ok_and(|it| it.stdout == format!("cargo-deny {VERSION}\n").as_bytes());
    if there {
        return Ok(program);
    }
    println!("deny: building cargo-deny {VERSION}, which takes a minute");
    let flags = ["install", "--quiet", "--locked", "--debug", "--force", "--no-default-features"];
    let mut args: Vec<&OsStr> = flags.map(OsStr::new).to_vec();
    args.extend(["cargo-deny", "--version", VERSION, "--root"].map(OsStr::new));
    args.push(folder.as_os_str());
    let status = cargo(root, &args).status().context("cargo does not start")?;
    ensure!(status.success(), "cargo-deny could not be installed; cargo's reason is above");
    Ok(program)
}

fn call(root: &Path, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(["--locked", "--log-level", "error"]).args(args);
    command
}
