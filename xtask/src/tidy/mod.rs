//! The house rules that neither the compiler nor clippy can hold.
//!
//! Each rule is a pure function from the texts of files to findings, in a file of its own, with
//! tests that show it failing. Comments and literals are blanked before rules read code.

mod arrows;
mod bans;
mod form;
mod names;
mod papers;
mod paths;
mod purity;
mod rooms;
mod size;
mod source;
mod strays;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use self::size::Size;
use self::source::File;
use crate::cargo;

/// Something to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the root of the workspace.
    pub path: String,
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong.
    pub wrong: String,
    /// What to do.
    pub fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.wrong, self.fix)
    }
}

/// Reads the tree at `root` and lists all that breaks a rule, by file; and says what it weighs.
pub fn run(root: &Path) -> Result<(Vec<Finding>, String)> {
    let files = tree::read(root)?;
    let arrows = arrows::read(&cargo::metadata(root)?)?;
    let mut findings = arrows::check(&arrows, &files);
    for check in CHECKS {
        findings.extend(check(&files));
    }
    findings.sort();
    findings.dedup();
    Ok((findings, Size::of(&files).to_string()))
}

/// A rule.
type Check = fn(&[File]) -> Vec<Finding>;

/// Every rule that needs no more than the files.
const CHECKS: [Check; 8] = [
    purity::check,
    rooms::check,
    form::check,
    names::check,
    strays::check,
    papers::check,
    paths::check,
    bans::check,
];

/// The algorithms, as users write them.
const ALGORITHMS: [&str; 8] = [
    "token-bucket",
    "gcra",
    "leaky-bucket",
    "leaky-queue",
    "fixed-window",
    "sliding-window",
    "sliding-log",
    "concurrency",
];

/// Asserts in a rule's tests what the rule finds, word for word.
#[cfg(test)]
#[track_caller]
fn finds(check: Check, files: &[(&str, &str)], expected: &[&str]) {
    let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
    let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}
