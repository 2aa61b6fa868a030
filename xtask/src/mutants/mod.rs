//! `cargo xtask mutants`: breaks tidegate-core in every small way and sees whether a test notices.
//!
//! What goes unnoticed must be in the list of accepted mutants, with a reason, and the list must
//! hold nothing else.

mod accepted;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use self::accepted::{Coverage, Mutants};
use crate::cargo::{self, cargo};

/// Where accepted mutants are listed.
const ACCEPTED: &str = "crates/core/mutants-accepted.txt";

const VERSION: &str = "27.1.0";

/// Runs cargo-mutants and compares what it missed with the list.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    // Read first: a broken list should not cost an hour.
    let accepted = read(&root.join(ACCEPTED)).and_then(|text| Mutants::accepted(&text))?;
    install_if_missing(root)?;
    let output = cargo::target_dir(root)?.join("mutants");
    fs::create_dir_all(&output).with_context(|| format!("cannot make `{}`", output.display()))?;
    hunt(root, &output, args)?;
    let missed = Mutants::missed(&read(&output.join("mutants.out/missed.txt"))?);
    let coverage = if args.is_empty() { Coverage::Whole } else { Coverage::Part };
    settle(&accepted::differences(&accepted, &missed, coverage))
}

fn install_if_missing(root: &Path) -> Result<()> {
    if cargo::knows(root, "mutants") {
        return Ok(());
    }
    println!("==> installing cargo-mutants {VERSION}; this takes some minutes");
    let mut install = cargo(root, &["install", "cargo-mutants", "--locked", "--version", VERSION]);
    ends_well(install.env_remove("CARGO_TARGET_DIR"), &[0])
}

fn hunt(root: &Path, output: &Path, args: &[String]) -> Result<()> {
    let mut hunt = cargo(root, &["mutants", "--package", "tidegate-core", "--jobs", "2"]);
    hunt.arg("--output").arg(output).args(args);
    // Each job builds its own copy of the tree: they must not share a target folder.
    hunt.env_remove("CARGO_TARGET_DIR");
    // 2: some were missed, which the list may allow. 3: some ran into the time limit, so a test
    // hung, which is as good as red.
    ends_well(&mut hunt, &[0, 2, 3])
}

fn ends_well(command: &mut Command, good: &[i32]) -> Result<()> {
    let status = command.status().context("cargo does not start")?;
    let ended_well = status.code().is_some_and(|code| good.contains(&code));
    ensure!(ended_well, "cargo stopped with {status}; what it said is above");
    Ok(())
}

fn settle(differences: &[String]) -> Result<()> {
    for difference in differences {
        println!("{ACCEPTED}: {difference}");
    }
    if !differences.is_empty() {
        bail!("missed mutants and accepted mutants differ, as listed above");
    }
    println!("mutants: every one is noticed by a test or accepted with a reason");
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}
