//! Where and when: what a reader needs to judge a figure, and nothing that names the host.

use std::fs;
use std::process::Command;
use std::thread;

/// One Markdown sentence a line.
pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {cores} cores.\n{}.\nCommit {}, {}.",
        processor(),
        said_by("rustc", &["--version"]),
        said_by("git", &["rev-parse", "--short", "HEAD"]),
        said_by("date", &["-u", "+%F"]),
    )
}

fn processor() -> String {
    let described = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = described.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or("unknown processor", |model| model.trim_matches([' ', '\t', ':'])).to_owned()
}

/// The first line that a program prints, or `unknown`.
fn said_by(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or("unknown".to_owned(), |said| said.trim().to_owned())
}
