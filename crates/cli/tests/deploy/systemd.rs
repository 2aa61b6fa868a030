//! The unit, by systemd's own tool.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::stand::swap;

const SHIPPED: &str = include_str!("../../../../deploy/systemd/tidegate.service");

fn analyze(args: &[&str]) -> Option<Output> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("systemd");
    fs::create_dir_all(&folder).expect("the tests' own folder can be written");
    let unit = folder.join("tidegate.service");
    // It says whether the program can be run.
    let text = swap(SHIPPED, "/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
    fs::write(&unit, text).expect("the tests' own folder can be written");
    Command::new("systemd-analyze").args(args).arg(unit).output().ok()
}

#[test]
fn systemd_accepts_the_unit_and_finds_it_hardened() {
    let Some(verified) = analyze(&["verify"]) else {
        println!("skipped: systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("tidegate.service"), "{said}");
    // In tenths, of 100: 92 is what a unit has that says nothing.
    let hardened = analyze(&["security", "--offline=true", "--threshold=20"]).unwrap();
    assert!(hardened.status.success(), "{}", String::from_utf8_lossy(&hardened.stdout));
}

#[test]
fn the_unit_calls_the_server_by_flags_that_it_has() {
    let start = SHIPPED.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.expect("the unit starts something");
    let help = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["serve", "--help"]).output();
    let help = String::from_utf8_lossy(&help.unwrap().stdout).into_owned();
    let commented = SHIPPED.lines().filter_map(|line| line.strip_prefix("#   "));
    let words = start.split(' ').chain(commented.flat_map(|line| line.split(' ')));
    let flags: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
    assert!(3 <= flags.len(), "{flags:?}");
    for flag in flags {
        assert!(help.contains(&format!("{flag} ")), "there is no `{flag}`");
    }
}
