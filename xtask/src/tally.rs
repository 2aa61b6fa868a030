//! Adds up what test runs report in their `test result:` lines.

use std::fmt;

/// Tests seen so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Adds a line of test output; lines that report nothing change nothing.
    pub(crate) fn add(&mut self, line: &str) {
        let Some(report) = line.trim_start().strip_prefix("test result: ") else { return };
        self.passed += count(report, "passed");
        self.failed += count(report, "failed");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The number before `what` in `ok. 12 passed; 0 failed; …`.
fn count(report: &str, what: &str) -> u64 {
    let words: Vec<&str> = report.split([' ', ';']).collect();
    let number = words.windows(2).find(|pair| pair[1] == what).map(|pair| pair[0].parse());
    number.and_then(Result::ok).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[track_caller]
    fn check(lines: &[&str], closing: &str) {
        let mut tally = Tally::default();
        for line in lines {
            tally.add(line);
        }
        assert_eq!(tally.to_string(), closing);
    }

    #[test]
    fn runs_add_up() {
        check(
            &[
                "running 3 tests",
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
                "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            ],
            "43 passed, 0 failed",
        );
    }

    #[test]
    fn failures_are_told() {
        check(&["test result: FAILED. 2 passed; 1 failed; 0 ignored"], "2 passed, 1 failed");
    }

    #[test]
    fn other_lines_do_not_count() {
        check(&["test tests::it_says ... ok", "5 passed", ""], "0 passed, 0 failed");
    }
}
