//! How long Redis keeps a state: until it can no longer be told from a fresh one, and a slack.

use smallvec::smallvec;
use tidegate_core::{Kind, Policy, Quota, Receipt, Shape, Span, Tick};
use tidegate_sim::rng::Rng;
use tidegate_testbed::Flavor;

use super::bench_server::{Bench, SLACK_MILLIS};
use crate::call::{Limit, Outcome, Request, Run};
use crate::plan::Does;
use crate::rule::FleetRule;
use crate::value;
use tidegate_store::TextKey as FleetKey;

const START: Tick = Tick::from_micros(1_700_000_000_000_000);
const POLICIES: u32 = 40;
const STEPS: u32 = 12;
/// As long as scripts keep anything: 142 years.
const AGES_MILLIS: u64 = 4_503_599_627_370;
/// As long as the last window of a calendar that nobody continues.
const TWO_YEARS_MILLIS: u64 = 63_244_800_000;

#[test]
fn a_state_is_kept_while_it_can_be_told_from_a_fresh_one_and_no_longer() {
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        for (seed, kind) in (1..).zip(Kind::ALL) {
            let mut rng = Rng::new(seed);
            for number in 0..POLICIES {
                let quota = if rng.one_in(2) { rng.any_quota() } else { rng.small_quota() };
                let burst = if kind.has_burst() { quota } else { plain(quota) };
                let rule = FleetRule::new("r", Policy::new(kind, burst).unwrap());
                walk(&mut bench, &mut rng, &rule, &format!("{kind} {number}"));
            }
        }
        let mut rng = Rng::new(99);
        for number in 0..POLICIES {
            let start = Tick::from_micros(START.get() - rng.below(1 << 32));
            let middle = START.after(Span::from_micros(1 + rng.below(1 << 32)));
            let end = middle.after(Span::from_micros(1 + rng.below(1 << 32)));
            let policy = Policy::calendar(1 + rng.below_u32(30), [start, middle, end]).unwrap();
            walk(&mut bench, &mut rng, &FleetRule::new("r", policy), &format!("calendar {number}"));
        }
    }
}

fn plain(quota: Quota) -> Quota {
    Quota::new(quota.cells(), quota.per())
}

fn request(rule: &FleetRule, key: &str, does: Does, cost: u32) -> Request {
    let place = rule.place("t:", &FleetKey::new(key).unwrap());
    let limits = smallvec![Limit { rule: rule.clone(), place, cost, formers: 0 }];
    Request { does, slot: 0, limits }
}

/// Some steps of one key, alone or beside another key, which is judged by another script.
fn walk(bench: &mut Bench, rng: &mut Rng, rule: &FleetRule, key: &str) {
    let mut now = START;
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..STEPS {
        let bits = 20 + rng.below_u32(15);
        now = now.after(Span::from_micros(rng.of_bits(bits)));
        let cost = 1 + rng.below_u32(rule.policy().limit().min(8));
        let (does, cost) = match (rng.below(6), receipts.pop()) {
            (0, _) if rule.policy().kind().has_debits() => (Does::Debit, cost),
            // Overdrawn, as a rule.
            (1, _) if rule.policy().kind().has_debits() => (Does::Debit, rule.policy().limit()),
            (2, Some(receipt)) => (Does::refund(&receipt), receipt.cost()),
            _ => (Does::Decide, cost),
        };
        let ours = request(rule, key, does, cost);
        let other = request(rule, "other", Does::Decide, cost.saturating_add(1));
        let mut runs = vec![Run { request: &ours, count: 1 }];
        if rng.one_in(2) {
            runs.push(Run { request: &other, count: 1 });
        }
        let name = &ours.limits[0].place.name;
        let before = bench.value(name);
        let asked = bench.millis();
        let passed = match bench.decide(&runs, now).remove(0) {
            Outcome::Decided { passed, .. } => passed,
            Outcome::Refunded(_) | Outcome::Debited(_) => 0,
            other => panic!("{key}: {other:?}"),
        };
        let (after, lives) = (bench.value(name), bench.lives(name));
        let took = bench.millis() - asked;
        if does == Does::Decide && 0 < passed {
            receipts.push(Receipt::new(now, cost));
        }
        if does == Does::Decide && passed == 0 {
            assert_eq!(before, after, "{key}: a refusal writes nothing");
            continue;
        }
        let said = || format!("{key} {does:?} {cost} at {now:?}: {:?}", rule.policy());
        let Some(lives) = lives else {
            let policy = rule.policy();
            let mut state = value::read(policy, &before).unwrap();
            if let Does::Refund { at, .. } = does {
                policy.refund(&mut state, now, Receipt::new(at, cost));
                assert!(policy.is_fresh(&state, now), "gone: {}", said());
                continue;
            }
            panic!("gone: {}", said());
        };
        let (least, most) = bounds(rule.policy(), &after, now);
        assert!(least + SLACK_MILLIS <= lives + took, "{lives} of {least}: {}", said());
        // An end on the server's clock is rounded up to its next millisecond.
        assert!(lives <= most + 1 + SLACK_MILLIS, "{lives} of {most}: {}", said());
    }
}

/// How many milliseconds a state still counts, and may be kept.
fn bounds(policy: &Policy, value: &[u8], now: Tick) -> (u64, u64) {
    let state = value::read(policy, value).unwrap();
    let counts = policy.forget_at(&state).since(now).get().div_ceil(1_000).min(AGES_MILLIS);
    match policy.shape() {
        Shape::Calendar { .. } => (counts.min(TWO_YEARS_MILLIS), counts.max(TWO_YEARS_MILLIS)),
        // The last cells of a window fade out before its successor ends; when is not worked out.
        Shape::SlidingWindow { per, .. } => {
            let windows = 2 * per.get() - now.get() % per.get();
            (counts, windows.div_ceil(1_000))
        }
        _ => (counts, counts),
    }
}
