//! OTLP's messages: those that we send, and the fields that we fill.
//!
//! Written by hand after opentelemetry-proto 1.x, whose fields never change their numbers.

use prost::{Message, Oneof};

/// `SPAN_KIND_SERVER`
pub(super) const KIND_SERVER: i32 = 2;

/// `STATUS_CODE_ERROR`
pub(super) const STATUS_ERROR: i32 = 2;

/// The W3C's flag: this span is sampled.
pub(super) const SAMPLED: u32 = 1;

/// Whether the parent is in another process is said by the next flag.
pub(super) const PARENT_IS_KNOWN: u32 = 1 << 8;

/// It is in another process.
pub(super) const PARENT_IS_REMOTE: u32 = 1 << 9;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// `InstrumentationScope`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_field_names, reason = "OTLP's names")]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3, 5")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<AnyValue>,
}

impl KeyValue {
    fn new(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }

    pub(super) fn text(key: &str, value: &str) -> KeyValue {
        KeyValue::new(key, Value::Text(value.to_owned()))
    }

    pub(super) fn int(key: &str, value: i64) -> KeyValue {
        KeyValue::new(key, Value::Int(value))
    }

    pub(super) fn texts(key: &str, values: Vec<String>) -> KeyValue {
        let any = |text| AnyValue { value: Some(Value::Text(text)) };
        KeyValue::new(
            key,
            Value::Array(ArrayValue { values: values.into_iter().map(any).collect() }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What OpenTelemetry's own library for Python writes (package opentelemetry-proto 1.x).
    const REQUEST: &str = "\
        0ad4010a1c0a1a0a0c736572766963652e6e616d65120a0a08746964656761746512b3010a110a08\
        74696465676174651205302e312e30129d010a100102030405060708090a0b0c0d0e0f1012081112\
        131415161718220821222324252627282a05636865636b300239e8032a36fe9c97174178d42d36fe\
        9c97174a1a0a1074696465676174652e7665726469637412060a0464656e794a130a0d7469646567\
        6174652e636f7374120218034a1b0a0e74696465676174652e72756c657312092a070a050a03616c\
        6c7a0612026e6f1802850101030000";

    const RESPONSE: &str = "0a050802120178";

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn request() -> ExportTraceServiceRequest {
        let span = Span {
            trace_id: (1..17).collect(),
            span_id: (17..25).collect(),
            parent_span_id: (33..41).collect(),
            name: "check".into(),
            kind: KIND_SERVER,
            start_time_unix_nano: 1_700_000_000_000_001_000,
            end_time_unix_nano: 1_700_000_000_000_251_000,
            attributes: vec![
                KeyValue::text("tidegate.verdict", "deny"),
                KeyValue::int("tidegate.cost", 3),
                KeyValue::texts("tidegate.rules", vec!["all".into()]),
            ],
            status: Some(Status { message: "no".into(), code: STATUS_ERROR }),
            flags: SAMPLED | PARENT_IS_KNOWN | PARENT_IS_REMOTE,
        };
        let scope = Some(Scope { name: "tidegate".into(), version: "0.1.0".into() });
        let resource = Resource { attributes: vec![KeyValue::text("service.name", "tidegate")] };
        let scope_spans = vec![ScopeSpans { scope, spans: vec![span] }];
        let spans = ResourceSpans { resource: Some(resource), scope_spans };
        ExportTraceServiceRequest { resource_spans: vec![spans] }
    }

    #[test]
    fn what_is_written_is_what_opentelemetry_writes() {
        let written = bytes(REQUEST);
        assert_eq!(request().encode_to_vec(), written);
        assert_eq!(ExportTraceServiceRequest::decode(&*written), Ok(request()));
    }

    #[test]
    fn what_a_collector_did_not_take_is_read() {
        let read = ExportTraceServiceResponse::decode(&*bytes(RESPONSE)).unwrap();
        let expected = PartialSuccess { rejected_spans: 2, error_message: "x".into() };
        assert_eq!(read.partial_success, Some(expected));
        assert_eq!(ExportTraceServiceResponse::decode(&b""[..]).unwrap().partial_success, None);
    }
}
