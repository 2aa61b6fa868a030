//! Requests and responses as JSON, by the rules of proto3: names in camel case or as in the files,
//! numbers as numbers or text, what is not there is nothing.
//!
//! Values are what clients wrote: for those that JSON forbids, and for numbers that are too large,
//! there is no error, since a caller may let pass what it gets one about.

use http::StatusCode;
use serde_json::{Map, Value, json};
use tonic::{Code as GrpcCode, Status};

use super::proto::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, Unit,
};
use super::{RateLimits, answer};
use crate::legible;
use crate::limits::RLS_MESSAGE_BYTES_MAX;

pub(super) async fn answer(limits: &RateLimits, body: &[u8]) -> (StatusCode, Vec<u8>) {
    if RLS_MESSAGE_BYTES_MAX < body.len() {
        return too_long();
    }
    let request = match read(body) {
        Ok(request) => request,
        Err(wrong) => return failed(&Status::invalid_argument(wrong)),
    };
    match limits.decide(&request).await {
        Ok(response) => decided(&response),
        Err(status) => failed(&status),
    }
}

/// What is too long to be read is refused.
pub(crate) fn too_long() -> (StatusCode, Vec<u8>) {
    decided(&answer::refused(0))
}

fn decided(response: &RateLimitResponse) -> (StatusCode, Vec<u8>) {
    let is_over = response.overall_code() == Code::OverLimit;
    let status = if is_over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
    (status, written(response).to_string().into_bytes())
}

