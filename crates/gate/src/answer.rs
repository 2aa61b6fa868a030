//! What one limit said of a request.

use tidegate_config::Unit;
use tidegate_core::{Decision, Kind, Span};

/// What one limit said of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// Which of the rule's limits: nothing for most, `peak` for the second of a rule with credits.
    pub part: &'static str,
    /// Which of the rule's quotas: nothing, a tier, or a key.
    pub variant: &'a str,
    /// What it said.
    pub decision: Decision,
    /// How many cells were asked for; once it was settled, how many are charged.
    pub cost: u32,
    /// Whether the rule says itself what a request costs.
    pub has_own_cost: bool,
    /// The time in which the limit comes back in full.
    pub window: Span,
    /// What is saved beyond the burst, for the first limit of a rule with credits; of what remains,
    /// these are the cells that may go no faster than the rule's `peak`.
    pub credits: Option<u32>,
    /// What is counted.
    pub unit: &'a Unit,
    /// By which algorithm.
    pub kind: Kind,
    /// Whether it is judged and counted, but does not refuse.
    pub is_shadow: bool,
    /// Whether clients see it.
    pub is_shown: bool,
}

impl Answer<'_> {
    /// The limit's name as clients see it: the rule's, and which of its limits.
    pub fn name(&self) -> String {
        name_of(self.rule, self.part)
    }
}

/// The name of one of a rule's limits.
pub(crate) fn name_of(rule: &str, part: &str) -> String {
    if part.is_empty() { rule.to_owned() } else { format!("{rule}-{part}") }
}
