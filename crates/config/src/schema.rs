//! A table as JSON Schema (draft 2020-12), for editors that complete and check while one types.

use std::ptr;

use serde_json::{Map, Value, json};

use crate::read::{Field, Table, Takes};

/// The schema of a whole file. `id` is the address that it is published at.
pub(crate) fn schema(table: &'static Table, id: &str, title: &str) -> Value {
    let mut definitions = Definitions { tables: Vec::new() };
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": title,
    });
    let root = definitions.table(table);
    // Tables are found while others are written, so their list grows under way.
    let mut written = Map::new();
    let mut next = 0;
    while let Some((name, table)) = definitions.tables.get(next).cloned() {
        written.insert(name, definitions.table(table));
        next += 1;
    }
    if let (Value::Object(schema), Value::Object(root)) = (&mut schema, root) {
        schema.extend(root);
        if !written.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(written));
        }
    }
    schema
}

struct Definitions {
    /// By the name that they are referred to by.
    tables: Vec<(String, &'static Table)>,
}

impl Definitions {
    fn table(&mut self, table: &'static Table) -> Value {
        let fields = table.fields.iter();
        let properties: Map<String, Value> =
            fields.map(|field| (field.name.to_owned(), self.field(field))).collect();
        let mut schema = json!({
            "description": table.about,
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        if !table.required.is_empty() {
            schema["required"] = json!(table.required);
        }
        schema
    }

    fn field(&mut self, field: &'static Field) -> Value {
        let mut schema = json!({ "description": field.about });
        if let (Value::Object(schema), Value::Object(takes)) =
            (&mut schema, self.takes(&field.takes))
        {
            schema.extend(takes);
        }
        schema
    }

    fn takes(&mut self, takes: &'static Takes) -> Value {
        match takes {
            Takes::Text => json!({ "type": "string" }),
            Takes::Scalar => json!({ "type": ["string", "number"] }),
            Takes::Flag => json!({ "type": "boolean" }),
            Takes::Count { min, max: u64::MAX } => json!({ "type": "integer", "minimum": min }),
            Takes::Count { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Takes::OneOf(names) => json!({ "enum": names }),
            Takes::Form { like, pattern: "" } => json!({ "type": "string", "examples": like }),
            Takes::Form { like, pattern } => {
                json!({ "type": "string", "pattern": pattern, "examples": like })
            }
            Takes::List(item) => json!({ "type": "array", "items": self.takes(item) }),
            Takes::OneOrMore(item) => {
                let one = self.takes(item);
                let more = json!({ "type": "array", "items": one, "minItems": 1 });
                json!({ "anyOf": [one, more] })
            }
            Takes::Map(value) => {
                json!({ "type": "object", "additionalProperties": self.takes(value) })
            }
            Takes::Open(table, value) => {
                let mut open = self.table(table);
                open["additionalProperties"] = self.takes(value);
                open
            }
            Takes::Table(table) => json!({ "$ref": format!("#/$defs/{}", self.name(table)) }),
            Takes::Either(ways) => {
                let ways: Vec<Value> = ways.iter().map(|way| self.takes(way)).collect();
                json!({ "anyOf": ways })
            }
        }
    }

    /// The name of a table, new if it was not met before.
    fn name(&mut self, table: &'static Table) -> String {
        if let Some((name, _)) = self.tables.iter().find(|(_, known)| ptr::eq(*known, table)) {
            return name.clone();
        }
        let slug = slug_of(table);
        let alike = self.tables.iter().filter(|(_, known)| slug_of(known) == slug).count();
        let name = if alike == 0 { slug } else { format!("{slug}-{}", alike + 1) };
        self.tables.push((name.clone(), table));
        name
    }
}

/// `a key's part` becomes `key-s-part`.
fn slug_of(table: &Table) -> String {
    let words = table.what.split(|letter: char| !letter.is_ascii_alphanumeric());
    let telling = words.filter(|word| !matches!(*word, "" | "a" | "an" | "the"));
    telling.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    static RULE: Table = Table {
        what: "a rule",
        about: "Whom to count.",
        fields: &[
            Field {
                name: "limit",
                about: "How much may pass.",
                takes: Takes::Form { like: &["100/min"], pattern: "^[0-9]+/[a-z]+$" },
            },
            Field { name: "cost", about: "Cells.", takes: Takes::Count { min: 1, max: 9 } },
            Field { name: "burst", about: "Cells.", takes: Takes::Count { min: 1, max: u64::MAX } },
            Field { name: "rules", about: "More.", takes: Takes::List(&Takes::Table(&RULE)) },
            Field { name: "other", about: "Another.", takes: Takes::Table(&ALIKE) },
        ],
        required: &["limit"],
    };

    static ALIKE: Table = Table { what: "the rule", about: "Nothing.", fields: &[], required: &[] };

    static FILE: Table = Table {
        what: "a policy file",
        about: "Who may do how much.",
        fields: &[
            Field { name: "rules", about: "The rules.", takes: Takes::Map(&Takes::Table(&RULE)) },
            Field { name: "on", about: "Whether.", takes: Takes::Flag },
            Field { name: "by", about: "How.", takes: Takes::OneOf(&["a", "b"]) },
            Field { name: "for", about: "Whom.", takes: Takes::OneOrMore(&Takes::Text) },
            Field {
                name: "key",
                about: "By what.",
                takes: Takes::Either(&[Takes::Text, Takes::Flag]),
            },
        ],
        required: &[],
    };

    #[test]
    fn a_table_becomes_a_schema() {
        let wanted = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.com/policy.json",
            "title": "Policy",
            "description": "Who may do how much.",
            "type": "object",
            "properties": {
                "rules": {
                    "description": "The rules.",
                    "type": "object",
                    "additionalProperties": { "$ref": "#/$defs/rule" },
                },
                "on": { "description": "Whether.", "type": "boolean" },
                "by": { "description": "How.", "enum": ["a", "b"] },
                "for": {
                    "description": "Whom.",
                    "anyOf": [
                        { "type": "string" },
                        { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                    ],
                },
                "key": {
                    "description": "By what.",
                    "anyOf": [{ "type": "string" }, { "type": "boolean" }],
                },
            },
            "additionalProperties": false,
            "$defs": {
                "rule": {
                    "description": "Whom to count.",
                    "type": "object",
                    "properties": {
                        "limit": {
                            "description": "How much may pass.",
                            "type": "string",
                            "pattern": "^[0-9]+/[a-z]+$",
                            "examples": ["100/min"],
                        },
                        "cost": {
                            "description": "Cells.",
                            "type": "integer",
                            "minimum": 1,
                            "maximum": 9,
                        },
                        "burst": { "description": "Cells.", "type": "integer", "minimum": 1 },
                        "rules": {
                            "description": "More.",
                            "type": "array",
                            "items": { "$ref": "#/$defs/rule" },
                        },
                        "other": { "description": "Another.", "$ref": "#/$defs/rule-2" },
                    },
                    "additionalProperties": false,
                    "required": ["limit"],
                },
                "rule-2": {
                    "description": "Nothing.",
                    "type": "object",
                    "properties": {},
                    "additionalProperties": false,
                },
            },
        });
        let found = schema(&FILE, "https://example.com/policy.json", "Policy");
        // As text: the order of fields is part of it.
        assert_eq!(format!("{found:#}"), format!("{wanted:#}"));
    }

    #[test]
    fn names_of_definitions_are_plain() {
        for (what, wanted) in
            [("a rule", "rule"), ("an IP's network", "ip-s-network"), ("the key", "key")]
        {
            assert_eq!(slug_of(&Table { what, ..ALIKE }), wanted);
        }
    }
}
