//! Writes one value as YAML, TOML and JSON, as different people would.

use serde_json::Value;

use crate::source::Format;

pub(super) const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

/// The text of a policy in a format.
pub(super) fn written(policy: &Value, format: Format) -> String {
    match format {
        Format::Json => format!("{policy:#}"),
        Format::Toml => toml(policy),
        Format::Yaml => {
            let mut text = String::new();
            yaml(policy, 0, &mut text);
            text
        }
    }
}

fn add(text: &mut String, more: &str) {
    text.push_str(more);
}

/// In blocks, with text in quotes.
fn yaml(value: &Value, indent: usize, text: &mut String) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                add(text, &format!("{margin}{}:", Value::from(name.as_str())));
                yaml_below(value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                add(text, &format!("{margin}-"));
                yaml_below(item, indent, text);
            }
        }
        other => add(text, &format!("{margin}{other}\n")),
    }
}

fn yaml_below(value: &Value, indent: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        yaml(value, indent + 2, text);
    } else {
        add(text, &format!(" {value}\n"));
    }
}

/// Sections as tables where they are maps, `[[rules]]` where they are lists of maps.
fn toml(policy: &Value) -> String {
    let (mut plain, mut tables) = (String::new(), String::new());
    for (name, value) in policy.as_object().into_iter().flatten() {
        match value {
            Value::Array(items) if items.iter().all(Value::is_object) => {
                for item in items {
                    add(&mut tables, &format!("[[{name}]]\n"));
                    pairs(item, &mut tables);
                }
            }
            Value::Object(_) => {
                add(&mut tables, &format!("[{name}]\n"));
                pairs(value, &mut tables);
            }
            other => add(&mut plain, &format!("{name} = {}\n", inline(other))),
        }
    }
    plain + &tables
}

fn pairs(value: &Value, text: &mut String) {
    for (name, value) in value.as_object().into_iter().flatten() {
        add(text, &format!("{} = {}\n", Value::from(name.as_str()), inline(value)));
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| format!("{name:?} = {}", inline(value));
            let pairs: Vec<String> = fields.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}
