//! `cargo xtask fuzz`: builds a target with coverage to guide it, and runs it for a while.
//!
//! Stable Rust can do this: LLVM's pass is named by hand, and libFuzzer is built from source. The
//! flags count for the target alone, because it is named with `--target`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{self, cargo};

/// What can be fuzzed.
const TARGETS: [&str; 5] = ["http_body", "policy_file", "resp_frame", "rls_descriptor", "snapshot"];

const MINUTES: u32 = 5;

const FLAGS: &str = "-Cpasses=sancov-module \
                     -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares \
                     -Ccodegen-units=1";

/// Which target, and for how long.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    target: &'a str,
    minutes: u32,
}

/// Builds a target and runs it; fails when it finds something.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let Asked { target, minutes } = asked(args)?;
    let folder = root.join("fuzz");
    let built = cargo::target_dir(root)?.join("fuzz");
    let host = host()?;
    let mut compile = cargo(&folder, &["build", "--release", "--locked", "--bin", target]);
    compile.args(["--target", &host]).env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &built);
    let status = compile.status().context("cargo does not start")?;
    ensure!(status.success(), "the target `{target}` does not build");
    let found = built.join("found");
    let grown = built.join("corpus").join(target);
    for folder in [&found, &grown] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    // The first folder is where it keeps what reaches new code; the second is only read.
    let mut fuzzer = Command::new(built.join(&host).join("release").join(target));
    fuzzer.current_dir(&folder).arg(&grown).arg(folder.join("corpus").join(target));
    fuzzer.arg(format!("-dict={target}.dict")).arg(format!("-max_total_time={}", minutes * 60));
    fuzzer.arg(format!("-artifact_prefix={}/", found.display()));
    fuzzer.args(["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    let before = kept(&found)?;
    let status = fuzzer.status().context("the fuzzer does not start")?;
    ensure!(status.success(), "{}", failure(target, &found, before < kept(&found)?));
    Ok(())
}

fn asked(args: &[String]) -> Result<Asked<'_>> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (target, minutes) = match words[..] {
        [target] => (target, MINUTES),
        [target, "--minutes", minutes] => match minutes.parse() {
            Ok(minutes @ 1..=1_440) => (target, minutes),
            _ => bail!("minutes are a number from 1 to 1440: `{minutes}`"),
        },
        _ => bail!("fuzz needs a target, and takes `--minutes N`: {}", TARGETS.join(", ")),
    };
    if !TARGETS.contains(&target) {
        bail!("no such target: `{target}`; there is {}", TARGETS.join(", "));
    }
    Ok(Asked { target, minutes })
}

/// How many inputs a folder holds.
fn kept(folder: &Path) -> Result<usize> {
    let entries = std::fs::read_dir(folder);
    Ok(entries.with_context(|| format!("cannot read `{}`", folder.display()))?.count())
}

/// libFuzzer keeps the input of a panic or a hang, but dies with the stack when that overflows.
fn failure(target: &str, found: &Path, has_input: bool) -> String {
    if has_input {
        return format!(
            "the fuzzer found something: its input is in `{}`; fix it, and add it to \
             `fuzz/corpus/{target}`",
            found.display()
        );
    }
    "the fuzzer died without keeping its input, as it does when the stack overflows; run the tests \
     of the crate, which read every seed"
        .to_owned()
}

/// The platform that this compiler builds for by itself.
fn host() -> Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).arg("-vV").output().context("rustc does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expected: Result<Asked<'_>, &str>) {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let found = asked(&args).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_target_runs_for_five_minutes_unless_said() {
        check(&["policy_file"], Ok(Asked { target: "policy_file", minutes: 5 }));
        let asked = Asked { target: "policy_file", minutes: 60 };
        check(&["policy_file", "--minutes", "60"], Ok(asked));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let names = TARGETS.join(", ");
        let usage = format!("fuzz needs a target, and takes `--minutes N`: {names}");
        check(&[], Err(&usage));
        check(&["policy_file", "--jobs", "2"], Err(&usage));
        check(&["policy"], Err(&format!("no such target: `policy`; there is {names}")));
        for minutes in ["0", "-1", "ten", "1441"] {
            let message = format!("minutes are a number from 1 to 1440: `{minutes}`");
            check(&["policy_file", "--minutes", minutes], Err(&message));
        }
    }

    #[test]
    fn an_input_is_promised_only_if_there_is_one() {
        let found = Path::new("found");
        assert!(failure("policy_file", found, true).contains("its input is in `found`"));
        assert!(!failure("policy_file", found, false).contains("found`"));
    }

    #[test]
    fn every_target_has_seeds_and_words() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        for target in TARGETS {
            assert!(fuzz.join(format!("{target}.dict")).is_file(), "{target}");
            assert!(fuzz.join("corpus").join(target).is_dir(), "{target}");
            assert!(fuzz.join(format!("fuzz_targets/{target}.rs")).is_file(), "{target}");
        }
    }

    #[test]
    fn its_lock_file_is_current() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["metadata", "--locked", "--format-version", "1", "--manifest-path"]);
        let told = command.arg(manifest).output().unwrap();
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "run `cargo metadata` in `fuzz`, and commit: {said}");
    }
}
