//! `cargo xtask test`: everything a change must pass, cheap steps first, up to the first failure.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{self, cargo};
use crate::tally::Tally;

/// Runs every step and closes with the number of tests that passed.
pub(crate) fn run(root: &Path) -> Result<()> {
    components_are_there(root)?;
    let loom_dir = cargo::target_dir(root)?.join("loom");
    let mut tally = Tally::default();
    for step in STEPS {
        println!("\n==> {}", step.title);
        let started = now();
        take(step, &Place { root, loom_dir: &loom_dir }, &mut tally)?;
        println!("    {} took {:.1} s", step.title, started.elapsed().as_secs_f64());
    }
    println!("\n{tally}");
    Ok(())
}

/// One line of the list below.
struct Step {
    title: &'static str,
    work: Work,
}

enum Work {
    /// A cargo call.
    Cargo { call: &'static str, env: Env },
    /// A cargo call whose tests count.
    Tests { call: &'static str, env: Env },
    /// Installs what tests run.
    Servers,
    /// The house rules, in this process.
    Tidy,
    /// The rules for dependencies.
    Deny,
}

/// What a call needs in its environment.
#[derive(Clone, Copy)]
enum Env {
    Plain,
    /// Broken links and the like are errors.
    StrictDocs,
    /// Swaps atomics and locks for loom's, in a target folder of their own: the flag would rebuild
    /// everything twice otherwise.
    Loom,
}

struct Place<'a> {
    root: &'a Path,
    loom_dir: &'a PathBuf,
}

// The benchmark stays out: its peers take longer to build than all the rest.
// `--lib` for the documents, because the command and the front door share the name `tidegate`.
const STEPS: &[Step] = &[
    Step { title: "servers", work: Work::Servers },
    Step { title: "fmt", work: Work::Cargo { call: "fmt --all --check", env: Env::Plain } },
    Step {
        title: "clippy",
        work: Work::Cargo {
            call: "clippy --workspace --exclude tidegate-bench --all-targets \
                   --features tidegate/redis,tidegate/axum,tidegate/tonic --locked \
                   -- -D warnings",
            env: Env::Plain,
        },
    },
    Step { title: "tidy", work: Work::Tidy },
    Step { title: "deny", work: Work::Deny },
    Step {
        title: "tests",
        work: Work::Tests {
            call: "test --workspace --exclude tidegate-bench \
                   --features tidegate/redis,tidegate/axum,tidegate/tonic --locked",
            env: Env::Plain,
        },
    },
    Step {
        title: "generated code",
        work: Work::Tests {
            call: "test --package xtask --features proto --lib --locked proto",
            env: Env::Plain,
        },
    },
    Step {
        title: "loom models",
        work: Work::Tests {
            call: "test --package tidegate-store --release --locked --test loom",
            env: Env::Loom,
        },
    },
    Step {
        title: "docs",
        work: Work::Cargo {
            call: "doc --workspace --exclude tidegate-bench \
                   --features tidegate/redis,tidegate/axum,tidegate/tonic --lib --no-deps --locked",
            env: Env::StrictDocs,
        },
    },
    Step {
        title: "tests in release",
        work: Work::Tests {
            call: "test --package tidegate-core --package tidegate-store --package tidegate \
                   --release --locked",
            env: Env::Plain,
        },
    },
];

fn take(step: &Step, place: &Place<'_>, tally: &mut Tally) -> Result<()> {
    match step.work {
        Work::Servers => crate::servers::run(place.root),
        Work::Tidy => crate::tidy_or_fail(),
        Work::Deny => crate::deny::run(place.root),
        Work::Cargo { call, env } => {
            let mut command = env.prepare(call, place);
            let status = command.status().context("cargo does not start")?;
            ensure!(status.success(), "{}", failure(step.title, call, env));
            Ok(())
        }
        Work::Tests { call, env } => {
            let command = env.prepare(call, place);
            let status = cargo::watch(command, |line| tally.add(line))?;
            ensure!(status.success(), "{tally}; {}", failure(step.title, call, env));
            Ok(())
        }
    }
}

impl Env {
    fn prepare(self, call: &str, place: &Place<'_>) -> Command {
        let args: Vec<&str> = call.split_whitespace().collect();
        let mut command = cargo(place.root, &args);
        if let Some((name, flag)) = self.flag() {
            let already = env::var(name).unwrap_or_default();
            command.env(name, format!("{already} {flag}").trim_start());
        }
        if let Env::Loom = self {
            command.env("CARGO_TARGET_DIR", place.loom_dir);
        }
        command
    }

    fn flag(self) -> Option<(&'static str, &'static str)> {
        match self {
            Env::Plain => None,
            Env::StrictDocs => Some(("RUSTDOCFLAGS", "-D warnings")),
            Env::Loom => Some(("RUSTFLAGS", "--cfg loom")),
        }
    }
}

fn failure(title: &str, call: &str, env: Env) -> String {
    let flag = env.flag().map(|(name, flag)| format!("{name}=\"{flag}\" ")).unwrap_or_default();
    format!("the step `{title}` failed; to repeat it alone: `{flag}cargo {call}`")
}

fn components_are_there(root: &Path) -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !cargo::knows(root, subcommand) {
            bail!("{component} is missing; install it: `rustup component add {component}`");
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a task tells how long its steps took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
        STEPS.iter().filter_map(|step| match step.work {
            Work::Cargo { call, .. } | Work::Tests { call, .. } => Some((step.title, call)),
            Work::Servers | Work::Tidy | Work::Deny => None,
        })
    }

    #[test]
    fn cheap_steps_come_first() {
        let titles: Vec<&str> = STEPS.iter().map(|step| step.title).collect();
        let order = [
            "servers",
            "fmt",
            "clippy",
            "tidy",
            "deny",
            "tests",
            "generated code",
            "loom models",
            "docs",
            "tests in release",
        ];
        assert_eq!(titles, order);
    }

    #[test]
    fn nothing_moves_the_lock_file() {
        for (title, call) in calls().filter(|(title, _)| *title != "fmt") {
            assert!(call.split_whitespace().any(|arg| arg == "--locked"), "{title}");
        }
    }

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let message = failure("loom models", "test --test loom", Env::Loom);
        assert_eq!(
            message,
            "the step `loom models` failed; to repeat it alone: \
             `RUSTFLAGS=\"--cfg loom\" cargo test --test loom`"
        );
    }
}
