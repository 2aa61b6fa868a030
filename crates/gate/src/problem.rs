//! The body of a refusal: `application/problem+json`, for machines and for people.

use serde_json::{Map, Value, json};
use tidegate_core::Verdict;

use crate::admission::{Admission, Reason};
use crate::headers::seconds;

/// What IANA calls a request that a quota refuses.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

impl Admission {
    /// The media type of [`Admission::problem`].
    pub const PROBLEM_TYPE: &'static str = "application/problem+json";

    /// The status of a refusal: 429, or 403 for what is blocked, since waiting does not help there.
    pub fn status(&self) -> u16 {
        if self.reason == Reason::Blocked { 403 } else { 429 }
    }

    /// The body of a refusal.
    pub fn problem(&self) -> String {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if self.reason == Reason::Blocked {
            put("type", json!("about:blank"));
            put("title", json!("Blocked"));
        } else {
            put("type", json!(QUOTA_EXCEEDED));
            put("title", json!("Quota exceeded"));
        }
        put("status", json!(self.status()));
        put("detail", json!(self.message()));
        let mut names: Vec<String> = self.violated().map(|answer| answer.name()).collect();
        names.dedup();
        if !names.is_empty() {
            put("violated-policies", json!(names));
        }
        put("error", json!(self.error()));
        put("message", json!(self.message()));
        if let Verdict::Deny { retry_after } = self.verdict {
            put("retry_after", json!(seconds(retry_after).max(1)));
        }
        Value::Object(fields).to_string()
    }

    fn error(&self) -> &'static str {
        if self.reason == Reason::Blocked { "blocked" } else { "rate_limit_exceeded" }
    }

    /// What a person is told.
    pub fn message(&self) -> String {
        match (self.reason, self.verdict) {
            (Reason::Blocked, _) => "requests like this one are not accepted".to_owned(),
            (Reason::KeyTooLong, _) => "what identifies the request is too long".to_owned(),
            (Reason::TooManyLimits, _) => {
                "more limits are for this request than can be judged together".to_owned()
            }
            (_, Verdict::Deny { retry_after }) => match seconds(retry_after).max(1) {
                1 => "too many requests: try again in 1 second".to_owned(),
                wait => format!("too many requests: try again in {wait} seconds"),
            },
            (_, Verdict::Never) => {
                "the request costs more than the limit can ever allow: make it smaller".to_owned()
            }
            (_, Verdict::Allow | Verdict::Delay { .. }) => "the request may pass".to_owned(),
        }
    }
}
