//! Names that say nothing, and calls that were meant to be temporary.

use super::Finding;
use super::source::{File, calls_macro};

const NAMES: [&str; 5] = ["utils", "common", "types", "misc", "helpers"];
const CALLS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Finds files and folders without a real name, unfinished code and tests that never run.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.is_rust());
    rust.flat_map(|file| [empty_names(file), leftovers(file)].concat()).collect()
}

fn empty_names(file: &File) -> Vec<Finding> {
    let mut parts = file.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let found = parts.find(|part| NAMES.contains(part));
    let wrong = |name| format!("`{name}` says nothing");
    let fix = "name it by what it holds";
    found.map(|name| file.finding(1, wrong(name), fix)).into_iter().collect()
}

fn leftovers(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.code() {
        for name in CALLS.into_iter().filter(|name| calls_macro(line, name)) {
            findings.push(file.finding(number, format!("`{name}!`"), "finish it or remove it"));
        }
        if line.contains("#[ignore") {
            let wrong = "a test that never runs".to_owned();
            findings.push(file.finding(number, wrong, "make it quick enough or remove it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    #[test]
    fn empty_names_are_found() {
        for path in ["a/src/utils.rs", "a/tests/common/mod.rs", "a/src/types/tick.rs"] {
            let name = ["utils", "common", "types"].into_iter().find(|name| path.contains(name));
            let found =
                format!("{path}:1: `{}` says nothing; name it by what it holds", name.unwrap());
            finds(check, &[(path, "")], &[&found]);
        }
        finds(check, &[("a/src/uncommon.rs", ""), ("docs/common.md", "")], &[]);
    }

    #[test]
    fn unfinished_code_is_found_in_tests_too() {
        for name in super::CALLS {
            let text = format!("// {name}!()\n#[cfg(test)]\nfn a() {{ {name}!() }}\n");
            let found = format!("a.rs:3: `{name}!`; finish it or remove it");
            finds(check, &[("a.rs", &text)], &[&found]);
        }
    }

    #[test]
    fn tests_that_never_run_are_found() {
        let found = "a.rs:1: a test that never runs; make it quick enough or remove it";
        for line in ["#[ignore]", "#[ignore = \"slow\"]"] {
            finds(check, &[("a.rs", line)], &[found]);
        }
    }
}
