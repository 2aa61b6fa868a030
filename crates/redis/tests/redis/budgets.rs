//! Charges after the fact, in Redis: debits, looks, and refunds that do not pay twice.

use tidegate_core::{Kind, Policy, Quota, Receipt, Refused, Span, Tick, Verdict};
use tidegate_redis::{FleetCharge, FleetKey, FleetRule, RedisStore};
use tidegate_sim::oracle::Oracle;
use tidegate_sim::rng::Rng;
use tidegate_store::Clock as _;
use tidegate_testbed::Server;

use crate::stand::{calls, key, still_store};

fn rule(store: &RedisStore, kind: Kind, quota: Quota) -> FleetRule {
    store.rule(kind.name(), Policy::new(kind, quota).unwrap())
}

fn debits() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.has_debits())
}

async fn overdrawn(store: &RedisStore, rule: &FleetRule, key: &FleetKey) -> u32 {
    let looked = store.peek_all(&[FleetCharge { rule, key, cost: 0 }]).await.unwrap();
    looked.overdrawn().next().unwrap()
}

#[tokio::test]
async fn look_then_charge_is_limited_and_retry_is_exact() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let ada = key("ada");
    for kind in debits() {
        let rule = rule(&store, kind, Quota::per_minute(21)).remember_refusals(false);
        for _ in 0..3 {
            assert_eq!(store.decide(&rule, &ada, 0).await.unwrap().verdict, Verdict::Allow);
            assert_eq!(store.debit(&rule, &ada, 10).await.unwrap().forgiven, 0, "{kind}");
        }
        let refused = store.decide(&rule, &ada, 0).await.unwrap();
        let Verdict::Deny { retry_after } = refused.verdict else { panic!("{kind}: {refused:?}") };
        assert_eq!((refused.remaining, overdrawn(&store, &rule, &ada).await), (0, 9), "{kind}");
        clock.advance(Span::from_micros(retry_after.get() - 1));
        assert!(!store.decide(&rule, &ada, 0).await.unwrap().verdict.passes(), "{kind}");
        clock.advance(Span::from_micros(1));
        assert!(store.decide(&rule, &ada, 0).await.unwrap().verdict.passes(), "{kind}");
        store.give_back(&rule, &ada, 3).await.unwrap();
        // A queue gives nothing back without a receipt, nor does a window what an earlier one
        // counted.
        let expected =
            u32::from(matches!(kind, Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket)) * 3;
        assert!(expected <= store.peek(&rule, &ada, 0).await.unwrap().remaining, "{kind}");
    }
}

/// Burst 10, 1/s: ten at 0 s, five at 5 s; the ten come back at 5 s, and five more may pass.
#[tokio::test]
async fn a_late_refund_gives_back_only_what_time_has_not() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let rule = rule(&store, Kind::TokenBucket, Quota::per_second(1).burst(10));
    let ada = key("ada");
    let (_, receipt) = store.decide_with_receipt(&rule, &ada, 10).await.unwrap();
    clock.advance(Span::from_secs(5));
    assert!(store.decide(&rule, &ada, 5).await.unwrap().verdict.passes());
    store.refund(&rule, &ada, receipt.unwrap()).await.unwrap();
    assert_eq!(store.peek(&rule, &ada, 0).await.unwrap().remaining, 5);
}

/// A key beside an oracle that charges what requests really cost when they came.
#[tokio::test]
async fn law_11_nothing_passes_that_would_not_have_had_the_truth_been_charged() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let kinds = debits().filter(|kind| *kind != Kind::LeakyQueue);
    for (kind, seed) in kinds.flat_map(|kind| (0..25).map(move |seed| (kind, seed))) {
        let mut rng = Rng::new(seed);
        let quota = rng.small_quota();
        let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
        let (rule, mut truth) = (rule(&store, kind, quota), Oracle::new(kind, quota));
        let rule = rule.remember_refusals(false);
        let (ada, mut held) = (key(&format!("{kind} {seed}")), Vec::<(usize, Tick, u32)>::new());
        for _ in 0..120 {
            clock.advance(Span::from_micros(rng.below(1 + quota.per().get() / 8)));
            let (now, moment, cost) = (clock.now(), truth.moment(), 1 + rng.below_u32(6));
            let receipt = match rng.below(5) {
                0 => {
                    truth.debit(now, cost);
                    let debited = store.debit(&rule, &ada, cost).await.unwrap();
                    (debited.forgiven == 0).then_some(debited.receipt)
                }
                1 | 2 if !held.is_empty() => {
                    let index = usize::try_from(rng.below(held.len() as u64)).unwrap();
                    let (moment, at, cells) = held.swap_remove(index);
                    let actual = rng.below_u32(cells);
                    let receipt = Receipt::new(at, cells - actual);
                    store.refund(&rule, &ada, receipt).await.unwrap();
                    truth.as_if(moment, actual);
                    None
                }
                _ => {
                    let (_, receipt) = store.decide_with_receipt(&rule, &ada, cost).await.unwrap();
                    if receipt.is_some() {
                        assert!(truth.would_pass(now, cost), "{kind} {quota} {truth:?}");
                        truth.charge(now, cost);
                    }
                    receipt
                }
            };
            held.extend(receipt.map(|it| (moment, it.at(), it.cost())));
            let overdrawn = overdrawn(&store, &rule, &ada).await;
            assert!(truth.overdrawn(now) <= overdrawn.into(), "{kind} {quota} {truth:?}");
        }
    }
}

/// A refusal that is charged for is asked for each time, and each makes the wait longer.
#[tokio::test]
async fn hammering_does_not_pay_where_refusals_are_charged() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let strict = Policy::token_bucket(Quota::per_minute(10)).unwrap();
    let strict = store.rule("strict", strict.with_refused(Refused::Charge).unwrap());
    let free = store.rule("free", Policy::token_bucket(Quota::per_minute(10)).unwrap());
    let ada = key("ada");
    let ask = async || {
        let charges = [&strict, &free].map(|rule| FleetCharge { rule, key: &ada, cost: 6 });
        store.decide_all(&charges).await.unwrap()
    };
    assert!(ask().await.verdict().passes());
    let mut waits = Vec::new();
    for asked in 1..=4 {
        let before = calls(&server);
        let refused = ask().await;
        assert_eq!(calls(&server), before + 1, "{asked}");
        let overdrawn: Vec<u32> = refused.overdrawn().collect();
        assert_eq!(overdrawn, [[2, 8, 10, 10][asked - 1], 0]);
        let Verdict::Deny { retry_after } = refused.verdict() else { panic!("{refused:?}") };
        waits.push(retry_after);
    }
    // Six more than it owes: at one cell in six seconds.
    assert_eq!(waits, [8, 14, 16, 16].map(|cells| Span::from_secs(6 * cells)));
}
