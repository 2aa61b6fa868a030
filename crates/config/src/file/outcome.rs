//! `counts_when`: which responses count.

use super::Reading;
use super::tables::OUTCOME;
use crate::attribute::Attribute;
use crate::matcher::Condition;
use crate::misread::quoted;
use crate::outcome::Outcome;
use crate::read::Fields;
use crate::source::Node;

impl Reading<'_> {
    pub(super) fn read_outcome(&mut self, node: &Node) -> Option<Outcome> {
        let fields = Fields::of(node, &OUTCOME, &mut self.problems)?;
        let mut outcome = Outcome::default();
        for one in fields.get("status").map_or(&[][..], Node::one_or_more) {
            let Some(text) = one.scalar("status", &mut self.problems) else { continue };
            if let Some(range) = statuses(&text) {
                outcome.status.push(range);
                continue;
            }
            let message = format!("{} is not a status", quoted(&text));
            let problem = self.problems.error(one.at, message);
            problem.help("write one such as `401`, `5xx` or `400-499`");
        }
        let headers = fields.get("header").and_then(|node| self.read_pairs(node, "header"));
        for entry in headers.unwrap_or_default() {
            // As of a request: a name or a value that no header has would never count.
            if let Some(Condition::Value { attribute: Attribute::Header(name), like }) =
                self.read_value("header", entry)
            {
                outcome.headers.push((name, like));
            }
        }
        outcome.not = fields.get("not").and_then(|node| self.read_outcome(node)).map(Box::new);
        if fields.is_empty() {
            self.problems.error(node.at, "an empty condition says nothing").help("leave it out");
        }
        Some(outcome)
    }
}

/// `401`, `5xx` or `400-499`.
fn statuses(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| text.trim().parse().ok().filter(|it| (100..=599).contains(it));
    if let Some(hundreds) = text.strip_suffix("xx") {
        let from = number(&format!("{hundreds}00"))?;
        return Some((from, from + 99));
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some((from, to))
}
