//! Bodies as every call reads them, for those who try what cannot be meant: the fuzzer, and its
//! seeds in every test run.

use std::sync::OnceLock;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tidegate_gate::Gate;

use super::check::{Call, Wanted};
use super::{body, json, load, operate, permit};
use crate::legible;

const POLICY: &str = "
identify: { client: [header:x-api-key, attribute:user, ip] }
rules:
  - { name: per-client, key: client, limit: 5/min }
  - { name: per-path, key: [path, method, host], algorithm: sliding-window, limit: 5/min }
";

/// The calls that understand these bytes, each with what it would have asked carried out as a look.
pub fn read_body(bytes: &[u8]) -> Vec<&'static str> {
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    let (text, mut understood) = (legible::json(bytes), Vec::new());
    for (name, call) in [("check", Call::Check), ("acquire", Call::Acquire), ("reset", Call::Reset)]
    {
        if let Ok(wanted) = Wanted::read(body::media_type(&headers), &text, call)
            && let Ok(all) = wanted.all()
        {
            all.iter().for_each(look);
            understood.push(name);
        }
    }
    understood.extend(permit::understood(&headers, bytes));
    understood.extend(operate::is_advance(&headers, bytes).then_some("clock"));
    understood.extend(load::is_load(&headers, bytes).then_some("load"));
    understood
}

fn look(wanted: &Wanted<'_>) {
    static GATE: OnceLock<Gate> = OnceLock::new();
    let gate = GATE.get_or_init(|| Gate::from_text(POLICY).expect("a good policy"));
    if let Ok(admission) = gate.peek(&wanted.ask()).ready() {
        let mut answer = Vec::new();
        json::write(&mut answer, &admission, &[]);
        let read: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert!(read.to_string().as_bytes() == answer, "serde writes it in the same way");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// As the fuzzer does.
    #[test]
    fn every_seed_of_the_fuzzer_is_answered() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_body");
        let (mut seeds, mut understood) = (0, 0);
        for seed in fs::read_dir(&folder).unwrap() {
            understood += read_body(&fs::read(seed.unwrap().path()).unwrap()).len();
            seeds += 1;
        }
        assert!(12 < seeds && 8 < understood, "{seeds} seeds, {understood} understood");
    }

    #[test]
    fn a_field_of_another_call_is_refused() {
        let who = |body: &str| read_body(body.as_bytes());
        assert_eq!(who("{}"), ["check", "acquire", "reset"]);
        assert_eq!(who("[]"), [""; 0]);
        assert_eq!(who(r#"{"checks":[[]]}"#), [""; 0]);
        assert_eq!(who(r#"{"receipt":true}"#), ["check"]);
        assert_eq!(who(r#"{"receipt":null}"#), [""; 0]);
        assert_eq!(who(r#"{"lease_ms":5.0}"#), ["acquire"]);
        assert_eq!(who(r#"{"rule":"a","cost":null}"#), ["reset"]);
        assert_eq!(who(r#"{"checks":[{"rule":"a"}]}"#), [""; 0]);
        assert_eq!(who(r#"{"permit":"a","cost":2.0}"#), ["release"]);
        assert_eq!(who(r#"{"permit":"a","lease_ms":1}"#), ["renew"]);
        assert_eq!(who(r#"{"receipt":"a"}"#), ["refund"]);
        assert_eq!(who(r#"{"advance_us":1e3}"#), ["clock"]);
    }
}
