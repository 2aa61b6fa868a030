//! A reload is one step: a request is judged by one policy from end to end.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tidegate_gate::{Gate, Rules, Sample};

use crate::on_redis;
use crate::stand::rules;

/// How often the policy is replaced.
const RELOADS: usize = 20;

/// Two policies of so many rules. Both forbid the same key, each by another rule: by the first in
/// the one, by the last in the other.
fn policies(count: usize) -> [Rules; 2] {
    let other = |at| format!("{{ name: r{at}, limit: 5/day, match: {{ path: /other/{at} }} }}");
    let others: Vec<String> = (1..count - 1).map(other).collect();
    [("1/day", "1000000/day"), ("1000000/day", "1/day")].map(|(first, last)| {
        let hot = |name: &str, limit: &str| {
            format!("{{ name: {name}, limit: {limit}, match: {{ path: /hot }} }}")
        };
        let (first, last) = (hot("first", first), hot("last", last));
        rules(&format!("rules: [{first}, {}, {last}]", others.join(", ")))
    })
}

fn request() -> Sample {
    Sample::new("GET /hot")
}

/// How many requests pass while the policy is replaced, of a key that both policies forbid.
fn passed_meanwhile(gate: &Gate, [one, other]: [Rules; 2]) -> (usize, usize) {
    assert!(gate.decide(&request()).verdict().passes(), "the only cell of both");
    let (is_over, asked, passed) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let policies = [std::sync::Arc::new(one), std::sync::Arc::new(other)];
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let passes = gate.decide(&request()).verdict().passes();
                    passed.fetch_add(usize::from(passes), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for at in 0..RELOADS {
            let before = asked.load(Ordering::Relaxed);
            gate.replace(std::sync::Arc::clone(&policies[(at + 1) % 2])).unwrap();
            // Requests come before and after each.
            while asked.load(Ordering::Relaxed) < before + 10 {
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    (passed.into_inner(), asked.into_inner())
}

#[test]
fn nothing_passes_during_a_reload_that_neither_policy_lets_pass() {
    for count in [3, 3_000] {
        let policies = policies(count);
        let gate = Gate::builder().rules(policies[0].clone()).open().unwrap();
        let (passed, asked) = passed_meanwhile(&gate, policies);
        assert_eq!(passed, 0, "of {asked}, with {count} rules");
    }
}
