//! Gates with states in Redis, on real servers, decide as gates with states in memory do.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Span, Verdict};
use tidegate_gate::{Admission, By, Field, Gate, Sample};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_sim::rng::Rng;
use tidegate_store::ManualClock;
use tidegate_testbed::{Reply, Server};

use crate::on_redis::{looks, node, passed};
use crate::stand::{Answered, START, at, by, clock_at, counts, gate_at, left, replace, rules};

struct Stand {
    server: Server,
    gate: Gate,
    clock: Arc<ManualClock>,
}

/// A gate on a server of its own, whose time stands still until a test moves it.
async fn still(policy: &str) -> Stand {
    still_at(START, policy).await
}

async fn still_at(seconds: u64, policy: &str) -> Stand {
    let server = Server::start().unwrap();
    let clock = clock_at(seconds);
    let gate = node(&server, &clock, policy).await;
    Stand { server, gate, clock }
}

fn said(admission: &Admission) -> (Verdict, Vec<Decision>) {
    (admission.verdict(), admission.each().map(|answer| answer.decision).collect())
}

fn fields(admission: &Admission) -> Vec<(Field, String)> {
    let mut fields = Vec::new();
    admission.fields(|field, value| fields.push((field, value.to_owned())));
    fields
}

fn costs(admission: &Admission) -> Vec<u32> {
    admission.each().map(|answer| answer.cost).collect()
}

fn calls(server: &Server) -> u64 {
    let stats = server.must(&["INFO", "commandstats"]).unwrap();
    let calls = |command: &str| -> u64 {
        let Some(line) = stats.field(&format!("cmdstat_{command}")) else { return 0 };
        line.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap().parse().unwrap()
    };
    calls("evalsha") + calls("eval")
}

fn request() -> Sample {
    Sample::new("GET /")
}

const MIXED: &str = "
identify: { client: [header:x-api-key, ip] }
tiers: { header: x-tier, default: free }
costs: [{ path: /big, cost: 4 }]
rules:
  - { name: bucket, key: client, limit: { free: 20/10s, pro: 60/10s }, burst: 8 }
  - { name: window, key: [client, path], limit: 15/10s, algorithm: fixed-window, cost: 2 }
  - { name: log, limit: 40/10s, algorithm: sliding-log, match: { path: /big } }
  - { name: sliding, key: ip, if_missing: skip, limit: 30/10s, algorithm: sliding-window }
  - { name: saved, key: client, limit: 10/10s, burst: 3, credits: { for: 20s, rate: 3x } }
  - { name: tried, key: client, limit: 5/10s, burst: 1, shadow: true,
      credits: { for: 20s, rate: 2x } }
  - { name: some, key: client, limit: 6/10s, enforce: 50%, algorithm: gcra }
";

/// For the same requests at the same ticks, the verdicts and the numbers are the same.
#[tokio::test]
async fn a_gate_by_redis_says_what_a_gate_in_memory_says() {
    let mut refusals = 0;
    for seed in 0..4 {
        let stand = still(MIXED).await;
        let (here, here_clock) = gate_at(START, MIXED);
        let mut rng = Rng::new(seed);
        for step in 0..250 {
            if rng.one_in(2) {
                let span = Span::from_micros(1 + rng.below(1_500_000));
                stand.clock.advance(span);
                here_clock.advance(span);
            }
            let path = ["/big", "/a", "/b"][usize::try_from(rng.below(3)).unwrap()];
            let mut request = Sample::new(&format!("GET {path}"));
            let id = rng.below(3);
            request = if rng.one_in(2) {
                request.with_header("x-api-key", format!("key-{id}"))
            } else {
                request.from_peer(format!("192.0.2.{id}").parse().unwrap())
            };
            if rng.one_in(3) {
                request = request.with_header("x-tier", "pro");
            }
            let there = stand.gate.admit(&request).await;
            let here = here.decide(&request);
            assert_eq!(said(&there), said(&here), "seed {seed}, step {step}: {request:?}");
            refusals += usize::from(!here.verdict().passes());
        }
        assert_eq!(stand.gate.counts(), here.counts(), "seed {seed}");
    }
    assert!(100 < refusals, "{refusals}");
}

