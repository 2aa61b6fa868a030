//! Small files that are made to keep the reader busy: each would take minutes, or all memory, if
//! the work grew with the square of the file.

use crate::rules::Rules;

/// Reads a policy that is refused, and looks for a message that says why.
#[track_caller]
fn check(policy: &str, message: &str) {
    let report = Rules::from_text(policy).expect_err("it is refused").to_string();
    assert!(report.contains(message), "{report:.400}");
}

fn numbered(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn keys_that_no_path_names_are_counted() {
    let paths = numbered(30_000, |at| format!("'/{{p{at}}}'"));
    let keys = numbered(30_000, |at| format!("'{{q{at}}}'"));
    check(
        &format!("rules: [{{ name: a, match: {{ path: [{paths}] }}, key: [{keys}], limit: 1/s }}]"),
        "error: 30000 attributes are too many to count together\n",
    );
    let rules = numbered(10_000, |at| {
        format!("{{ name: r{at}, match: {{ path: '/{{p}}' }}, key: '{{q{at}}}', limit: 1/s }}")
    });
    check(&format!("rules: [{rules}]"), "\n10000 errors (9900 not shown)");
}

#[test]
fn a_key_of_very_many_attributes_is_refused() {
    let parts = numbered(60_000, |at| format!("header:h{at}"));
    let message = "error: 60000 attributes are too many to count together\n";
    let quotas = numbered(30_000, |at| format!("k{at}: 1/s"));
    check(
        &format!("rules: [{{ name: a, key: [{parts}], limit: 1/s, overrides: {{ {quotas} }} }}]"),
        message,
    );
    check(
        &format!("identify: {{ client: [[{parts}]] }}\nrules: [{{ name: a, limit: 1/s }}]"),
        message,
    );
}

#[test]
fn tiers_that_there_are_not_are_counted() {
    let names = numbered(999, |at| format!("tier-of-customers-{at}"));
    let wanted = numbered(40_000, |at| format!("tier-of-customerz-{at}"));
    check(
        &format!(
            "tiers: {{ header: x, default: a, names: [{names}] }}\n\
             rules: [{{ name: a, match: {{ tier: [{wanted}] }}, limit: 1/s }}]"
        ),
        "\n40001 errors (39901 not shown)",
    );
}

#[test]
fn attributes_that_there_are_not_are_counted() {
    let names = numbered(250, |at| format!("customer-number-{at}: ip"));
    let rules =
        numbered(30_000, |at| format!("{{ name: r{at}, key: customer-numbre-x{at}, limit: 1/s }}"));
    check(
        &format!("identify: {{ {names} }}\nrules: [{rules}]"),
        "\n30001 errors (29901 not shown)",
    );
}

#[test]
fn time_zones_that_there_are_not_are_counted() {
    let rules = numbered(20_000, |at| {
        format!(
            "{{ name: r{at}, algorithm: fixed-window, limit: 1/day, time_zone: Europe/Berln{at} }}"
        )
    });
    check(&format!("rules: [{rules}]"), "\n20000 errors (19900 not shown)");
}

#[test]
fn limits_and_bursts_of_very_many_tiers_are_refused() {
    let limits = numbered(40_000, |at| format!("t{at}: 1/s"));
    let bursts = numbered(40_000, |at| format!("t{at}: 1"));
    check(
        &format!(
            "tiers: {{ header: x-tier, default: t0 }}\n\
             rules: [{{ name: a, limit: {{ {limits} }}, burst: {{ {bursts} }} }}]"
        ),
        "error: there are more than 1000 tiers\n",
    );
}
