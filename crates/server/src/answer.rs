//! The fields of an answer: one list, which every door writes in its own form.
//!
//! Times are whole microseconds. A field that does not apply is null, never zero: a request that no
//! limit is for has no `remaining`.

use std::borrow::Cow;

use tidegate_core::{Decision, Verdict};
use tidegate_gate::{Admission, Answer, By, Reason, Unit};

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// Does not apply.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A count, or microseconds.
    Number(u64),
    /// A word.
    Text(Cow<'a, str>),
    /// What each limit said: [`rules`].
    Rules(&'a Admission),
}

/// A field and its value.
pub(crate) type Field<'a> = (&'static str, Value<'a>);

/// What was decided about a request: every field, in order.
pub(crate) fn fields(admission: &Admission) -> [Field<'_>; 10] {
    let verdict = admission.verdict();
    let is_counted = admission.each().any(|limit| !limit.is_shadow);
    let speaks = is_counted.then(|| admission.decision());
    let number = |of: fn(&Decision) -> u64| speaks.as_ref().map(of).into();
    let words = words(verdict, reason_name(admission.reason()), admission.by());
    let [verdict_word, reason, by] = words.map(|(name, word)| (name, word.into()));
    [
        verdict_word,
        ("limit", number(|decision| decision.limit.into())),
        ("remaining", number(|decision| decision.remaining.into())),
        ("reset_after_us", number(|decision| decision.reset_after.get())),
        ("retry_after_us", retry_after_us(verdict)),
        ("delay_us", delay_us(verdict)),
        reason,
        by,
        ("stopped_by", admission.stopped_by().map_or(Value::Null, Value::from)),
        ("rules", Value::Rules(admission)),
    ]
}

/// What each limit said of it: every field, in order.
pub(crate) fn rules(admission: &Admission) -> impl Iterator<Item = [Field<'_>; 12]> {
    admission.each().map(|limit| {
        let Decision { verdict, limit: cells, remaining, reset_after } = limit.decision;
        [
            ("name", Value::Text(named(&limit))),
            ("verdict", verdict_name(verdict).into()),
            ("limit", Value::Number(cells.into())),
            ("remaining", Value::Number(remaining.into())),
            ("reset_after_us", Value::Number(reset_after.get())),
            ("retry_after_us", retry_after_us(verdict)),
            ("delay_us", delay_us(verdict)),
            ("cost", Value::Number(limit.cost.into())),
            ("window_us", Value::Number(limit.window.get())),
            ("credits", limit.credits.map(u64::from).into()),
            ("unit", unit_name(limit.unit).into()),
            ("shadow", Value::Bool(limit.is_shadow)),
        ]
    })
}

/// The fields that are words, which traces have as well.
pub(crate) fn words(
    verdict: Verdict,
    reason: &'static str,
    by: By,
) -> [(&'static str, &'static str); 3] {
    [("verdict", verdict_name(verdict)), ("reason", reason), ("by", by.name())]
}

impl From<Option<u64>> for Value<'_> {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Value::Null, Value::Number)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text.into())
    }
}

/// The name of a verdict, at every door.
pub const fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Delay { .. } => "delay",
        Verdict::Deny { .. } => "deny",
        Verdict::Never => "never",
    }
}

pub(crate) const fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Blocked => "blocked",
        Reason::Crowded => "crowded",
        Reason::Judged => "judged",
        Reason::KeyTooLong => "key-too-long",
        Reason::LengthRequired => "length-required",
        Reason::TooManyLimits => "too-many-limits",
        Reason::Unlimited => "unlimited",
        Reason::UnknownKey => "unknown-key",
    }
}

/// The limit's name; most are called as their rule is.
fn named<'a>(limit: &Answer<'a>) -> Cow<'a, str> {
    if limit.part.is_empty() { limit.rule.into() } else { limit.name().into() }
}

fn unit_name(unit: &Unit) -> &str {
    match unit {
        Unit::Bytes("B") => "bytes",
        Unit::Bytes(word) => word,
        Unit::InFlight => "in-flight",
        Unit::Named(name) => name,
        Unit::Requests => "requests",
    }
}

fn retry_after_us(verdict: Verdict) -> Value<'static> {
    match verdict {
        Verdict::Deny { retry_after } => Value::Number(retry_after.get()),
        Verdict::Allow | Verdict::Delay { .. } | Verdict::Never => Value::Null,
    }
}

fn delay_us(verdict: Verdict) -> Value<'static> {
    match verdict {
        Verdict::Delay { by } => Value::Number(by.get()),
        Verdict::Allow | Verdict::Deny { .. } | Verdict::Never => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_gate::{Gate, Sample};

    use super::*;

    fn names(fields: &[Field<'_>]) -> Vec<&'static str> {
        fields.iter().map(|(name, _)| *name).collect()
    }

    /// Of an answer, and of what a limit said.
    fn all_names() -> [Vec<&'static str>; 2] {
        let gate = Gate::from_text("rules: [{ name: all, limit: 1/min }]").expect("a policy");
        let admission = gate.decide(&Sample::new("GET /"));
        let of_rule = rules(&admission).next().expect("a rule");
        [names(&fields(&admission)), names(&of_rule)]
    }

    #[test]
    fn the_schema_has_every_field() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("http/openapi.json")).expect("JSON");
        let schemas = &schema["components"]["schemas"];
        let [answer, rule] = all_names();
        for (of, names, more) in [
            ("Answer", &answer, &["receipt"][..]),
            ("Acquired", &answer, &["permit", "lease_us"]),
            ("Rule", &rule, &[]),
        ] {
            assert_eq!(schemas[of]["required"], serde_json::json!(names), "{of}");
            let known = schemas[of]["properties"].as_object().expect("an object").keys();
            assert!(known.eq(names.iter().chain(more)), "{of}");
        }
    }

    #[test]
    fn the_page_on_the_redis_protocol_has_every_field() {
        let page = include_str!("../../../docs/resp.md");
        let [answer, rule] = all_names();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let rows: Vec<&str> = rows.collect();
        for name in answer {
            let is_there = rows.iter().any(|row| row.contains(&format!("`{name}`")));
            assert!(is_there, "no row for `{name}`");
        }
        let of_rule = format!("what each limit said: `{}`", rule.join("`, `"));
        assert!(page.contains(&of_rule), "{of_rule}");
    }
}
