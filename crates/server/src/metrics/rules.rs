//! What rules said, by rule and verdict.

use tidegate_gate::{Gate, RuleCounts};

use super::text::{Kind, Text};
use crate::limits::METRIC_RULES_MAX;

/// What each rule said. The rules beyond so many are reported as a sum.
pub(super) fn write(text: &mut Text, gate: &Gate) {
    let mut counts = gate.counts();
    if METRIC_RULES_MAX < counts.len() {
        let rest = counts.split_off(METRIC_RULES_MAX);
        let mut sum = RuleCounts::default();
        for (_, counts) in &rest {
            sum += *counts;
        }
        counts.push(("(others)".to_owned(), sum));
    }
    let help = "What rules said of requests. Every rule that judges a request counts it.";
    text.family("tidegate_decisions_total", Kind::Counter, help);
    for (rule, counts) in &counts {
        let verdicts =
            [("allow", counts.allowed), ("delay", counts.delayed), ("deny", counts.denied)];
        for (verdict, count) in verdicts {
            text.value(&[("rule", rule), ("verdict", verdict)], count);
        }
    }
    let help = "Requests that rules in shadow would have refused.";
    text.family("tidegate_shadow_denied_total", Kind::Counter, help);
    for (rule, counts) in &counts {
        text.value(&[("rule", rule)], counts.shadow_denied);
    }
    write_crowds(text, gate);
}

/// Whose keys leave no room for others.
fn write_crowds(text: &mut Text, gate: &Gate) {
    let mut crowds = gate.crowds();
    if METRIC_RULES_MAX < crowds.len() {
        let rest = crowds.split_off(METRIC_RULES_MAX);
        crowds.push(("(others)".to_owned(), rest.iter().map(|(_, keys)| keys).sum()));
    }
    let help =
        "Keys of each rule while others find no room; none as long as there is room for all.";
    text.family("tidegate_flood_keys", Kind::Gauge, help);
    for (rule, keys) in &crowds {
        text.value(&[("rule", rule)], *keys as u64);
    }
}