#[tokio::test]
async fn nodes_share_all_and_pass_all_or_nothing_whatever_the_tenant() {
    let policy = "
identify: { client: [header:x-api-key, ip] }
rules:
  - { name: everybody, limit: 5/day }
  - { name: client, key: client, limit: 3/day }
  - { name: path, key: [path, client], limit: 9/day, cost: 2 }
";
    let Stand { server, gate, clock } = still(policy).await;
    let other = node(&server, &clock, policy).await;
    assert_eq!(left(&gate.admit(&by("ada")).await), [4, 2, 7]);
    assert_eq!(left(&other.admit(&by("ada")).await), [3, 1, 5]);
    assert_eq!(passed(&gate, &by("ada"), 5).await, 1);
    let refused = other.admit(&by("ada")).await;
    let violated: Vec<&str> = refused.violated().map(|answer| answer.rule).collect();
    assert_eq!(violated, ["client"]);
    assert_eq!(looks(&gate, &by("bob")).await, [2, 3, 9], "a refusal is free");
    // An address is nobody's API key.
    assert_eq!(passed(&gate, &by("192.0.2.1"), 1).await, 1);
    assert_eq!(looks(&gate, &at("192.0.2.1")).await, [1, 3, 9]);
}

#[tokio::test]
async fn shadow_takes_one_more_round_trip_and_many_of_them_are_judged() {
    let shadow = |id: u32| format!("{{ name: s{id}, limit: {}/day, shadow: true }}", 10 + id);
    let shadow: Vec<String> = (0..20).map(shadow).collect();
    let policy = format!("rules: [{{ name: real, limit: 3/day }}, {}]", shadow.join(", "));
    let Stand { server, gate, .. } = still(&policy).await;
    drop(gate.admit(&request()).await);
    let before = calls(&server);
    let second = gate.admit(&request()).await;
    assert!(calls(&server) - before <= 3, "{} calls", calls(&server) - before);
    let expected: Vec<u32> = std::iter::once(1).chain((0..20).map(|id| 8 + id)).collect();
    assert_eq!(left(&second), expected);
    assert_eq!(passed(&gate, &request(), 3).await, 1);
    // Refused: nothing is charged in shadow, and nothing there would have refused.
    let refused = gate.admit(&request()).await;
    let tried = refused.each().filter(|answer| answer.is_shadow);
    assert_eq!(tried.filter(|answer| answer.decision.verdict.passes()).count(), 20);
    assert_eq!(counts(&gate, "s0"), (6, 0, 0));
}

#[tokio::test]
async fn all_limits_are_settled_at_once() {
    let rule = |id: u32| format!("{{ name: r{id}, limit: {}/day }}", 100 + id);
    let policy: Vec<String> = (0..12).map(rule).collect();
    let Stand { gate, server, .. } = still(&format!("rules: [{}]", policy.join(", "))).await;
    let left_of = |most: u32| (0..12).map(|id| most + id).collect::<Vec<u32>>();
    let mut admission = gate.admit(&request()).await;
    let before = calls(&server);
    admission.charge_more(10).await;
    // What is asked at the same time travels together.
    assert!(calls(&server) - before < 12, "{} calls", calls(&server) - before);
    assert_eq!(left(&gate.peek(&request()).await), left_of(89));
    drop(admission.refund());
    let is_back = async || left(&gate.peek(&request()).await) == left_of(100);
    becomes("all is given back though nobody waits", is_back).await;
}

#[tokio::test]
async fn settlements_that_overlap_end_with_what_was_said_last() {
    let policy = "rules: [{ name: a, limit: 100/day }, { name: b, limit: 20/day }]";
    let Stand { gate, server: _server, .. } = still(policy).await;
    let mut admission = gate.admit(&request()).await;
    // The first goes on by itself, and may be done before the second or after it.
    for (first, last) in [(30, 5), (5, 12), (1_000, 3), (0, 7), (7, 0)] {
        let early = admission.set_cost(first);
        let late = admission.set_cost(last);
        tokio::join!(late, early);
        drop(admission.set_cost(first));
        admission.set_cost(last).await;
        let is_so = async || left(&gate.peek(&request()).await) == [100 - last, 20 - last];
        becomes("the last counts", is_so).await;
        assert_eq!(costs(&admission), [last, last]);
    }
}

const SETTLED: &str = "
costs: [{ path: /big, cost: 4 }]
rules:
  - { name: bucket, limit: 20/10s, burst: 8 }
  - { name: window, limit: 90/10s, algorithm: fixed-window }
  - { name: log, limit: 40/10s, algorithm: sliding-log }
  - { name: sliding, limit: 30/10s, algorithm: sliding-window }
  - { name: cell-rate, limit: 25/10s, algorithm: gcra }
  - { name: saved, limit: 20/10s, burst: 3, credits: { for: 20s, rate: 3x } }
  - { name: failed, limit: 15/10s, counts_when: { status: 401 } }
  - { name: tried, limit: 12/10s, shadow: true }
";

