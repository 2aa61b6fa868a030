//! The fields of envoyproxy/ratelimit's files: where each belongs.
//!
//! Upstream knows one list for all places, so a field in the wrong place is accepted there and does
//! nothing. Here it is accepted with a warning; a field that upstream does not know is an error.

use crate::problem::{Problems, shortened};
use crate::source::{Entry, Node, Value};
use crate::suggest::did_you_mean;

/// What may stand in one kind of map.
pub(super) struct Kind {
    pub(super) what: &'static str,
    fields: &'static [&'static str],
}

pub(super) const DOMAIN: Kind = Kind { what: "a domain", fields: &["domain", "descriptors"] };
pub(super) const DESCRIPTOR: Kind = Kind {
    what: "a descriptor",
    fields: &[
        "key",
        "value",
        "rate_limit",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ],
};
pub(super) const RATE_LIMIT: Kind = Kind {
    what: "a rate limit",
    fields: &["unit", "requests_per_unit", "unlimited", "name", "replaces"],
};
pub(super) const REPLACED: Kind = Kind { what: "a replaced limit", fields: &["name"] };

const KINDS: [&Kind; 4] = [&DOMAIN, &DESCRIPTOR, &RATE_LIMIT, &REPLACED];

/// The fields of a map, each under a name that is known.
pub(super) struct Fields<'n>(&'n [Entry]);

impl<'n> Fields<'n> {
    /// Nothing, and a problem, if the node is no map.
    pub(super) fn of(node: &'n Node, kind: &Kind, problems: &mut Problems) -> Option<Fields<'n>> {
        let entries = node.map(kind.what, problems)?;
        for entry in entries.iter().filter(|it| !kind.fields.contains(&it.name.as_str())) {
            if KINDS.iter().any(|other| other.fields.contains(&entry.name.as_str())) {
                let message = format!("`{}` does nothing in {}", entry.name, kind.what);
                problems.warn(entry.name_at, message).help("remove it, or move it");
                continue;
            }
            let message = format!("unknown key `{}` in {}", shortened(&entry.name), kind.what);
            let near = did_you_mean(&entry.name, kind.fields.iter().copied());
            let help = near.map_or_else(
                || format!("{} takes {}", kind.what, kind.fields.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            problems.error(entry.name_at, message).help(help);
        }
        Some(Fields(entries))
    }

    /// The value of a field; one that is left empty is as good as not there.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let entry = self.0.iter().find(|entry| entry.name == name)?;
        (!matches!(entry.node.value, Value::Null)).then_some(&entry.node)
    }

    /// Text, or a number or a flag as it was typed; empty if it is not there.
    pub(super) fn text(&self, name: &str, problems: &mut Problems) -> String {
        match self.get(name) {
            Some(Node { value: Value::Bool(flag), .. }) => flag.to_string(),
            Some(node) => node.scalar(name, problems).unwrap_or_default().into_owned(),
            None => String::new(),
        }
    }

    pub(super) fn flag(&self, name: &str, problems: &mut Problems) -> bool {
        self.get(name).and_then(|node| node.flag(name, problems)).unwrap_or(false)
    }

    pub(super) fn list(&self, name: &str, problems: &mut Problems) -> &'n [Node] {
        self.get(name).and_then(|node| node.list(name, problems)).unwrap_or_default()
    }
}
