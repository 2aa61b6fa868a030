//! `costs` and `cost`: how many cells a request takes.

use super::Reading;
use super::tables::{COST_RULE, MEASURE, UNSAID};
use crate::attribute::{Attribute, header_name};
use crate::cost::{Cost, Measure, Measured, Otherwise};
use crate::matcher::Matcher;
use crate::misread::quoted;
use crate::read::Fields;
use crate::source::{Node, Value};

impl Reading<'_> {
    pub(super) fn read_costs(&mut self, node: &Node) -> Vec<(Matcher, Cost)> {
        let Some(list) = node.list("costs", &mut self.problems) else { return Vec::new() };
        list.iter().filter_map(|one| self.read_cost_rule(one)).collect()
    }

    fn read_cost_rule(&mut self, node: &Node) -> Option<(Matcher, Cost)> {
        let fields = Fields::of(node, &COST_RULE, &mut self.problems)?;
        let mut matcher = self.read_match(fields.get("match"));
        let short = self.read_short(fields.get("method"), fields.get("path"));
        for all in &mut matcher.any {
            all.conditions.extend(short.conditions.iter().cloned());
        }
        let cost = fields.required("cost", &mut self.problems)?;
        let cost = self.read_cost(cost, 1)?;
        if cost.is_by_response() {
            self.note_response("`costs`".to_owned(), node.at);
        }
        self.costs_at.push(node.at);
        Some((matcher, cost))
    }

    /// A number, or where to read one; `per_cell` of what is read makes a cell.
    pub(super) fn read_cost(&mut self, node: &Node, per_cell: u32) -> Option<Cost> {
        if !matches!(node.value, Value::Map(_)) {
            let cells = node.count("cost", 0..=u32::MAX.into(), &mut self.problems)?;
            return Some(Cost::Cells(u32::try_from(cells).ok()?));
        }
        let fields = Fields::of(node, &MEASURE, &mut self.problems)?;
        let from = fields.required("from", &mut self.problems)?;
        let mut number = |name: &'static str, usual: u32| {
            let range = u64::from(name == "max")..=u64::from(u32::MAX);
            let count = |node: &Node| node.count(name, range, &mut self.problems);
            let given = fields.get(name).and_then(count).and_then(|it| u32::try_from(it).ok());
            given.unwrap_or(usual)
        };
        // What has no body has nothing to pay for.
        let least = u32::from(!is_length(from));
        let (min, max) = (number("min", least), number("max", u32::MAX));
        // As it is written: bounds are for what is read.
        let default = number("default", 1_u32.max(min).min(max));
        if max < min {
            let message = format!("`max` is less than `min`, which is {min}");
            let at = fields.get("max").map_or(fields.at(), |node| node.at);
            self.problems.error(at, message).help("swap them");
            return None;
        }
        let what = self.read_measured(from)?;
        let otherwise = self.read_otherwise(&fields, &what, default)?;
        Some(Cost::From(Measure { what, otherwise, min, max, per_cell }))
    }

    /// What is taken where nothing is said. A client that leaves out how long a body is must not
    /// gain by that, so that there is no usual number for it.
    fn read_otherwise(
        &mut self,
        fields: &Fields<'_>,
        what: &Measured,
        default: u32,
    ) -> Option<Otherwise> {
        if *what != Measured::Length {
            if let Some(node) = fields.get("missing") {
                let message = "`missing` is for `from: content-length` only";
                self.problems.error(node.at, message).help("use `default`, with a number");
            }
            return Some(Otherwise::Cells(default));
        }
        if let Some(node) = fields.get("default") {
            let message = "a body whose length is not said has no usual one";
            let problem = self.problems.error(node.at, message);
            problem.help("leave `default` out, or write `missing: largest`, `refuse` or a number");
        }
        let Some(node) = fields.get("missing") else { return Some(Otherwise::Largest) };
        if let Value::Integer(_) | Value::Fraction(_) = node.value {
            let cells = node.count("missing", 0..=u32::MAX.into(), &mut self.problems)?;
            return Some(Otherwise::Cells(u32::try_from(cells).ok()?));
        }
        let word = node.choice("missing", &UNSAID, &mut self.problems)?;
        Some(if word == "refuse" { Otherwise::Refuse } else { Otherwise::Largest })
    }

    fn read_measured(&mut self, node: &Node) -> Option<Measured> {
        let text = node.text("from", &mut self.problems)?;
        if let Some(name) = text.strip_prefix("response:") {
            return match header_name(name.trim()) {
                Ok(name) => Some(Measured::Response(name)),
                Err(misread) => {
                    self.misread(node.at, misread);
                    None
                }
            };
        }
        if text == "content-length" {
            return Some(Measured::Length);
        }
        let attribute = self.read_attribute(node)?;
        if matches!(&attribute, Attribute::Header(name) if **name == *"content-length") {
            return Some(Measured::Length);
        }
        if matches!(attribute, Attribute::Named(_)) {
            let message = format!("{} has no name here", quoted(text));
            let problem = self.problems.error(node.at, message);
            problem.help("use `segment:2`, by the number of the segment");
            return None;
        }
        Some(Measured::Request(attribute))
    }
}

/// Whether a cost is read from the length of a body.
fn is_length(from: &Node) -> bool {
    let Value::Text(text) = &from.value else { return false };
    let name = text.strip_prefix("header:").unwrap_or(text);
    name.trim().eq_ignore_ascii_case("content-length")
}