/// After the same settlements at the same ticks, the same is left, and the same is reported.
#[tokio::test]
async fn what_is_settled_in_redis_is_told_as_in_memory() {
    let mut settled = 0;
    for seed in 0..6 {
        let stand = still(SETTLED).await;
        let (here, here_clock) = gate_at(START, SETTLED);
        let mut rng = Rng::new(seed);
        for step in 0..60 {
            let path = ["/big", "/"][usize::try_from(rng.below(2)).unwrap()];
            let request = Sample::new(&format!("GET {path}"));
            let (mut there, mut here) = (stand.gate.admit(&request).await, here.decide(&request));
            for _ in 0..rng.below(4) {
                let span = Span::from_micros(rng.below(1_500_000));
                stand.clock.advance(span);
                here_clock.advance(span);
                let cells = u32::try_from(rng.below(12)).unwrap();
                let response = Answered([200, 401][usize::try_from(cells % 2).unwrap()], "", "");
                let (far, near) = match rng.below(5) {
                    0 => (there.set_cost(cells), here.set_cost(cells)),
                    1 => (there.charge_more(cells), here.charge_more(cells)),
                    2 => (there.refund(), here.refund()),
                    3 => (there.settle(&response), here.settle(&response)),
                    _ => (there.set_cost(1_000), here.set_cost(1_000)),
                };
                drop(near);
                far.await;
                assert_eq!(said(&there), said(&here), "seed {seed}, step {step}");
                assert_eq!(costs(&there), costs(&here), "seed {seed}, step {step}");
                assert_eq!(fields(&there), fields(&here), "seed {seed}, step {step}");
                settled += 1;
            }
        }
    }
    assert!(200 < settled, "{settled}");
}

/// Waits until something is so; by other tasks, not by time.
async fn becomes(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("in vain: {what}");
}

/// A slot is counted from when Redis was asked, which may be long after the request came.
#[tokio::test]
async fn what_is_held_back_starts_no_sooner_than_its_slot() {
    let policy = "rules: [{ name: q, limit: 1/s, burst: 9, algorithm: leaky-queue }]";
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let gate = crate::on_redis::node(&server, &clock, policy).await;
    let request = Sample::new("GET /");
    assert_eq!(gate.admit(&request).await.delay(), None);
    let asking = gate.admit(&request);
    clock.advance(Span::from_millis(400));
    let delayed = asking.await;
    assert_eq!(delayed.delay(), Some(Span::from_millis(600)));
    let mut start = Box::pin(delayed.start());
    let mut is_started = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        start.as_mut().poll(&mut context).is_ready()
    };
    clock.advance(Span::from_millis(599));
    assert!(!is_started());
    clock.advance(Span::from_millis(1));
    assert!(is_started());
}

/// See `who_says_how_long_they_wait_takes_no_place_in_vain`, in this process.
#[tokio::test]
async fn whoever_cannot_wait_takes_no_place_in_redis() {
    let policy = "rules: [{ name: q, limit: 1 per 60s, burst: 100, algorithm: leaky-queue }]";
    let Stand { gate, server: _server, .. } = still(policy).await;
    let request = Sample::new("GET /");
    let _held = (gate.admit(&request).await, gate.admit(&request).await);
    let hurried = request.clone().with_patience(Span::from_secs(1));
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..100 {
        asked.spawn(gate.admit(&hurried));
    }
    for refused in asked.join_all().await {
        assert!(matches!(refused.verdict(), Verdict::Deny { .. }), "{:?}", refused.verdict());
    }
    assert_eq!(left(&gate.peek(&request).await), [98]);
}

#[tokio::test]
async fn days_of_a_time_zone() {
    // Midnight of 30 March 2024 in Berlin; the day after has 23 hours.
    let policy = "rules: [{ name: daily, limit: 3/day, algorithm: fixed-window, \
                  time_zone: Europe/Berlin }]";
    let Stand { server, gate, clock } = still_at(1_711_753_200, policy).await;
    for hours in [24, 23, 24] {
        let other = node(&server, &clock, policy).await;
        let first = gate.admit(&request()).await;
        assert_eq!((left(&first)[0], first.decision().reset_after.get()), (2, hours * HOUR));
        assert_eq!(left(&other.admit(&request()).await), [1]);
        clock.advance(Span::from_micros(hours * HOUR - 1));
        assert_eq!(passed(&gate, &request(), 4).await, 1);
        clock.advance(Span::from_micros(1));
    }
}

const HOUR: u64 = 3_600_000_000;

