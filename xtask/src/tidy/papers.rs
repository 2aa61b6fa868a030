//! The documents: those that must exist, how long they may be, and what they must say.

use super::source::File;
use super::{ALGORITHMS, Finding};

/// Files that readers and tasks count on.
const EXPECTED: [&str; 12] = [
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "crates/core/mutants-accepted.txt",
    "crates/store/tests/loom.rs",
    "deny.toml",
    "docs/design/README.md",
];

/// Documents that are read from beginning to end: a few screens.
const SHORT: [&str; 2] = ["ARCHITECTURE.md", "README.md"];
const SHORT_LINES_MAX: usize = 150;
const ROOM: &str = "docs/algorithms";
const HEADINGS: [&str; 5] =
    ["What it does", "When to use it", "When not", "Example", "State and cost"];

/// Finds documents that are missing, too long or incomplete.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = missing(files);
    findings.extend(files.iter().flat_map(|file| match file.path.as_str() {
        path if SHORT.contains(&path) => short(file),
        "CHANGELOG.md" => changelog(file),
        _ if file.is_under(ROOM) => algorithm(file),
        _ => Vec::new(),
    }));
    findings
}

fn missing(files: &[File]) -> Vec<Finding> {
    let algorithms = ALGORITHMS.map(|name| format!("{ROOM}/{name}.md"));
    let expected = EXPECTED.map(str::to_owned).into_iter().chain(algorithms);
    let absent = expected.filter(|path| !files.iter().any(|file| file.path == *path));
    let wrong = || "the file is missing".to_owned();
    absent.map(|path| Finding { path, line: 1, wrong: wrong(), fix: "write it" }).collect()
}

fn short(file: &File) -> Vec<Finding> {
    let lines = file.lines().count();
    if lines <= SHORT_LINES_MAX {
        return Vec::new();
    }
    let wrong = format!("{lines} lines, at most {SHORT_LINES_MAX}");
    vec![file.finding(SHORT_LINES_MAX + 1, wrong, "move detail to docs and link it")]
}

fn changelog(file: &File) -> Vec<Finding> {
    let is_release = |title: &str| {
        let title = title.trim_start_matches(['[', 'v']);
        title.starts_with("Unreleased") || title.starts_with(|c: char| c.is_ascii_digit())
    };
    if file.lines().any(|(_, line)| line.strip_prefix("## ").is_some_and(is_release)) {
        return Vec::new();
    }
    vec![file.finding(1, "no release is named".to_owned(), "add `## Unreleased`")]
}

fn algorithm(file: &File) -> Vec<Finding> {
    let name = file.path.strip_prefix(ROOM).unwrap_or(&file.path);
    let name = name.trim_start_matches('/').trim_end_matches(".md");
    if !ALGORITHMS.contains(&name) {
        let wrong = format!("no algorithm is called `{name}`");
        return vec![file.finding(1, wrong, "name the file as users write the algorithm")];
    }
    let is_there = |heading| file.lines().any(|(_, line)| title(line) == Some(heading));
    let absent = HEADINGS.into_iter().filter(|heading| !is_there(heading));
    let wrong = |heading| format!("no heading `{heading}`");
    absent.map(|heading| file.finding(1, wrong(heading), "write that part")).collect()
}

/// The text of a heading of any level below the first.
fn title(line: &str) -> Option<&str> {
    line.strip_prefix("##").map(|rest| rest.trim_start_matches('#').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &[&str]) {
        let found = check(&[File::new(path, text)]);
        let found: Vec<String> = found
            .iter()
            .filter(|finding| finding.wrong != "the file is missing")
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_files_are_found() {
        let found = check(&[File::new("README.md", "")]);
        let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert!(paths.contains(&"crates/store/tests/loom.rs"));
        assert!(paths.contains(&"docs/algorithms/gcra.md"));
        assert!(!paths.contains(&"README.md"));
    }

    #[test]
    fn what_should_be_short_is() {
        for path in ["ARCHITECTURE.md", "README.md"] {
            let found = "151 lines, at most 150; move detail to docs and link it";
            check_one(path, &"a\n".repeat(151), &[&format!("{path}:151: {found}")]);
            check_one(path, &"a\n".repeat(150), &[]);
        }
    }

    #[test]
    fn a_changelog_names_releases() {
        for fine in ["## Unreleased\n", "## [Unreleased]\n", "# Changes\n\n## 0.1.0\n"] {
            check_one("CHANGELOG.md", fine, &[]);
        }
        let found = "CHANGELOG.md:1: no release is named; add `## Unreleased`";
        check_one("CHANGELOG.md", "# Unreleased\n## What changed\n", &[found]);
    }

    #[test]
    fn an_algorithm_is_described_in_five_parts() {
        let whole = HEADINGS.map(|heading| format!("## {heading}\n")).concat();
        check_one("docs/algorithms/gcra.md", &whole, &[]);
        let found = "docs/algorithms/gcra.md:1: no heading `When not`; write that part";
        check_one("docs/algorithms/gcra.md", &whole.replace("When not", "Whence"), &[found]);
    }

    #[test]
    fn a_document_without_an_algorithm_is_found() {
        let found = "docs/algorithms/grca.md:1: no algorithm is called `grca`; \
                     name the file as users write the algorithm";
        check_one("docs/algorithms/grca.md", "", &[found]);
        check_one("docs/grca.md", "", &[]);
    }
}
