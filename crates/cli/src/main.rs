//! The `tidegate` command: `serve` is the server, `admin` administers one that runs, `check` looks
//! at policy files and runs their tests, `keys` gives out API keys, `schema` is for editors,
//! `simulate` compares algorithms in virtual time, `explain` tells what they are for, `completions`
//! and `man` are for shells and readers. Without a subcommand it serves a sample policy.

mod admin;
mod check;
mod done;
mod explain;
mod failure;
mod json;
mod keys;
mod picture;
mod plain;
mod quantity;
mod schema;
mod serve;
mod shell;
mod simulate;
mod table;
mod variables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tikv_jemallocator::Jemalloc;

use crate::done::Done;
use crate::failure::Failure;

/// It gives memory back by a thread of its own, also while nothing is asked. glibc's keeps what
/// thousands of connections have held: a server that two thousand pipelines had attacked stayed at
/// 60 % of its peak, and is at 20 % after fifteen seconds with this one.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Rate limits for APIs: a server for HTTP, Envoy and Redis clients, and commands that check, test
/// and simulate policies.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "Without a command it runs `tidegate serve`: a sample policy on this machine, and \
                  what to try."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Admin(Box<admin::Args>),
    Check(Box<check::Args>),
    Keys(Box<keys::Args>),
    Schema(schema::Args),
    Simulate(Box<simulate::Args>),
    Explain(explain::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let done = match cli.command {
        None => return serve::run(serve::Args::default()).unwrap_or_else(Failure::report),
        Some(Command::Serve(args)) => return serve::run(*args).unwrap_or_else(Failure::report),
        Some(Command::Admin(args)) => admin::run(&args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Keys(args)) => keys::run(&args),
        Some(Command::Schema(args)) => Ok(Done::good(schema::run(args))),
        Some(Command::Simulate(args)) => simulate::run(&args).map(Done::good),
        Some(Command::Explain(args)) => Ok(Done::good(explain::run(args))),
        Some(Command::Completions(args)) => Ok(Done::good(shell::completions(args))),
        Some(Command::Man(args)) => shell::man(&args).map(Done::good),
    };
    done.and_then(Done::show).unwrap_or_else(Failure::report)
}

/// Prints what clap has to say: help to those who asked for it, an error to the others.
fn misread(error: &clap::Error) -> ExitCode {
    // There is nobody left to tell if this cannot be printed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Failure::USAGE))
}
