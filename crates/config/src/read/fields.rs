//! The fields of a map, checked against a table.
//!
//! Fields that the table does not know, and fields without a value, are reported once, at the
//! start. Code that reads the rest sees only what was really given.

use super::{Table, Takes};
use crate::problem::{Problems, Span, shortened};
use crate::source::{Entry, Node, Value};
use crate::suggest::did_you_mean;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'n> {
    table: &'static Table,
    entries: &'n [Entry],
    at: Span,
}

impl<'n> Fields<'n> {
    /// None, and a problem, if the node is not a map.
    pub(crate) fn of(
        node: &'n Node,
        table: &'static Table,
        problems: &mut Problems,
    ) -> Option<Fields<'n>> {
        let Value::Map(entries) = &node.value else {
            let message = format!("{} is a map of fields, not {}", table.what, node.shown());
            problems.error(node.at, message).help(fields_of(table));
            return None;
        };
        for entry in entries {
            if !table.has(&entry.name) {
                unknown(entry, table, problems);
            } else if matches!(&entry.node.value, Value::List(items) if items.is_empty()) {
                let message = format!("`{}` is an empty list", entry.name);
                problems.error(entry.name_at, message).help("put something in it, or remove it");
            } else if matches!(entry.node.value, Value::Null) {
                let problem =
                    problems.error(entry.name_at, format!("`{}` has no value", entry.name));
                problem.help("give it one, or remove the field");
            }
        }
        Some(Fields { table, entries, at: node.at })
    }

    /// The value of a field, if it was given one.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'n Node> {
        let node = self.entry(name).map(|entry| &entry.node);
        node.filter(|node| !matches!(node.value, Value::Null))
    }

    /// Whether nothing was given, not even a field that does not exist.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a field was given, be it without a value.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.entry(name).is_some()
    }

    /// The value of a field that must be given.
    pub(crate) fn required(&self, name: &'static str, problems: &mut Problems) -> Option<&'n Node> {
        if self.entry(name).is_none() {
            let what = self.table.what;
            let problem = problems.error(self.at, format!("`{name}` is missing in {what}"));
            problem.help(format!("add `{name}`"));
        }
        self.get(name)
    }

    /// Where the map is.
    pub(crate) fn at(&self) -> Span {
        self.at
    }

    /// Where its name is, or its first field: one line to point at, not all of it.
    pub(crate) fn at_name(&self) -> Span {
        let name = self.entries.iter().find(|entry| entry.name == "name");
        name.map(|entry| entry.node.at)
            .or(self.entries.first().map(|it| it.name_at))
            .unwrap_or(self.at)
    }

    fn entry(&self, name: &'static str) -> Option<&'n Entry> {
        debug_assert!(self.table.has(name), "`{name}` is not in the table of {}", self.table.what);
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Table {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}

fn unknown(entry: &Entry, table: &'static Table, problems: &mut Problems) {
    if problems.is_full() {
        // It only counts, so its words are not worth the time: a file may have millions of these.
        problems.error(entry.name_at, "");
        return;
    }
    let message = format!("unknown field `{}` in {}", shortened(&entry.name), table.what);
    let near = did_you_mean(&entry.name, table.fields.iter().map(|field| field.name));
    let help = match (below(table, &entry.name), near) {
        (Some(field), _) => format!("it belongs under `{field}`"),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => format!("{} takes {}", table.what, names_of(table)),
    };
    problems.error(entry.name_at, message).help(help);
}

/// The field whose own fields have this name.
fn below(table: &Table, name: &str) -> Option<&'static str> {
    let has = |takes: &Takes| takes.table().is_some_and(|table| table.has(name));
    table.fields.iter().find(|field| has(&field.takes)).map(|field| field.name)
}

/// What to write instead of something that is no map.
fn fields_of(table: &Table) -> String {
    match table.fields {
        [first, ..] if 8 < table.fields.len() => {
            format!("give it fields, as in `{{ {}: … }}`", first.name)
        }
        _ => format!("give it {}", names_of(table)),
    }
}

fn names_of(table: &Table) -> String {
    super::values::listed(table.fields.iter().map(|field| field.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Field;
    use crate::report::{File, Report};
    use crate::source::{Format, read};

    static RULE: Table = Table {
        what: "a rule",
        about: "Whom to count.",
        fields: &[
            Field { name: "limit", about: "How much.", takes: Takes::Text },
            Field { name: "key", about: "Whom.", takes: Takes::Text },
        ],
        required: &["limit"],
    };

    /// Reads a rule whose `limit` is required, and compares all that is printed.
    #[track_caller]
    fn check(text: &str, wanted: &str) {
        let node = read(0, text.as_bytes(), Format::Yaml).unwrap();
        let mut problems = Problems::default();
        if let Some(fields) = Fields::of(&node, &RULE, &mut problems) {
            assert_eq!(fields.at(), node.at);
            let limit = fields.required("limit", &mut problems);
            assert!(limit.is_some() || problems.is_fatal());
        }
        let files = [File { name: "policy.yaml", text: text.as_bytes() }];
        let report = Report::of(&files, problems).to_string();
        assert_eq!(report, wanted.trim_start_matches('\n'));
    }

    #[test]
    fn a_near_name_is_suggested() {
        check(
            "limit: 1\nkye: a\n",
            "
error: unknown field `kye` in a rule
 --> policy.yaml:2:1
  |
2 | kye: a
  | ^^^ did you mean `key`?

1 error",
        );
    }

    #[test]
    fn without_a_near_name_all_are_listed() {
        check(
            "limit: 1\nburst: a\n",
            "
error: unknown field `burst` in a rule
 --> policy.yaml:2:1
  |
2 | burst: a
  | ^^^^^ a rule takes `limit` or `key`

1 error",
        );
    }

    #[test]
    fn a_field_without_a_value_is_one_mistake() {
        check(
            "limit:\nkey: a\n",
            "
error: `limit` has no value
 --> policy.yaml:1:1
  |
1 | limit:
  | ^^^^^ give it one, or remove the field

1 error",
        );
    }

    #[test]
    fn only_what_was_given_is_seen() {
        let node = read(0, b"limit: ~", Format::Yaml).unwrap();
        let fields = Fields::of(&node, &RULE, &mut Problems::default()).unwrap();
        assert!(fields.get("limit").is_none());
        assert!(fields.get("key").is_none());
        let node = read(0, b"limit: 5", Format::Yaml).unwrap();
        let fields = Fields::of(&node, &RULE, &mut Problems::default()).unwrap();
        assert!(matches!(fields.get("limit").unwrap().value, Value::Integer(5)));
    }

    #[test]
    fn a_missing_field_is_named() {
        check(
            "key: a\n",
            "
error: `limit` is missing in a rule
 --> policy.yaml:1:1
  |
1 | key: a
  | ^^^^^^ add `limit`

1 error",
        );
    }

    #[test]
    fn what_is_no_map_is_named() {
        check(
            "- limit\n",
            "
error: a rule is a map of fields, not a list
 --> policy.yaml:1:1
  |
1 | - limit
  | ^^^^^^^ give it `limit` or `key`

1 error",
        );
    }

    #[test]
    fn a_million_unknown_fields_are_only_counted() {
        let fields = (0..1_000_000).map(|number| format!("limt{number}: 1\n"));
        let text = fields.collect::<Vec<_>>().concat();
        let node = read(0, text.as_bytes(), Format::Yaml).unwrap();
        let mut problems = Problems::default();
        assert!(Fields::of(&node, &RULE, &mut problems).is_some());
        assert_eq!(problems.errors(), 1_000_000);
    }
}
