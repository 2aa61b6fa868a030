//! Compares the mutants that no test noticed with those that may go unnoticed.
//!
//! Line and column are dropped on both sides, so that an edit elsewhere in a file does not
//! unsettle the list. Mutants that then read alike are told apart by how many there are.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Mutants without their positions, and how often each occurs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mutants(BTreeMap<String, usize>);

/// How many of the mutants were tried.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Coverage {
    /// All of them.
    Whole,
    /// Those that some argument chose: a listed one that was not missed may not have been tried.
    Part,
}

impl Mutants {
    /// Reads cargo-mutants' own list: one mutant a line.
    pub(crate) fn missed(text: &str) -> Mutants {
        let mut mutants = Mutants::default();
        text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| mutants.add(line));
        mutants
    }

    /// Reads the committed list: a mutant, a tab or ` # `, a reason. Lines that start with `#`
    /// are comments.
    pub(crate) fn accepted(text: &str) -> Result<Mutants> {
        let mut mutants = Mutants::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let halves = line.split_once('\t').or_else(|| line.split_once(" # "));
            match halves.map(|(mutant, reason)| (mutant, reason.trim())) {
                Some((mutant, reason)) if !reason.is_empty() => mutants.add(mutant),
                _ => bail!("line {} of the accepted mutants gives no reason: `{line}`", index + 1),
            }
        }
        Ok(mutants)
    }

    fn add(&mut self, line: &str) {
        *self.0.entry(without_position(line.trim())).or_default() += 1;
    }

    fn count(&self, mutant: &str) -> usize {
        self.0.get(mutant).copied().unwrap_or(0)
    }

    /// Those that occur here more often than in `other`, and by how many.
    fn beyond<'a>(&'a self, other: &'a Mutants) -> impl Iterator<Item = (&'a str, usize)> {
        self.0.iter().filter_map(|(mutant, count)| {
            let extra = count.saturating_sub(other.count(mutant));
            (0 < extra).then_some((mutant.as_str(), extra))
        })
    }
}

/// What must change in the list, or in the tests, one sentence each.
pub(crate) fn differences(accepted: &Mutants, missed: &Mutants, coverage: Coverage) -> Vec<String> {
    let unlisted = missed.beyond(accepted).map(|(mutant, extra)| {
        format!("{extra} × missed but not listed: write the test that notices it: `{mutant}`")
    });
    let stale = accepted.beyond(missed).map(|(mutant, extra)| {
        format!("{extra} × listed but not missed: take it off the list: `{mutant}`")
    });
    match coverage {
        Coverage::Whole => unlisted.chain(stale).collect(),
        Coverage::Part => unlisted.collect(),
    }
}

/// `src/tick.rs:12:5: replace …` as `src/tick.rs: replace …`.
fn without_position(mutant: &str) -> String {
    let Some((place, change)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let path: Vec<&str> = place.split(':').filter(|part| !is_number(part)).collect();
    format!("{}: {change}", path.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSED: &str = "src/tick.rs:12:5: replace + with - in Tick::after\n";

    #[track_caller]
    fn check(accepted: &str, missed: &str, coverage: Coverage, expected: &[&str]) {
        let accepted = Mutants::accepted(accepted).unwrap();
        assert_eq!(differences(&accepted, &Mutants::missed(missed), coverage), expected);
    }

    #[test]
    fn a_listed_mutant_may_be_missed_wherever_it_has_moved() {
        let listed = "# why\n\nsrc/tick.rs: replace + with - in Tick::after\tboth sides are zero\n";
        check(listed, MISSED, Coverage::Whole, &[]);
        let listed = "src/tick.rs:99:1: replace + with - in Tick::after # both sides are zero";
        check(listed, MISSED, Coverage::Whole, &[]);
    }

    #[test]
    fn an_unlisted_mutant_is_told() {
        let told = "1 × missed but not listed: write the test that notices it: \
                    `src/tick.rs: replace + with - in Tick::after`";
        check("", MISSED, Coverage::Whole, &[told]);
        check("", MISSED, Coverage::Part, &[told]);
    }

    #[test]
    fn a_second_mutant_that_reads_alike_is_told() {
        let listed = "src/tick.rs: replace + with - in Tick::after # both sides are zero";
        let missed = format!("{MISSED}{}", MISSED.replace("12", "13"));
        let told = "1 × missed but not listed: write the test that notices it: \
                    `src/tick.rs: replace + with - in Tick::after`";
        check(listed, &missed, Coverage::Whole, &[told]);
    }

    #[test]
    fn a_stale_line_is_told_only_when_everything_was_tried() {
        let listed = "src/tick.rs: replace + with - in Tick::after # both sides are zero";
        let told = "1 × listed but not missed: take it off the list: \
                    `src/tick.rs: replace + with - in Tick::after`";
        check(listed, "", Coverage::Whole, &[told]);
        check(listed, "", Coverage::Part, &[]);
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        for line in ["src/tick.rs: replace + with -", "src/tick.rs: replace + with -\t "] {
            assert!(Mutants::accepted(line).is_err(), "{line}");
        }
    }
}