fn failed(status: &Status) -> (StatusCode, Vec<u8>) {
    let code = match status.code() {
        GrpcCode::InvalidArgument | GrpcCode::Unimplemented => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = json!({ "code": i32::from(status.code()), "message": status.message() });
    (code, body.to_string().into_bytes())
}

fn read(body: &[u8]) -> Result<RateLimitRequest, String> {
    let value = serde_json::from_str(&legible::json(body));
    let value = value.map_err(|wrong| format!("no JSON: {wrong}"))?;
    let mut request = RateLimitRequest::default();
    fields("the request", &value, |name, value| {
        match name {
            "domain" => request.domain = text(name, value)?,
            "hitsAddend" | "hits_addend" => request.hits_addend = cells(name, value)?,
            "descriptors" => request.descriptors = list(name, value, descriptor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(request)
}

fn descriptor(value: &Value) -> Result<RateLimitDescriptor, String> {
    let mut descriptor = RateLimitDescriptor::default();
    fields("a descriptor", value, |name, value| {
        match name {
            "entries" => descriptor.entries = list(name, value, entry)?,
            "limit" => descriptor.limit = Some(limit(value)?),
            "hitsAddend" | "hits_addend" => descriptor.hits_addend = Some(number(name, value)?),
            "isNegativeHits" | "is_negative_hits" => {
                let flag = value.as_bool();
                descriptor.is_negative_hits = flag.ok_or_else(|| wrong(name, "true or false"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(descriptor)
}

fn entry(value: &Value) -> Result<Entry, String> {
    let mut entry = Entry::default();
    fields("an entry", value, |name, value| {
        match name {
            "key" => entry.key = text(name, value)?.into(),
            "value" => entry.value = text(name, value)?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(entry)
}

fn limit(value: &Value) -> Result<RateLimitOverride, String> {
    let mut limit = RateLimitOverride::default();
    fields("a limit", value, |name, value| {
        match name {
            "requestsPerUnit" | "requests_per_unit" => {
                limit.requests_per_unit = cells(name, value)?;
            }
            "unit" => {
                let named = |name| Unit::from_str_name(name).unwrap_or(Unit::Unknown).into();
                let unit = value.as_str().map(named);
                let unit = unit.or_else(|| i32::try_from(value.as_i64()?).ok());
                limit.unit = unit.ok_or_else(|| wrong(name, "a unit such as `MINUTE`"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(limit)
}

/// Calls `each` for every field that is something; it says whether it knows the name.
fn fields(
    what: &str,
    value: &Value,
    mut each: impl FnMut(&str, &Value) -> Result<bool, String>,
) -> Result<(), String> {
    let Value::Object(map) = value else { return Err(format!("{what} is not an object")) };
    for (name, value) in map {
        if !value.is_null() && !each(name, value)? {
            return Err(format!("{what} has no field `{}`", name.escape_debug()));
        }
    }
    Ok(())
}

fn list<T>(
    name: &str,
    value: &Value,
    each: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    value.as_array().ok_or_else(|| wrong(name, "a list"))?.iter().map(each).collect()
}

fn text(name: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "text"))
}

/// A whole number, as a number or as text; one that is too large is the largest.
fn number(name: &str, value: &Value) -> Result<u64, String> {
    let number = value.as_u64().or_else(|| digits(value.as_str()?));
    let number = number.or_else(|| with_point(value.as_f64()?));
    number.ok_or_else(|| wrong(name, "a whole number"))
}

fn cells(name: &str, value: &Value) -> Result<u32, String> {
    number(name, value).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// `3.0` is a whole number to proto3.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the most")]
fn with_point(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && 0.0 <= number).then_some(number as u64)
}

fn wrong(name: &str, wanted: &str) -> String {
    format!("`{name}` takes {wanted}")
}

/// A map that leaves out what is as good as nothing.
#[derive(Default)]
struct Written(Map<String, Value>);

impl Written {
    fn with(mut self, name: &str, value: impl Into<Value>) -> Written {
        let value = value.into();
        let is_nothing = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Number(number) => number.as_u64() == Some(0),
            Value::Bool(flag) => !flag,
            Value::Object(_) => false,
        };
        if !is_nothing {
            self.0.insert(name.to_owned(), value);
        }
        self
    }
}

fn written(response: &RateLimitResponse) -> Value {
    let headers = response.response_headers_to_add.iter();
    let headers: Vec<Value> = headers
        .map(|it| Written::default().with("key", &*it.key).with("value", &*it.value).0.into())
        .collect();
    let statuses: Vec<Value> = response.statuses.iter().map(status).collect();
    let metadata = response.dynamic_metadata.as_ref();
    Written::default()
        .with("overallCode", response.overall_code().as_str_name())
        .with("statuses", statuses)
        .with("responseHeadersToAdd", headers)
        .with("dynamicMetadata", metadata.map_or(Value::Null, |it| structure(&it.fields)))
        .0
        .into()
}

fn status(status: &DescriptorStatus) -> Value {
    let limit = status.current_limit.as_ref().map_or(Value::Null, |limit| {
        let unit = limit.unit();
        let unit = if unit == Unit::Unknown { "" } else { unit.as_str_name() };
        Written::default()
            .with("name", &*limit.name)
            .with("requestsPerUnit", limit.requests_per_unit)
            .with("unit", unit)
            .0
            .into()
    });
    let reset = status.duration_until_reset.as_ref().map(duration).unwrap_or_default();
    Written::default()
        .with("code", status.code().as_str_name())
        .with("currentLimit", limit)
        .with("limitRemaining", status.limit_remaining)
        .with("durationUntilReset", reset)
        .0
        .into()
}

/// Seconds with as many digits as there are, in threes.
fn duration(duration: &prost_types::Duration) -> String {
    let (seconds, nanos) = (duration.seconds, duration.nanos);
    match nanos {
        0 => format!("{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{seconds}.{:03}s", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!("{seconds}.{:06}s", nanos / 1_000),
        _ => format!("{seconds}.{nanos:09}s"),
    }
}

fn structure<'a>(fields: impl IntoIterator<Item = (&'a String, &'a prost_types::Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.clone(), plain(value)));
    Value::Object(fields.collect())
}

fn plain(value: &prost_types::Value) -> Value {
    use prost_types::value::Kind;
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(*flag),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(plain).collect(),
        Some(Kind::StructValue(it)) => structure(&it.fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_by_either_name() {
        for text in [
            r#"{"domain":"a","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}],
                "hitsAddend":"3","limit":{"requestsPerUnit":5,"unit":"MINUTE"}}]}"#,
            r#"{"domain":"a","hits_addend":"2","descriptors":[{"entries":[{"key":"k","value":"v"}],
                "hits_addend":3,"limit":{"requests_per_unit":"5","unit":2}}]}"#,
        ] {
            let request = read(text.as_bytes()).unwrap();
            assert_eq!((&*request.domain, request.hits_addend), ("a", 2));
            let [descriptor] = &*request.descriptors else { panic!("{request:?}") };
            assert_eq!(descriptor.hits_addend, Some(3));
            assert_eq!(descriptor.limit, Some(RateLimitOverride { requests_per_unit: 5, unit: 2 }));
            let entry = Entry { key: "k".into(), value: "v".into() };
            assert_eq!(descriptor.entries, [entry]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (text, message) in [
            ("{", "no JSON"),
            ("[]", "the request is not an object"),
            (r#"{"domian":"a"}"#, "the request has no field `domian`"),
            (r#"{"domain":1}"#, "`domain` takes text"),
            (r#"{"hitsAddend":1.5}"#, "`hitsAddend` takes a whole number"),
            (r#"{"hitsAddend":-1}"#, "`hitsAddend` takes a whole number"),
            (r#"{"hitsAddend":""}"#, "`hitsAddend` takes a whole number"),
            (r#"{"descriptors":{}}"#, "`descriptors` takes a list"),
            (r#"{"descriptors":[{"limit":{"unit":{}}}]}"#, "`unit` takes a unit"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
        assert_eq!(read(br#"{"domain":null}"#).unwrap(), RateLimitRequest::default());
    }

    #[test]
    fn what_a_client_writes_is_never_an_error() {
        for written in [&b"\xff"[..], br"\ud800"] {
            let body = [&br#"{"descriptors":[{"entries":[{"value":""#[..], written, br#""}]}]}"#];
            let request = read(&body.concat()).unwrap();
            assert_eq!(request.descriptors[0].entries[0].value, "\u{fffd}".as_bytes());
        }
        for most in ["4294967296", "18446744073709551616", r#""99999999999999999999""#, "1e30"] {
            let request = read(format!(r#"{{"hitsAddend":{most}}}"#).as_bytes()).unwrap();
            assert_eq!(request.hits_addend, u32::MAX, "{most}");
        }
    }

    #[test]
    fn durations_have_as_many_digits_as_there_are_in_threes() {
        for (seconds, nanos, text) in [
            (1, 500_000_000, "1.500s"),
            (59, 0, "59s"),
            (0, 1_000, "0.000001s"),
            (0, 1, "0.000000001s"),
        ] {
            assert_eq!(duration(&prost_types::Duration { seconds, nanos }), text);
        }
    }
}
