//! `costs` and `cost`: how many cells a request takes.

use super::Reading;
use super::tables::{COST_RULE, MEASURE};
use crate::attribute::{Attribute, header_name};
use crate::cost::{Cost, Measure, Measured};
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
        Some((matcher, self.read_cost(cost, 1)?))
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
        let (min, max) = (number("min", 1), number("max", u32::MAX));
        // As it is written: bounds are for what is read.
        let otherwise = number("default", 1_u32.max(min).min(max));
        if max < min {
            let message = format!("`max` is less than `min`, which is {min}");
            let at = fields.get("max").map_or(fields.at(), |node| node.at);
            self.problems.error(at, message).help("swap them");
            return None;
        }
        let what = self.read_measured(from)?;
        Some(Cost::From(Measure { what, otherwise, min, max, per_cell }))
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
            return Some(Measured::Request(Attribute::Header("content-length".into())));
        }
        let attribute = self.read_attribute(node)?;
        if matches!(attribute, Attribute::Named(_)) {
            let message = format!("{} has no name here", quoted(text));
            let problem = self.problems.error(node.at, message);
            problem.help("use `segment:2`, by the number of the segment");
            return None;
        }
        Some(Measured::Request(attribute))
    }
}
