//! Tidegate beside its peers: the same work, in the same run.
//!
//! `subject` holds what is measured, `workload` and `usual` the traffic; `adaptive`, `crowd`,
//! `decide`, `doors`, `fair`, `hostile`, `layer`, `memory`, `pause` and `redis` are the commands.
//! Start with `--help`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command that prints its findings"
)]

mod adaptive;
mod args;
mod crowd;
mod decide;
mod doors;
mod fair;
mod figure;
mod histogram;
mod hostile;
mod idle;
mod key;
mod layer;
mod load;
mod machine;
mod memory;
mod order;
mod pause;
mod redis;
mod report;
mod setting;
mod statistics;
mod status;
mod subject;
mod tape;
mod timer;
mod usual;
mod workload;

use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result};

use args::{Args, Command};
use setting::Effort;

fn main() -> ExitCode {
    let outcome =
        Args::parse(env::args().skip(1)).map_err(anyhow::Error::msg).and_then(|args| run(&args));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tidegate-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every figure holds its target.
fn run(args: &Args) -> Result<bool> {
    let (name, report) = match &args.command {
        Command::Help => {
            print!("{}", args::HELP);
            return Ok(true);
        }
        Command::MemoryChild { subject, keys } => {
            println!("{}", memory::child(subject, *keys)?);
            return Ok(true);
        }
        Command::LayerChild { contender } => {
            layer::serve(contender)?;
            return Ok(true);
        }
        Command::Adaptive => ("adaptive", adaptive::run_all(args.effort)),
        Command::Crowd => ("crowd", crowd::run(args.effort)),
        Command::Decide => ("decide", decide::run(args.effort)),
        Command::Doors { parts } => ("doors", doors::run(args.effort, parts)?),
        Command::Fair => ("fair", fair::run(args.effort)),
        Command::Hostile { parts, runs } => ("hostile", hostile::run(args.effort, parts, *runs)?),
        Command::SpinChild { share } => {
            hostile::spin(*share);
            return Ok(true);
        }
        Command::Layer => ("layer", layer::run(args.effort)?),
        Command::Memory => ("memory", memory::run(args.effort)?),
        Command::Pause => ("pause", pause::run(args.effort)?),
        Command::Redis { parts } => ("redis", self::redis::run(args.effort, parts)?),
    };
    if args.effort == Effort::Quick && !args.json {
        println!("A quick run: a twentieth of the keys and of the work.\n");
    }
    print!("{}", if args.json { report.json() } else { report.markdown() });
    if args.write {
        report.write(name).context("cannot write RESULTS.md")?;
    }
    Ok(report.holds())
}
