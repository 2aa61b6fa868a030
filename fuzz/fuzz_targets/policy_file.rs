//! Any bytes as a policy file: they are refused with a report, or give rules that can plan.
//!
//! What starts with `{` is JSON, what starts with `[` or has ` = ` in its first line is TOML, and
//! everything else is YAML; `crates/config` runs the seeds of the corpus in the same way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_config::{Format, Rules, Sample};
use tidegate_core::Tick;

fuzz_target!(|text: &[u8]| {
    match Rules::from_bytes("policy", text, format_of(text)) {
        Ok(loaded) => {
            assert!(loaded.report.errors() == 0, "rules in spite of errors");
            drop(loaded.report.to_string());
            requests().iter().for_each(|request| plan(&loaded.rules, request));
        }
        Err(report) => assert!(0 < report.errors(), "no rules, and no word why: {report}"),
    }
});

fn plan(rules: &Rules, request: &Sample) {
    let now = Tick::from_micros(1_900_000_000_000_000);
    let facts = rules.facts(request, now);
    let planned = rules.plan(&facts);
    for charge in &planned.charges {
        for timed in charge.rule.variants()[charge.variant].policies() {
            drop(format!("{:?} {:?}", timed.policy(now), timed.changes_at(now)));
        }
    }
    let told = rules.explain(&facts);
    let counting = told.iter().filter(|it| matches!(it.does, tidegate_config::Does::Counts(_)));
    assert_eq!(counting.count(), planned.charges.len(), "the explanation is another plan");
    told.iter().for_each(|explained| drop(explained.to_string()));
    drop(rules.identities(&facts));
}

fn format_of(text: &[u8]) -> Format {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match text.first() {
        Some(b'{') => Format::Json,
        Some(b'[') => Format::Toml,
        _ if first.windows(3).any(|it| it == b" = ") => Format::Toml,
        _ => Format::Yaml,
    }
}

fn requests() -> [Sample; 3] {
    let from = |sample: Sample, address: [u8; 4]| sample.from_peer(address.into());
    [
        from(Sample::new("GET /"), [192, 0, 2, 1]),
        from(Sample::new("post /users/7/avatar.png?id=a%20b&id=2"), [10, 0, 0, 1])
            .with_header("host", "API.example.com:443")
            .with_header("x-forwarded-for", "203.0.113.9, 10.0.0.2")
            .with_header("x-api-key", b"\xff\xfe")
            .with_header("x-tier", "pro")
            .with_header("cookie", "session=ada; b=c")
            .with_attribute("user", "ada"),
        Sample::new("DELETE //a/%2e%2e/b").with_header("authorization", "Bearer a.b.c"),
    ]
}
