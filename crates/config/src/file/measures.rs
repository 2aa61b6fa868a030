//! What all quotas of a rule have in common: the algorithm, its settings, what is counted.

use tidegate_core::{Kind, Span as Time};

use super::Reading;
use super::limits::Measures;
use super::tables::{ALGORITHMS, MODES};
use crate::quantity;
use crate::read::Fields;
use crate::rule::Unit;
use crate::source::{Node, Value};
use crate::zone::Zone;

/// A permit comes back by itself after this, unless the file says otherwise.
const LEASE: Time = Time::from_secs(60);

impl Reading<'_> {
    pub(super) fn read_measures(&mut self, fields: &Fields<'_>) -> Option<Measures> {
        let name = match fields.get("algorithm") {
            Some(node) => node.choice("algorithm", &ALGORITHMS, &mut self.problems)?,
            None => "token-bucket",
        };
        let mode = match fields.get("mode") {
            Some(node) => node.choice("mode", &MODES, &mut self.problems)?,
            None => "meter",
        };
        if let (false, Some(node)) = (name == "leaky-bucket", fields.get("mode")) {
            let problem = self.problems.error(node.at, format!("`{name}` has no `mode`"));
            problem.help("leave it out, or use `algorithm: leaky-bucket`");
        }
        let kind: Kind = if mode == "queue" { Kind::LeakyQueue } else { name.parse().ok()? };
        let (unit, per_cell) = self.read_unit(fields, kind);
        let only = [("time_zone", Kind::FixedWindow), ("lease", Kind::Concurrency)];
        for (field, wanted) in only.into_iter().chain([("max_wait", Kind::LeakyQueue)]) {
            if let (Some(node), true) = (fields.get(field), kind != wanted) {
                let message = format!("`{field}` says nothing for `{kind}`");
                self.problems.error(node.at, message).help(format!("it is for `{wanted}` only"));
            }
        }
        let mut duration = |field: &'static str| {
            fields.get(field).and_then(|node| self.read_duration(node, field))
        };
        let (lease, max_wait) = (duration("lease").unwrap_or(LEASE), duration("max_wait"));
        let zone = fields.get("time_zone").and_then(|node| self.read_zone(node));
        if let (true, Some(node)) = (lease == Time::from_micros(0), fields.get("lease")) {
            let problem = self.problems.error(node.at, "a lease of no time is over at once");
            problem.help("write how long a request may take, as in `30s`");
            return None;
        }
        let credits = match fields.get("credits") {
            Some(node) => Some(self.read_credits(node, kind)?),
            None => None,
        };
        Some(Measures { kind, unit, per_cell, zone, lease, max_wait, credits })
    }

    fn read_zone(&mut self, node: &Node) -> Option<Zone> {
        let name = node.text("time_zone", &mut self.problems)?;
        let zone = Zone::named(name);
        if zone.is_none() {
            self.problems.misread(node.at, || Zone::misread(name));
        }
        zone
    }

    /// What is counted: what `unit` says, or else what the limit does.
    fn read_unit(&mut self, fields: &Fields<'_>, kind: Kind) -> (Unit, u32) {
        let usual = if kind == Kind::Concurrency { Unit::InFlight } else { Unit::Requests };
        let node = fields.get("unit");
        let word = node.and_then(|node| Some((node.text("unit", &mut self.problems)?, node.at)));
        let Some((word, at)) = word else {
            return (fields.get("limit").and_then(unit_of).unwrap_or(usual), 1);
        };
        match Some(word) {
            None | Some("requests") => (usual, 1),
            Some("B" | "byte" | "bytes") => (Unit::Bytes("B"), 1),
            Some("kB") => (Unit::Bytes("kB"), 1_000),
            Some("KiB") => (Unit::Bytes("KiB"), 1_024),
            Some("MB") => (Unit::Bytes("MB"), 1_000_000),
            Some("MiB") => (Unit::Bytes("MiB"), 1 << 20),
            Some(word) => {
                if let Err(misread) = quantity::unit_name(word) {
                    self.misread(at, misread);
                }
                (Unit::Named(word.into()), 1)
            }
        }
    }
}

/// What a limit says is counted, if that is not requests: the first that does.
fn unit_of(node: &Node) -> Option<Unit> {
    let limit = match &node.value {
        Value::Map(entries) => return entries.iter().find_map(|entry| unit_of(&entry.node)),
        Value::Text(text) => quantity::limit(text).ok()?,
        _ => return None,
    };
    match limit {
        quantity::Limit::Rate { amount: quantity::Amount { unit, .. }, .. } => match unit {
            quantity::Unit::Named(name) => Some(Unit::Named(name.into())),
            quantity::Unit::Bytes => Some(Unit::Bytes("B")),
            quantity::Unit::Requests => None,
        },
        _ => None,
    }
}
