//! Looking, resetting, several requests as one and plain limits, with states in Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use tidegate_core::{Decision, Policy, Quota, Span, Verdict};
use tidegate_gate::{AdhocCharge, AdhocLimit, Admission, By, Gate, Joint, Request, Sample};
use tidegate_gate::{Reason, WithoutStore};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_sim::rng::Rng;
use tidegate_testbed::{Reply, Server};

use crate::on_redis::{node, still};
use crate::stand::{START, clock_at, gate_at, left, rules, to};

fn said(admission: &Admission) -> (Verdict, Reason, Vec<Decision>) {
    let each = admission.each().map(|answer| answer.decision);
    (admission.verdict(), admission.reason(), each.collect())
}

async fn together(gate: &Gate, requests: &[Sample]) -> Joint {
    let requests: Vec<&dyn Request> = requests.iter().map(|it| it as &dyn Request).collect();
    gate.admit_jointly(&requests).await
}

async fn room(gate: &Gate, request: &Sample) -> Vec<u32> {
    left(&gate.peek(request).await)
}

const MIXED: &str = "
identify: { client: [header:x-api-key, ip] }
costs: [{ path: /big, cost: 3 }]
rules:
  - { name: bucket, key: client, limit: 20/10s, burst: 8 }
  - { name: window, key: [client, path], limit: 15/10s, algorithm: fixed-window, cost: 2 }
  - { name: log, limit: 40/10s, algorithm: sliding-log, match: { path: /big } }
  - { name: saved, key: client, limit: 10/10s, burst: 6, credits: { for: 20s, rate: 3x } }
  - { name: tried, key: client, limit: 5/10s, burst: 4, shadow: true,
      credits: { for: 20s, rate: 2x } }
  - { name: some, key: path, limit: 9/10s, shadow: true, algorithm: gcra }
  - { name: no, match: { path: /no }, block: true }
";

/// For the same requests at the same ticks, the verdicts and the numbers are the same.
#[tokio::test]
async fn redis_says_of_several_at_once_what_memory_says() {
    let (mut passed, mut refused) = (0, 0);
    for seed in 0..3 {
        let (_server, there, clock) = still(MIXED).await;
        let (here, here_clock) = gate_at(START, MIXED);
        let mut rng = Rng::new(seed);
        for step in 0..150 {
            let span = Span::from_micros(1 + rng.below(800_000));
            clock.advance(span);
            here_clock.advance(span);
            let mut any = || {
                let path =
                    if rng.one_in(20) { "/no" } else { ["/big", "/a"][usize::from(rng.one_in(2))] };
                let request =
                    to(&format!("GET {path}"), ["ada", "bob"][usize::from(rng.one_in(2))]);
                if rng.one_in(2) { request.with_cost(rng.below_u32(4)) } else { request }
            };
            let requests = [any(), any(), any()];
            let requests = &requests[..usize::try_from(1 + rng.below(3)).unwrap()];
            let (looked, look) = (there.peek(&requests[0]).await, here.peek(&requests[0]));
            assert_eq!(said(&looked), said(&look.ready().unwrap()), "seed {seed}, step {step}");
            let mut far = together(&there, requests).await;
            let mut near = together(&here, requests).await;
            let all = |it: &Joint| (it.verdict, it.each.iter().map(said).collect::<Vec<_>>());
            assert_eq!(all(&far), all(&near), "seed {seed}, step {step}: {requests:?}");
            if near.verdict.passes() {
                passed += 1;
            } else {
                refused += 1;
            }
            if rng.one_in(3) {
                for (far, near) in far.each.iter_mut().zip(&mut near.each) {
                    far.refund().await;
                    drop(near.refund());
                }
            }
        }
        assert_eq!(there.counts(), here.counts(), "seed {seed}");
    }
    assert!(60 < passed && 60 < refused, "{passed} passed, {refused} were refused");
}

#[tokio::test]
async fn a_reset_makes_fresh_for_the_whole_fleet() {
    let (server, gate, clock) = still(MIXED).await;
    let other = node(&server, &clock, MIXED).await;
    let request = to("GET /a", "ada");
    let fresh = room(&gate, &request).await;
    assert!(gate.admit(&request).await.verdict().passes());
    assert_eq!(gate.reset(&request, Some("window")).await.unwrap(), ["window"]);
    assert_eq!(room(&other, &request).await, [7, 15, 25, 5, 13, 3, 8]);
    let mut names = gate.reset(&request, None).await.unwrap();
    names.sort();
    assert_eq!(names, ["bucket", "saved", "saved-peak", "some", "tried", "tried-peak", "window"]);
    assert_eq!(room(&other, &request).await, fresh);
}

