//! What a door says of a decision: the same names and numbers at each of them.
//!
//! Times are whole microseconds. A field that does not apply is null, never zero: a request that no
//! limit is for has no `remaining`.

use std::borrow::Cow;

use serde::Serialize;
use tidegate_core::{Decision, Verdict};
use tidegate_gate::{Admission, Reason, Unit};

/// What was decided about a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer<'a> {
    pub(crate) verdict: Verdict,
    /// The limit that speaks for all, if any limit was asked.
    pub(crate) speaks: Option<Decision>,
    pub(crate) reason: &'static str,
    pub(crate) by: &'static str,
    pub(crate) stopped_by: Option<&'a str>,
    pub(crate) rules: Vec<RuleAnswer<'a>>,
}

/// What one limit said of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleAnswer<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) decision: Decision,
    pub(crate) cost: u32,
    pub(crate) window_us: u64,
    pub(crate) credits: Option<u32>,
    pub(crate) unit: &'a str,
    pub(crate) is_shadow: bool,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value<'a> {
    /// Does not apply.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A count, or microseconds.
    Number(u64),
    /// A word.
    Text(&'a str),
    /// One for each limit.
    Rules(&'a [RuleAnswer<'a>]),
}

/// A field and its value.
pub type Field<'a> = (&'static str, Value<'a>);

impl<'a> Answer<'a> {
    /// What is told of `admission`.
    pub fn of(admission: &'a Admission) -> Answer<'a> {
        let is_counted = admission.each().any(|limit| !limit.is_shadow);
        Answer {
            verdict: admission.verdict(),
            speaks: is_counted.then(|| admission.decision()),
            reason: reason_name(admission.reason()),
            by: admission.by().name(),
            stopped_by: admission.stopped_by(),
            rules: admission.each().map(|limit| RuleAnswer::of(&limit)).collect(),
        }
    }

    /// Every field, in order.
    pub fn fields(&self) -> [Field<'_>; 10] {
        let number = |of: fn(&Decision) -> u64| self.speaks.as_ref().map(of).into();
        [
            ("verdict", Value::Text(verdict_name(self.verdict))),
            ("limit", number(|decision| decision.limit.into())),
            ("remaining", number(|decision| decision.remaining.into())),
            ("reset_after_us", number(|decision| decision.reset_after.get())),
            ("retry_after_us", retry_after_us(self.verdict)),
            ("delay_us", delay_us(self.verdict)),
            ("reason", Value::Text(self.reason)),
            ("by", Value::Text(self.by)),
            ("stopped_by", self.stopped_by.map_or(Value::Null, Value::Text)),
            ("rules", Value::Rules(&self.rules)),
        ]
    }
}

impl<'a> RuleAnswer<'a> {
    fn of(limit: &tidegate_gate::Answer<'a>) -> RuleAnswer<'a> {
        RuleAnswer {
            name: named(limit),
            decision: limit.decision,
            cost: limit.cost,
            window_us: limit.window.get(),
            credits: limit.credits,
            unit: unit_name(limit.unit),
            is_shadow: limit.is_shadow,
        }
    }

    /// Every field, in order.
    pub fn fields(&self) -> [Field<'_>; 12] {
        let Decision { verdict, limit, remaining, reset_after } = self.decision;
        [
            ("name", Value::Text(&self.name)),
            ("verdict", Value::Text(verdict_name(verdict))),
            ("limit", Value::Number(limit.into())),
            ("remaining", Value::Number(remaining.into())),
            ("reset_after_us", Value::Number(reset_after.get())),
            ("retry_after_us", retry_after_us(verdict)),
            ("delay_us", delay_us(verdict)),
            ("cost", Value::Number(self.cost.into())),
            ("window_us", Value::Number(self.window_us)),
            ("credits", self.credits.map(u64::from).into()),
            ("unit", Value::Text(self.unit)),
            ("shadow", Value::Bool(self.is_shadow)),
        ]
    }
}

impl Serialize for Answer<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

impl Serialize for RuleAnswer<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

impl From<Option<u64>> for Value<'_> {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Value::Null, Value::Number)
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
fn named<'a>(limit: &tidegate_gate::Answer<'a>) -> Cow<'a, str> {
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
    use std::sync::Arc;

    use tidegate_gate::{Gate, Sample};
    use tidegate_store::ManualClock;

    use super::*;

    fn gate(policy: &str) -> Gate {
        Gate::builder().text(policy).clock(Arc::new(ManualClock::new())).open().expect("a policy")
    }

    #[track_caller]
    fn check(gate: &Gate, request: &str, expected: &str) {
        let admission = gate.decide(&Sample::new(request));
        let told = serde_json::to_string(&Answer::of(&admission)).expect("plain values");
        assert_eq!(told, expected);
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
        let told = serde_json::to_value(Answer::of(&admission)).expect("plain values");
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
        let told = serde_json::to_value(Answer::of(&admission)).expect("plain values");
        assert_eq!((&told["reason"], &told["stopped_by"]), (&"blocked".into(), &"bad".into()));
    }
}
