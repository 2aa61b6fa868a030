//! `cargo xtask test`: everything a change must pass, cheap steps first.
//!
//! A failed test keeps no other from running; anything else that fails ends the run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{self, cargo};
use crate::tally::Tally;

/// Runs every step and closes with the number of tests that passed, and those that failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    components_are_there(root)?;
    let loom_dir = cargo::target_dir(root)?.join("loom");
    let mut tally = Tally::default();
    let mut failed: Vec<String> = Vec::new();
    for step in STEPS {
        println!("\n==> {}", step.title);
        let started = now();
        let repeat = take(step, &Place { root, loom_dir: &loom_dir }, &mut tally)?;
        failed.extend(repeat);
        println!("    {} took {:.1} s", step.title, started.elapsed().as_secs_f64());
    }
    for name in tally.failures() {
        println!("failed: {name}");
    }
    println!("\n{tally}");
    ensure!(failed.is_empty(), "to repeat the tests that failed: {}", failed.join("; "));
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

/// Takes a step. The answer is how to repeat the tests that failed in it, if any did.
fn take(step: &Step, place: &Place<'_>, tally: &mut Tally) -> Result<Option<String>> {
    match step.work {
        Work::Servers => crate::servers::run(place.root)?,
        Work::Tidy => crate::tidy_or_fail()?,
        Work::Deny => crate::deny::run(place.root)?,
        Work::Cargo { call, env } => {
            let mut command = env.prepare(call, place);
            let status = command.status().context("cargo does not start")?;
            ensure!(status.success(), "{}", failure(step.title, call, env));
        }
        Work::Tests { call, env } => {
            let mut command = env.prepare(call, place);
            command.arg("--no-fail-fast");
            let mut seen = Tally::default();
            let status = cargo::watch(command, |line| seen.add(line))?;
            tally.merge(&seen);
            let named = !seen.failures().is_empty();
            ensure!(status.success() || named, "{tally}; {}", failure(step.title, call, env));
            return Ok(named.then(|| again(call, env, seen.failures())));
        }
    }
    Ok(None)
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

    /// The flag as it stands before a command.
    fn shown(self) -> String {
        self.flag().map(|(name, flag)| format!("{name}=\"{flag}\" ")).unwrap_or_default()
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
    format!("the step `{title}` failed; to repeat it alone: `{}cargo {call}`", env.shown())
}

/// The command that repeats just these tests. Examples in the documentation have names with
/// spaces, and are found by their file.
fn again(call: &str, env: Env, names: &[String]) -> String {
    let names: Vec<&str> = names.iter().filter_map(|it| it.split(' ').next()).collect();
    format!("`{}cargo {call} --no-fail-fast -- {}`", env.shown(), names.join(" "))
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
    fn failed_tests_can_be_repeated_by_themselves() {
        let names = ["a::b".to_owned(), "crates/core/src/lib.rs - (line 7)".to_owned()];
        assert_eq!(
            again("test --locked", Env::Loom, &names),
            "`RUSTFLAGS=\"--cfg loom\" cargo test --locked --no-fail-fast -- \
             a::b crates/core/src/lib.rs`"
        );
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
