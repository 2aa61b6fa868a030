//! A reload is one step: a request is judged by one policy from end to end.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tidegate_gate::{Gate, Rules, Sample};
use tidegate_redis::Fleet;
use tidegate_testbed::Server;

use crate::on_redis::store;
use crate::stand::{clock, rules};

/// How often the policy is replaced.
const RELOADS: usize = 20;

/// How many requests are under way at a time.
const THREADS: usize = 2;

/// Two policies of so many rules. Both forbid the same key, each by another rule: by the first in
/// the one, by the last in the other.
fn policies(count: usize) -> [Arc<Rules>; 2] {
    let other = |at| format!("{{ name: r{at}, limit: 5/day, match: {{ path: /other/{at} }} }}");
    let others: Vec<String> = (1..count - 1).map(other).collect();
    [("1/day", "1000000/day"), ("1000000/day", "1/day")].map(|(first, last)| {
        let hot = |name: &str, limit: &str| {
            format!("{{ name: {name}, limit: {limit}, match: {{ path: /hot }} }}")
        };
        let (first, last) = (hot("first", first), hot("last", last));
        Arc::new(rules(&format!("rules: [{first}, {}, {last}]", others.join(", "))))
    })
}

fn request() -> Sample {
    Sample::new("GET /hot")
}

/// How many requests pass while the policy is replaced, of a key that both policies forbid.
fn passed_meanwhile(
    gate: &Gate,
    policies: &[Arc<Rules>; 2],
    ask: impl Fn() -> bool + Sync,
) -> (usize, usize) {
    assert!(ask(), "the only cell of both");
    let (is_over, asked, passed) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    passed.fetch_add(usize::from(ask()), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for at in 0..RELOADS {
            let before = asked.load(Ordering::Relaxed);
            gate.replace(Arc::clone(&policies[(at + 1) % 2])).unwrap();
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
        // Time stands still: nothing comes back.
        let builder = Gate::builder().rules(Arc::clone(&policies[0])).clock(clock());
        let gate = builder.open().unwrap();
        let ask = || gate.decide(&request()).verdict().passes();
        let (passed, asked) = passed_meanwhile(&gate, &policies, ask);
        assert_eq!(passed, 0, "of {asked}, with {count} rules");
    }
}

/// A request that was sent by the quotas from before a step may come to Redis after one that was
/// sent since, and find the state of its key gone: then it counts apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis_only_what_is_under_way_may_pass() {
    for count in [3, 3_000] {
        let policies = policies(count);
        let server = Server::start().unwrap();
        let clock = clock();
        let fleet = Fleet::new(store(&server, &clock).await);
        let builder = Gate::builder().rules(Arc::clone(&policies[0])).store(fleet).beat_every(None);
        let gate = builder.clock(clock).open().unwrap();
        let runtime = tokio::runtime::Handle::current();
        let judged = tokio::task::spawn_blocking(move || {
            let ask = || runtime.block_on(gate.admit(&request())).verdict().passes();
            passed_meanwhile(&gate, &policies, ask)
        });
        let (passed, asked) = judged.await.unwrap();
        let under_way = THREADS * RELOADS;
        assert!(passed <= under_way, "{passed} of {asked}, with {count} rules");
    }
}
