//! What becomes of limits when another policy is put in force.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

/// The limits that go on, and those that begin anew.
#[derive(Debug, Default)]
pub(crate) struct TakenOver {
    /// The quotas that go on, by the names that they had.
    pub(crate) went_on: HashSet<Box<str>>,
    /// The rules whose keys begin anew, and in which tiers; an empty one for keys in none.
    anew: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

/// As many rules are named; there may be thousands.
const NAMED_MAX: usize = 20;

impl TakenOver {
    /// Notes that the keys of a rule begin anew in a tier.
    pub(crate) fn begin_anew(&mut self, rule: &str, tier: &str) {
        if !self.anew.get(rule).is_some_and(|tiers| tiers.contains(tier)) {
            self.anew.entry(rule.into()).or_default().insert(tier.into());
        }
    }

    /// The notes for operators, a line for each rule; nothing for most.
    pub(crate) fn notes(&self) -> String {
        let mut notes = String::new();
        for (rule, tiers) in self.anew.iter().take(NAMED_MAX) {
            let mut tiers = tiers.iter().filter(|tier| !tier.is_empty()).peekable();
            let _ = write!(notes, "note: keys begin anew under the rule `{rule}`");
            if tiers.peek().is_none() {
                notes.push_str(", where they are in no tier now");
            }
            for (at, tier) in tiers.enumerate() {
                let before = if at == 0 { " in the tier" } else { "," };
                let _ = write!(notes, "{before} `{tier}`");
            }
            notes.push('\n');
        }
        if let Some(more @ 1..) = self.anew.len().checked_sub(NAMED_MAX) {
            let _ = writeln!(notes, "note: and under {more} rules more");
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_few() {
        let mut taken_over = TakenOver::default();
        assert_eq!(taken_over.notes(), "");
        for (rule, tier) in [("b", ""), ("a", "pro"), ("a", "free"), ("a", "pro")] {
            taken_over.begin_anew(rule, tier);
        }
        assert_eq!(
            taken_over.notes(),
            "note: keys begin anew under the rule `a` in the tier `free`, `pro`\n\
             note: keys begin anew under the rule `b`, where they are in no tier now\n"
        );
        (0..1_000).for_each(|number| taken_over.begin_anew(&format!("r{number}"), "free"));
        assert_eq!(taken_over.notes().lines().count(), NAMED_MAX + 1);
        assert!(taken_over.notes().ends_with("note: and under 982 rules more\n"));
    }
}
