//! The `tidegate` command: `simulate` compares algorithms in virtual time, `explain` tells what
//! they are for. Without a subcommand it runs the default comparison.

mod explain;
mod failure;
mod json;
mod picture;
mod quantity;
mod simulate;
mod table;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Exact rate limiting, tried out in virtual time.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "Without a command it runs `tidegate simulate`: the two-fold burst at the edge \
                  of a fixed window,\nand its absence elsewhere, as a table and a picture."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Simulate(Box<simulate::Args>),
    Explain(explain::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let done = match cli.command {
        None => simulate::run(&simulate::Args::default()),
        Some(Command::Simulate(args)) => simulate::run(&args),
        Some(Command::Explain(args)) => Ok(explain::run(args)),
    };
    match done.and_then(|text| show(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints what clap has to say: help to those who asked for it, an error to the others.
fn misread(error: &clap::Error) -> ExitCode {
    // There is nobody left to tell if this cannot be printed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Failure::USAGE))
}

/// Writes `text` to the standard output. A reader that has seen enough is no failure.
fn show(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to the standard output").into())
        }
        _ => Ok(()),
    }
}
