//! Answers as JSON, written straight into the body of the response.
//!
//! What serde makes of the same answer is the same to the byte, and takes three times as long.

use crate::answer::{Answer, Field, Value};

/// About what one answer takes.
pub(super) const ANSWER_BYTES: usize = 512;

/// An answer as an object, and what else its caller is told.
pub(super) fn write(out: &mut Vec<u8>, answer: &Answer<'_>, more: &[Field<'_>]) {
    out.push(b'{');
    for field in answer.fields().iter().chain(more) {
        write_field(out, field);
    }
    end(out, b'}');
}

/// A name, a value, and a comma.
fn write_field(out: &mut Vec<u8>, (name, value): &Field<'_>) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Value::Text(text) => write_text(out, text),
        Value::Rules(rules) => {
            out.push(b'[');
            for rule in *rules {
                out.push(b'{');
                rule.fields().iter().for_each(|field| write_field(out, field));
                end(out, b'}');
                out.push(b',');
            }
            end(out, b']');
        }
    }
    out.push(b',');
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

/// Ends a list with what closes it, instead of the comma after its last item.
fn end(out: &mut Vec<u8>, with: u8) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(with);
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
  - { name: saved, match: { path: /saved }, key: method, limit: 9/s, credits: { for: 9s, rate: 2x } }
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