#[tokio::test]
async fn without_redis_each_rule_says_what_to_do() {
    let telling = |header: &str, without: &str| {
        let rule = format!("{{ name: r, limit: 10/day, on_store_error: {without} }}");
        format!("{{ nodes: 2, {header} rules: [{rule}] }}")
    };
    let policy = |without: &str| telling("fallback_header: full,", without);
    let server = Server::start().unwrap();
    let clock = clock_at(START);
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(Duration::from_millis(20)).connect().await.unwrap();
    let fleet = Fleet::new(store);
    let builder = Gate::builder().rules(rules(&policy("open"))).store(fleet);
    let gate = builder.clock(clock).open().unwrap();
    let told = |admission: &Admission| {
        let mut told = None;
        admission.fields(|field, value| {
            if field == Field::Fallback {
                told = Some(value.to_owned());
            }
        });
        told
    };
    server.pause();
    let open = gate.admit(&request()).await;
    assert_eq!((open.verdict().passes(), open.by()), (true, By::Open));
    assert_eq!(told(&open).as_deref(), Some("open"));
    // What it tells the world is a setting, and nothing unless that is said.
    for (header, expected) in [
        ("", None),
        ("headers: none,", None),
        ("fallback_header: none,", None),
        ("fallback_header: plain,", Some("yes")),
        ("headers: none, fallback_header: full,", Some("open")),
    ] {
        replace(&gate, &telling(header, "open"));
        let open = gate.admit(&request()).await;
        assert_eq!((open.by(), told(&open).as_deref()), (By::Open, expected), "{header}");
    }
    replace(&gate, &policy("open"));
    assert_eq!(passed(&gate, &request(), 20).await, 20);
    // A reload may say something else.
    replace(&gate, &policy("closed"));
    let closed = gate.admit(&request()).await;
    assert_eq!((closed.verdict().passes(), closed.by()), (false, By::Closed));
    assert_eq!(told(&closed).as_deref(), Some("closed"));
    replace(&gate, &policy("local"));
    assert_eq!(gate.admit(&request()).await.by(), By::Local);
    assert_eq!(passed(&gate, &request(), 20).await, 4, "half of ten");
    assert_eq!(told(&gate.admit(&request()).await).as_deref(), Some("local"));
    server.resume();
}

#[tokio::test]
async fn a_reload_keeps_what_was_consumed() {
    let policy = |rest: &str| format!("rules: [{{ name: r, {rest} }}]");
    let Stand { server, gate, clock } = still(&policy("limit: 10/day")).await;
    assert_eq!(passed(&gate, &request(), 6).await, 6);
    for (rest, room) in [
        ("limit: 20/day", 14),
        ("limit: 20/day, on_store_error: closed", 14),
        ("limit: 30/day, on_store_error: open", 24),
        ("limit: 30/day, algorithm: sliding-log", 24),
        ("limit: 4/day, algorithm: sliding-log", 0),
    ] {
        replace(&gate, &policy(rest));
        assert_eq!(looks(&gate, &request()).await, [room], "{rest}");
    }
    // Another node that starts by now counts with it.
    let rest = policy("limit: 50/day, algorithm: sliding-log");
    replace(&gate, &rest);
    assert!(gate.admit(&request()).await.verdict().passes());
    let other = node(&server, &clock, &rest).await;
    assert_eq!(looks(&gate, &request()).await, looks(&other, &request()).await);
}

#[tokio::test]
async fn no_secret_is_written_to_redis() {
    let secrets = ["sk-live-0123456789", "c00kie-secret", "query-secret"];
    let policy = format!(
        "identify: {{ client: [header:x-api-key, cookie:session, 'query:token', ip] }}
rules:
  - {{ name: one, key: client, limit: 5/day, overrides: {{ {}: 50/day }} }}
  - {{ name: two, key: [path, client], limit: 5/day, algorithm: sliding-log }}
  - {{ name: three, key: [client, path], limit: 2 in flight, algorithm: concurrency }}
  - {{ name: four, key: fingerprint, limit: 9/day }}",
        secrets[0]
    );
    let Stand { server, gate, .. } = still(&policy).await;
    let requests = [
        by(secrets[0]),
        request().with_header("cookie", format!("session={}", secrets[1])),
        Sample::new(&format!("GET /?token={}", secrets[2])),
        at("192.0.2.1").with_header("user-agent", "an agent"),
    ];
    let mut held = Vec::new();
    for request in &requests {
        held.push(gate.admit(request).await);
    }
    let keys = server.must(&["KEYS", "*"]).unwrap();
    let names: Vec<String> = keys.items().iter().map(Reply::text).collect();
    assert!(10 <= names.len(), "{names:?}");
    assert!(names.iter().any(|name| name.contains("192.0.2.1")), "{names:?}");
    for name in &names {
        let dump = server.must(&["DUMP", name]).unwrap().text();
        for secret in secrets {
            assert!(!name.contains(secret) && !dump.contains(secret), "{name}");
        }
    }
    drop(held);
}
