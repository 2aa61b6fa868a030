//! The form of a Rust file: a header, a bounded length, tests last, plain lines.

use super::Finding;
use super::source::File;

const LINES_MAX: usize = 400;
const LINES_MAX_IN_TESTS: usize = 500;
const COLUMNS_MAX: usize = 100;

/// Ways to begin an item at the left margin.
const ITEMS: [&str; 9] =
    ["pub ", "fn ", "impl", "struct ", "enum ", "trait ", "const ", "static ", "type "];

/// Finds files that are not in form.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.is_rust() && !file.is_generated());
    let rules = [header, length, tests_last, lines];
    rust.flat_map(|file| rules.into_iter().flat_map(|rule| rule(file))).collect()
}

/// The first line that is neither blank nor an attribute of the file must say what this is.
fn header(file: &File) -> Vec<Finding> {
    let mut depth = 0_usize;
    for (_, line) in file.lines() {
        let is_header = line.starts_with("//!") || line.starts_with("#![doc = include_str!");
        if depth == 0 && is_header {
            return Vec::new();
        }
        if depth == 0 && !line.trim().is_empty() && !line.starts_with("#!") {
            break;
        }
        depth = (depth + line.matches('[').count()).saturating_sub(line.matches(']').count());
    }
    let wrong = "no `//!` header".to_owned();
    vec![file.finding(1, wrong, "say in the first line what this file is")]
}

fn length(file: &File) -> Vec<Finding> {
    let (lines, max) = if file.has_folder("tests") {
        (file.code().count(), LINES_MAX_IN_TESTS)
    } else {
        (file.body().count(), LINES_MAX)
    };
    if lines <= max {
        return Vec::new();
    }
    let wrong = format!("{lines} lines, at most {max} before the tests");
    vec![file.finding(max + 1, wrong, "split the file by idea")]
}

/// Rules that spare tests stop reading at the first one: nothing else may hide behind it.
fn tests_last(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (number, line) in file.tests() {
        let is_item = ITEMS.into_iter().any(|item| line.starts_with(item));
        if is_item && !before.starts_with("#[") {
            let wrong = "code below the tests".to_owned();
            findings.push(file.finding(number, wrong, "move it above the first `#[cfg(test)]`"));
        }
        before = line;
    }
    findings
}

fn lines(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let mut found = |wrong: &str, fix| {
            findings.push(file.finding(number, wrong.to_owned(), fix));
        };
        if line.contains('\t') {
            found("a tab", "indent with spaces; in a literal write \\t");
        }
        if line.ends_with(char::is_whitespace) {
            found("blanks at the end of the line", "remove them");
        }
        if COLUMNS_MAX < line.chars().count() {
            found("more than 100 columns", "break the line");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    #[track_caller]
    fn found_in(text: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|found| format!("a.rs:{found}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        finds(check, &[("a.rs", text)], &expected);
    }

    #[test]
    fn a_header_may_follow_attributes() {
        found_in("//! A.\n", &[]);
        found_in("#![no_std]\n#![expect(\n    a,\n    reason = \"b\"\n)]\n\n//! A.\n", &[]);
        found_in("#![doc = include_str!(\"../README.md\")]\n", &[]);
    }

    #[test]
    fn a_missing_header_is_found() {
        let found = "1: no `//!` header; say in the first line what this file is";
        for text in ["", "use a;\n//! A.\n", "// A.\n", "#[a]\n//! A.\n", "#![no_std]\nuse a;\n"] {
            found_in(text, &[found]);
        }
    }

    #[test]
    fn long_files_are_found() {
        let code = format!("//! A.\n{}", "a();\n".repeat(400));
        found_in(&code, &["401: 401 lines, at most 400 before the tests; split the file by idea"]);
        found_in(&format!("//! A.\n#[cfg(test)]\n{}", "a();\n".repeat(400)), &[]);
        finds(check, &[("a/tests/b.rs", &code)], &[]);
        let found = "a/tests/b.rs:501: 601 lines, at most 500 before the tests; \
                     split the file by idea";
        finds(check, &[("a/tests/b.rs", &format!("{code}{}", "a();\n".repeat(200)))], &[found]);
    }

    #[test]
    fn what_a_generator_wrote_has_its_own_form() {
        finds(check, &[("crates/a/src/gen/b.rs", &"a();\t\n".repeat(600))], &[]);
    }

    #[test]
    fn code_below_tests_is_found() {
        let tests = "//! A.\n#[cfg(test)]\nmod tests {\n}\n";
        found_in(&format!("{tests}#[cfg(test)]\nfn b() {{}}\n"), &[]);
        let found = "5: code below the tests; move it above the first `#[cfg(test)]`";
        found_in(&format!("{tests}pub fn b() {{}}\n"), &[found]);
    }

    #[test]
    fn untidy_lines_are_found() {
        found_in(
            &format!("//! A.\n\ta();\na(); \n// {}\n", "→".repeat(98)),
            &[
                "2: a tab; indent with spaces; in a literal write \\t",
                "3: blanks at the end of the line; remove them",
                "4: more than 100 columns; break the line",
            ],
        );
        found_in(&format!("//! A.\n// {}\n", "→".repeat(97)), &[]);
        finds(check, &[("a.md", "\tOnly Rust is held to this. \n")], &[]);
    }
}
