//! Answers as JSON, written straight into the body of the response.

use tidegate_gate::Admission;

use crate::answer::{self, Field, Value};

/// About what one answer takes.
pub(super) const ANSWER_BYTES: usize = 512;

/// An answer as an object, and what else its caller gets.
pub(super) fn write(out: &mut Vec<u8>, admission: &Admission, more: &[Field<'_>]) {
    write_object(out, answer::fields(admission).iter().chain(more));
}

fn write_object<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = &'f Field<'f>>) {
    let mut before = b'{';
    for (name, value) in fields {
        out.extend_from_slice(&[before, b'"']);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        write_value(out, value);
        before = b',';
    }
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Value::Text(text) => write_text(out, text),
        Value::Rules(admission) => {
            out.push(b'[');
            for (at, fields) in answer::rules(admission).enumerate() {
                if at != 0 {
                    out.push(b',');
                }
                write_object(out, fields.iter());
            }
            out.push(b']');
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| 0x20 <= byte && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(out, text).expect("a list of bytes takes every text");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_gate::{Gate, Sample};
    use tidegate_store::ManualClock;

    use super::*;

    fn gate(policy: &str) -> Gate {
        Gate::builder().text(policy).clock(Arc::new(ManualClock::new())).open().expect("a policy")
    }

    fn written(admission: &Admission, more: &[Field<'_>]) -> String {
        let mut out = Vec::new();
        write(&mut out, admission, more);
        String::from_utf8(out).expect("JSON is text")
    }

    fn read(admission: &Admission) -> serde_json::Value {
        serde_json::from_str(&written(admission, &[])).expect("JSON")
    }

    #[track_caller]
    fn check(gate: &Gate, request: &str, expected: &str) {
        assert_eq!(written(&gate.decide(&Sample::new(request)), &[]), expected);
    }

    /// What serde reads, it would write to the same bytes.
    #[test]
    fn it_is_what_serde_would_write() {
        let policy = "
rules:
  - { name: all, key: method, limit: 2/min }
  - { name: odd, match: { path: /odd }, key: method, limit: 1/min, shadow: true }
  - { name: queue, match: { path: /wait }, key: method, limit: 1/min, algorithm: leaky-queue }
  - { name: saved, match: { path: /saved }, limit: 9/s, credits: { for: 9s, rate: 2x } }
  - { name: bad, match: { path: /bad }, block: true }
";
        let gate = gate(policy);
        for target in ["/", "/odd", "/wait", "/saved", "/bad", "/odd", "/wait", "/"] {
            let admission = gate.decide(&Sample::new(&format!("GET {target}")));
            assert_eq!(written(&admission, &[]), read(&admission).to_string());
        }
    }

    #[test]
    fn every_text_is_quoted_as_serde_does() {
        for text in
            ["", "plain", "\u{e9}\u{1f30a}", "a\"b", "a\\b", "a\nb", "\0", "\u{1f}", "\u{7f}"]
        {
            let mut out = Vec::new();
            write_text(&mut out, text);
            assert_eq!(out, serde_json::to_vec(text).expect("a text"), "{text:?}");
        }
    }

    #[test]
    fn what_else_is_told_comes_last() {
        let gate = gate("rules: [{ name: a, match: { path: /a }, limit: 1/s }]");
        let admission = gate.decide(&Sample::new("GET /"));
        let more = [("permit", Value::from("x")), ("lease_us", Value::Number(7))];
        let told = written(&admission, &more);
        assert!(told.ends_with(r#","rules":[],"permit":"x","lease_us":7}"#), "{told}");
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_whose_it_is() {
        let gate = gate("rules: [{ name: all, key: method, limit: 1/min }]");
        check(
            &gate,
            "GET /",
            concat!(
                r#"{"verdict":"allow","limit":1,"remaining":0,"reset_after_us":60000000,"#,
                r#""retry_after_us":null,"delay_us":null,"reason":"judged","by":"store","#,
                r#""stopped_by":null,"rules":[{"name":"all","verdict":"allow","limit":1,"#,
                r#""remaining":0,"reset_after_us":60000000,"retry_after_us":null,"delay_us":null,"#,
                r#""cost":1,"window_us":60000000,"credits":null,"unit":"requests","#,
                r#""shadow":false}]}"#
            ),
        );
        let admission = gate.decide(&Sample::new("GET /"));
        let told = read(&admission);
        assert_eq!(
            (&told["verdict"], &told["rules"][0]["verdict"]),
            (&"deny".into(), &"deny".into())
        );
        assert_eq!(told["retry_after_us"], 60_000_000);
    }

    #[test]
    fn what_no_limit_is_for_has_no_numbers() {
        let gate = gate("rules: [{ name: all, key: method, limit: 1/min, match: { path: /a } }]");
        check(
            &gate,
            "GET /b",
            concat!(
                r#"{"verdict":"allow","limit":null,"remaining":null,"reset_after_us":null,"#,
                r#""retry_after_us":null,"delay_us":null,"reason":"judged","by":"store","#,
                r#""stopped_by":null,"rules":[]}"#
            ),
        );
    }

    #[test]
    fn a_rule_that_stops_a_request_is_named() {
        let gate = gate("rules: [{ name: bad, match: { path: /bad }, block: true }]");
        let admission = gate.decide(&Sample::new("GET /bad"));
        let told = read(&admission);
        assert_eq!((&told["reason"], &told["stopped_by"]), (&"blocked".into(), &"bad".into()));
    }
}
