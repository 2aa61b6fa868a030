//! OTLP's messages once more, as a collector reads them: what both of us got wrong would be seen.

use std::collections::BTreeMap;

use prost::{Message, Oneof};
use serde_json::{Value as Json, json};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_field_names, reason = "OTLP's names")]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_ns: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_ns: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Pair>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pair {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(oneof = "Kind", tags = "1, 3, 5")]
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(message, tag = "5")]
    List(List),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Any>,
}

impl Span {
    /// What is said of it, as JSON.
    pub(crate) fn told(&self) -> BTreeMap<&str, Json> {
        told(&self.attributes)
    }
}

pub(crate) fn told(pairs: &[Pair]) -> BTreeMap<&str, Json> {
    pairs.iter().map(|pair| (&*pair.key, json_of(pair.value.as_ref()))).collect()
}

fn json_of(value: Option<&Any>) -> Json {
    match value.and_then(|any| any.kind.as_ref()) {
        None => Json::Null,
        Some(Kind::Text(text)) => json!(text),
        Some(Kind::Int(number)) => json!(number),
        Some(Kind::List(list)) => list.items.iter().map(|item| json_of(Some(item))).collect(),
    }
}
