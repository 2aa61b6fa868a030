//! The body of a refusal: `application/problem+json`, for machines and for people.

use serde_json::{Map, Value, json};
use tidegate_core::Verdict;

use crate::admission::{Admission, Reason};
use crate::ratelimit_field::seconds;

/// What IANA calls a request that a quota refuses.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// What IANA calls a request that there is no room for.
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

impl Admission {
    /// The media type of [`Admission::problem`].
    pub const PROBLEM_TYPE: &'static str = "application/problem+json";

    /// The status of a refusal: 429; 403 for what is blocked, since waiting does not help there;
    /// 503 for what is crowded out, since it is the service that is at its limit, not the client;
    /// 411 for a body that does not say how long it is, where that is asked for; 401 for an API key
    /// that nobody has.
    pub fn status(&self) -> u16 {
        match self.reason {
            Reason::Blocked => 403,
            Reason::Crowded => 503,
            Reason::LengthRequired => 411,
            Reason::UnknownKey => 401,
            _ => 429,
        }
    }

    /// The body of a refusal.
    pub fn problem(&self) -> String {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        let (kind, title) = match self.reason {
            Reason::Blocked => ("about:blank", "Blocked"),
            Reason::LengthRequired => ("about:blank", "Length required"),
            Reason::Crowded => (REDUCED_CAPACITY, "Temporary reduced capacity"),
            Reason::UnknownKey => ("about:blank", "Unauthorized"),
            _ => (QUOTA_EXCEEDED, "Quota exceeded"),
        };
        put("type", json!(kind));
        put("title", json!(title));
        put("status", json!(self.status()));
        put("detail", json!(self.message()));
        let told = self.violated().filter(|answer| answer.is_shown);
        let mut names: Vec<String> = told.map(|answer| answer.name()).collect();
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
        match self.reason {
            Reason::Blocked => "blocked",
            Reason::Crowded => "crowded",
            Reason::LengthRequired => "length_required",
            Reason::UnknownKey => "unknown_api_key",
            _ => "rate_limit_exceeded",
        }
    }

    /// The message for a person.
    pub fn message(&self) -> String {
        match (self.reason, self.verdict) {
            (Reason::Blocked, _) => "requests like this one are not accepted".to_owned(),
            (Reason::LengthRequired, _) => {
                "say how long the body is: send it with a `Content-Length`".to_owned()
            }
            (Reason::UnknownKey, _) => "the API key is not known, or has expired".to_owned(),
            (Reason::KeyTooLong, _) => "what identifies the request is too long".to_owned(),
            (Reason::TooManyLimits, _) => {
                "more limits are for this request than can be judged together".to_owned()
            }
            (Reason::Crowded, Verdict::Deny { retry_after }) => match seconds(retry_after).max(1) {
                1 => "the service is busy with others: try again in 1 second".to_owned(),
                wait => format!("the service is busy with others: try again in {wait} seconds"),
            },
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