fn per_day(cells: u32) -> Policy {
    Policy::token_bucket(Quota::per_day(cells)).unwrap()
}

async fn left_of(gate: &Gate, limit: &AdhocLimit, key: &[&[u8]]) -> u32 {
    gate.peek_adhoc(&[AdhocCharge { limit, key, cost: 0 }]).await.each[0].remaining
}

#[tokio::test]
async fn plain_limits_are_the_fleets() {
    let policy = "rules: [{ name: same, limit: 5/day }]";
    let (server, gate, clock) = still(policy).await;
    let other = node(&server, &clock, policy).await;
    let of =
        |gate: &Gate, cells: u32| gate.adhoc("same", per_day(cells), WithoutStore::Open).unwrap();
    let (one, two) = (of(&gate, 9), of(&other, 9));
    let tight = gate.adhoc("tight", per_day(1), WithoutStore::Closed).unwrap();
    let key: &[&[u8]] = &[b"ada", b"\xff/7"];
    let charges = [
        AdhocCharge { limit: &one, key, cost: 2 },
        AdhocCharge { limit: &tight, key, cost: 1 },
        AdhocCharge { limit: &one, key, cost: 4 },
    ];
    let decided = gate.decide_adhoc(&charges).await;
    assert_eq!((decided.verdict, decided.by), (Verdict::Allow, By::Store));
    let lefts: Vec<u32> = decided.each.iter().map(|it| it.remaining).collect();
    assert_eq!(lefts, [5, 0, 5]);
    assert!(!gate.decide_adhoc(&charges).await.verdict.passes());
    assert_eq!(left_of(&other, &two, key).await, 5, "all or nothing, on every node");
    assert_eq!(left(&gate.peek(&Sample::new("GET /")).await), [5], "no rule of the policy");
    assert_eq!(left_of(&gate, &of(&gate, 19), key).await, 15, "what was consumed is kept");
    assert_eq!(gate.reset_adhoc(&one, key).await.unwrap(), ["same"]);
    assert_eq!(left_of(&gate, &one, key).await, 19);
    assert!(gate.decide_adhoc_batch(&charges, |_| ()).is_none());
}

#[tokio::test]
async fn different_parts_have_different_names_in_redis() {
    let (server, gate, _clock) = still("rules: [{ name: r, limit: 5/day }]").await;
    let limit = gate.adhoc("p", per_day(5), WithoutStore::Open).unwrap();
    let keys: [&[&[u8]]; 13] = [
        &[],
        &[b""],
        &[b"", b""],
        &[b"ab"],
        &[b"ab", b""],
        &[b"", b"ab"],
        &[b"a", b"b"],
        &[b"a", b"b", b""],
        &[b"a/b"],
        &[b"(a/b)"],
        &[b"\xff\xfe"],
        &[b"\xff\xff"],
        &[b"sha1", b"85e53271e14006f0265921d02d4d736cdc580b0b"],
    ];
    for key in keys {
        let decided = gate.decide_adhoc(&[AdhocCharge { limit: &limit, key, cost: 1 }]).await;
        assert_eq!(decided.each[0].remaining, 4, "{key:?}");
    }
    let names = server.must(&["KEYS", "*"]).unwrap();
    assert_eq!(names.items().len(), keys.len(), "{:?}", names.items().iter().map(Reply::text));
}

#[tokio::test]
async fn without_redis_a_plain_limit_does_what_was_said() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(Duration::from_millis(20)).connect().await.unwrap();
    let builder = Gate::builder().rules(rules("rules: [{ name: r, limit: 5/day }]"));
    let gate = builder.store(Fleet::new(store)).clock(clock).open().unwrap();
    let plain = |name: &str, without| gate.adhoc(name, per_day(4), without).unwrap();
    let (open, closed) = (plain("o", WithoutStore::Open), plain("c", WithoutStore::Closed));
    let local = plain("l", WithoutStore::Local { nodes: 2 });
    server.pause();
    for (limit, by, passes) in
        [(&open, By::Open, true), (&closed, By::Closed, false), (&local, By::Local, true)]
    {
        let decided = gate.decide_adhoc(&[AdhocCharge { limit, key: &[b"k"], cost: 1 }]).await;
        assert_eq!((decided.by, decided.verdict.passes()), (by, passes));
    }
    let whole = together(&gate, &[Sample::new("GET /"), Sample::new("GET /")]).await;
    assert!(whole.each.iter().all(|it| it.by().is_fallback()), "{whole:?}");
    assert!(gate.reset(&Sample::new("GET /"), None).await.is_err());
    server.resume();
}
