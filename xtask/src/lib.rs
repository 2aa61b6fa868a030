//! What there is to do in this repository, as commands.
//!
//! Needs cargo and git; what tests need besides, `cargo xtask servers` installs.
//! A library beside its binary so that `tests/tidy.rs` can ask whether the tree is tidy.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to a terminal")]

mod bench;
mod campaign;
mod cargo;
mod deny;
mod fuzz;
mod help;
mod mutants;
mod peers;
mod proto;
mod servers;
mod tally;
mod test;
pub mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

/// Runs the command that `args` name, and says how it ended.
pub fn run(args: Vec<String>) -> ExitCode {
    dispatch(args).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The folder that holds the workspace's manifest.
pub fn root() -> Result<PathBuf> {
    // Cargo says where the package is when it runs something; a bare call has only what was true
    // when it was compiled.
    let package = env::var("CARGO_MANIFEST_DIR");
    let package = package.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    let root = PathBuf::from(package).join("..");
    fs::canonicalize(&root).with_context(|| format!("no such folder: `{}`", root.display()))
}

fn dispatch(mut args: Vec<String>) -> Result<ExitCode> {
    if args.is_empty() {
        print!("{}", help::HELP);
        return Ok(ExitCode::SUCCESS);
    }
    let command = args.remove(0);
    if args.iter().any(|arg| arg == "--help" || arg == "-h") && command != "bench" {
        print!("{}", help::HELP);
        return Ok(ExitCode::SUCCESS);
    }
    match command.as_str() {
        "help" | "--help" | "-h" => print!("{}", help::HELP),
        "test" => alone(&args).and_then(|()| test::run(&root()?))?,
        "servers" => alone(&args).and_then(|()| servers::run(&root()?))?,
        "tidy" => alone(&args).and_then(|()| tidy_or_fail())?,
        "deny" => alone(&args).and_then(|()| deny::run(&root()?))?,
        "bench" => return bench::run(&root()?, &args),
        "campaign" => return campaign::run(&root()?, &args),
        "fuzz" => fuzz::run(&root()?, &args)?,
        "mutants" => mutants::run(&root()?, &args)?,
        "proto" => alone(&args).and_then(|()| proto::run(&root()?))?,
        other => bail!("no such command: `{other}`; `cargo xtask --help` lists them"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses arguments that would otherwise be ignored.
fn alone(args: &[String]) -> Result<()> {
    match args.first() {
        None => Ok(()),
        Some(arg) => bail!("this command takes no arguments: `{arg}`"),
    }
}

fn tidy_or_fail() -> Result<()> {
    let (findings, size) = tidy::run(&root()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {size}");
    match findings.len() {
        0 => println!("tidy: nothing to do"),
        1 => bail!("the tree is not tidy: one finding, listed above"),
        many => bail!("the tree is not tidy: {many} findings, listed above"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(args: &[&str], message: &str) {
        let args = args.iter().map(ToString::to_string).collect();
        assert_eq!(dispatch(args).expect_err("this must be refused").to_string(), message);
    }

    #[test]
    fn unknown_commands_are_told_where_to_look() {
        refuses(&["tset"], "no such command: `tset`; `cargo xtask --help` lists them");
    }

    #[test]
    fn arguments_are_never_ignored() {
        refuses(&["test", "core"], "this command takes no arguments: `core`");
        refuses(&["servers", "core"], "this command takes no arguments: `core`");
        refuses(&["tidy", "core"], "this command takes no arguments: `core`");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = root().unwrap().join("Cargo.toml");
        assert!(fs::read_to_string(manifest).unwrap().contains("[workspace]"));
    }
}
