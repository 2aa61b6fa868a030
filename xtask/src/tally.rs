//! Adds up what test runs report, and remembers which tests failed.

use std::fmt;

/// Tests seen so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// Names of tests that failed, in the order of the run.
    failures: Vec<String>,
}

impl Tally {
    /// Adds a line of test output; lines that report nothing change nothing.
    pub(crate) fn add(&mut self, line: &str) {
        let line = line.trim();
        if let Some(report) = line.strip_prefix("test result: ") {
            self.passed += count(report, "passed");
            self.failed += count(report, "failed");
        } else if let Some(name) = failure(line) {
            self.failures.push(name.to_owned());
        }
    }

    /// Adds what another run reported.
    pub(crate) fn merge(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend_from_slice(&other.failures);
    }

    /// Names of tests that failed.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The name in `test some::test ... FAILED`.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
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

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            tally.add(line);
        }
        tally
    }

    #[track_caller]
    fn check(lines: &[&str], closing: &str) {
        assert_eq!(tally(lines).to_string(), closing);
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
    fn failed_tests_are_remembered_by_name() {
        let run = tally(&["test a::b ... ok", "test a::c ... FAILED", "test d ... FAILED"]);
        assert_eq!(run.failures(), ["a::c", "d"]);
        let mut both = tally(&["test e ... FAILED"]);
        both.merge(&run);
        assert_eq!(both.failures(), ["e", "a::c", "d"]);
    }

    #[test]
    fn other_lines_do_not_count() {
        check(&["test tests::it_says ... ok", "5 passed", ""], "0 passed, 0 failed");
    }
}
