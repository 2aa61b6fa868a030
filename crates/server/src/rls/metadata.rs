//! Dynamic metadata: what was asked and what its limits say, for Envoy's other filters.
//!
//! The form is envoyproxy/ratelimit's; `rules` is ours.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::proto::{RateLimitDescriptor, RateLimitRequest};

/// What a response tells of a request: the names of its limits, and the words of those that let it
/// pass.
pub(super) fn of(
    request: &RateLimitRequest,
    rules: impl Iterator<Item = String>,
    passed: &[&serde_json::Map<String, serde_json::Value>],
) -> Struct {
    let mut fields = BTreeMap::new();
    fields.insert("domain".to_owned(), text(&request.domain));
    let descriptors = request.descriptors.iter().map(descriptor).collect();
    fields.insert("descriptors".to_owned(), list(descriptors));
    if 0 < request.hits_addend {
        fields.insert("hitsAddend".to_owned(), number(request.hits_addend.into()));
    }
    let mut merged = BTreeMap::new();
    for metadata in passed {
        merge(&mut merged, metadata);
    }
    if !merged.is_empty() {
        fields.insert("metadata".to_owned(), map(merged));
    }
    let rules: Vec<Value> = rules.map(|name| text(&name)).collect();
    if !rules.is_empty() {
        fields.insert("rules".to_owned(), list(rules));
    }
    Struct { fields }
}

fn descriptor(descriptor: &RateLimitDescriptor) -> Value {
    let entries = descriptor.entries.iter();
    let plain = |bytes| String::from_utf8_lossy(bytes);
    let entries = entries.map(|it| text(&format!("{}={}", plain(&it.key), plain(&it.value))));
    let mut fields = BTreeMap::new();
    fields.insert("entries".to_owned(), list(entries.collect()));
    if let Some(hits) = descriptor.hits_addend {
        let hits = u32::try_from(hits).unwrap_or(u32::MAX);
        fields.insert("hitsAddend".to_owned(), number(hits.into()));
    }
    map(fields)
}

/// The first to say something about a name is heard; maps are taken together.
fn merge(into: &mut BTreeMap<String, Value>, from: &serde_json::Map<String, serde_json::Value>) {
    for (name, value) in from {
        match into.get_mut(name) {
            None => drop(into.insert(name.clone(), plain(value))),
            Some(Value { kind: Some(Kind::StructValue(known)) }) => {
                if let serde_json::Value::Object(more) = value {
                    merge(&mut known.fields, more);
                }
            }
            Some(_) => {}
        }
    }
}

fn plain(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value { kind: Some(Kind::NullValue(0)) },
        Json::Bool(flag) => Value { kind: Some(Kind::BoolValue(*flag)) },
        Json::Number(it) => number(it.as_f64().unwrap_or_default()),
        Json::String(it) => text(it),
        Json::Array(items) => list(items.iter().map(plain).collect()),
        Json::Object(fields) => {
            map(fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect())
        }
    }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn map(fields: BTreeMap<String, Value>) -> Value {
    Value { kind: Some(Kind::StructValue(Struct { fields })) }
}
