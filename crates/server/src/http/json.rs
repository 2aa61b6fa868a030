//! Answers as JSON, written straight into the body of the response.
//!
//! What serde makes of the same answer is the same to the byte, in six times as many steps: here
//! whatever lies between two values is one constant.

use tidegate_core::Verdict;

use crate::answer::{Answer, Field, RuleAnswer, Value, verdict_name};

/// About what one answer takes.
pub(super) const ANSWER_BYTES: usize = 512;

/// An answer as an object, and what else its caller is told.
pub(super) fn write(out: &mut Vec<u8>, answer: &Answer<'_>, more: &[Field<'_>]) {
    put(out, b"{\"verdict\":\"");
    out.extend_from_slice(verdict_name(answer.verdict).as_bytes());
    match answer.speaks {
        Some(decision) => {
            put(out, b"\",\"limit\":");
            write_number(out, decision.limit.into());
            put(out, b",\"remaining\":");
            write_number(out, decision.remaining.into());
            put(out, b",\"reset_after_us\":");
            write_number(out, decision.reset_after.get());
        }
        None => put(out, b"\",\"limit\":null,\"remaining\":null,\"reset_after_us\":null"),
    }
    write_times(out, answer.verdict);
    put(out, b",\"reason\":\"");
    out.extend_from_slice(answer.reason.as_bytes());
    put(out, b"\",\"by\":\"");
    out.extend_from_slice(answer.by.as_bytes());
    match answer.stopped_by {
        Some(name) => {
            put(out, b"\",\"stopped_by\":");
            write_text(out, name);
            put(out, b",\"rules\":[");
        }
        None => put(out, b"\",\"stopped_by\":null,\"rules\":["),
    }
    for (at, rule) in answer.rules.iter().enumerate() {
        if at != 0 {
            out.push(b',');
        }
        write_rule(out, rule);
    }
    out.push(b']');
    for (name, value) in more {
        put(out, b",\"");
        out.extend_from_slice(name.as_bytes());
        put(out, b"\":");
        match value {
            Value::Number(number) => write_number(out, *number),
            Value::Text(text) => write_text(out, text),
            Value::Bool(_) | Value::Null | Value::Rules(_) => {
                serde_json::to_writer(&mut *out, value).expect("a list of bytes takes every value");
            }
        }
    }
    out.push(b'}');
}

fn write_rule(out: &mut Vec<u8>, rule: &RuleAnswer<'_>) {
    put(out, b"{\"name\":");
    write_text(out, &rule.name);
    put(out, b",\"verdict\":\"");
    out.extend_from_slice(verdict_name(rule.decision.verdict).as_bytes());
    put(out, b"\",\"limit\":");
    write_number(out, rule.decision.limit.into());
    put(out, b",\"remaining\":");
    write_number(out, rule.decision.remaining.into());
    put(out, b",\"reset_after_us\":");
    write_number(out, rule.decision.reset_after.get());
    write_times(out, rule.decision.verdict);
    put(out, b",\"cost\":");
    write_number(out, rule.cost.into());
    put(out, b",\"window_us\":");
    write_number(out, rule.window_us);
    match rule.credits {
        Some(credits) => {
            put(out, b",\"credits\":");
            write_number(out, credits.into());
            put(out, b",\"unit\":");
        }
        None => put(out, b",\"credits\":null,\"unit\":"),
    }
    write_text(out, rule.unit);
    if rule.is_shadow {
        put(out, b",\"shadow\":true}");
    } else {
        put(out, b",\"shadow\":false}");
    }
}

/// When to come back, and for how long it is held back.
fn write_times(out: &mut Vec<u8>, verdict: Verdict) {
    match verdict {
        Verdict::Allow | Verdict::Never => put(out, b",\"retry_after_us\":null,\"delay_us\":null"),
        Verdict::Deny { retry_after } => {
            put(out, b",\"retry_after_us\":");
            write_number(out, retry_after.get());
            put(out, b",\"delay_us\":null");
        }
        Verdict::Delay { by } => {
            put(out, b",\"retry_after_us\":null,\"delay_us\":");
            write_number(out, by.get());
        }
    }
}

/// A constant, of a length that the compiler knows.
#[inline]
fn put<const LEN: usize>(out: &mut Vec<u8>, constant: &[u8; LEN]) {
    out.extend_from_slice(constant);
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
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

    fn written(answer: &Answer<'_>, more: &[Field<'_>]) -> String {
        let mut out = Vec::new();
        write(&mut out, answer, more);
        String::from_utf8(out).expect("JSON is text")
    }

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
        let clock = Arc::new(ManualClock::new());
        let gate = Gate::builder().text(policy).clock(clock).open().expect("a policy");
        for target in ["/", "/odd", "/wait", "/saved", "/bad", "/odd", "/wait", "/"] {
            let admission = gate.decide(&Sample::new(&format!("GET {target}")));
            let answer = Answer::of(&admission);
            let expected = serde_json::to_string(&answer).expect("plain values");
            assert_eq!(written(&answer, &[]), expected);
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
        let gate = Gate::from_text("rules: [{ name: a, match: { path: /a }, limit: 1/s }]");
        let gate = gate.expect("a policy");
        let admission = gate.decide(&Sample::new("GET /"));
        let more = [("permit", Value::Text("x")), ("lease_us", Value::Number(7))];
        let told = written(&Answer::of(&admission), &more);
        assert!(told.ends_with(r#","rules":[],"permit":"x","lease_us":7}"#), "{told}");
    }
}
