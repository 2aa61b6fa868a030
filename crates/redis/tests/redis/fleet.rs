//! A fleet: rules that are chosen request by request, with a cost each, and come while it runs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span, Verdict};
use tidegate_redis::{
    By, Fleet, FleetDecided, FleetKey, SharedCharge, SharedRule, StoreError, WantedRule,
    WithoutStore,
};
use tidegate_store::ManualClock;
use tidegate_testbed::Server;

use crate::stand::{LONG, calls, key, names, permits, still_store, store};

/// A server, a fleet on it whose time stands still, and the clock.
async fn still_fleet() -> (Server, Fleet, Arc<ManualClock>) {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    (server, Fleet::new(store), clock)
}

/// A fleet on a server that stands still: nobody decides but this node.
async fn alone() -> (Server, Fleet) {
    let server = Server::start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await.within(Duration::from_millis(20)));
    server.pause();
    (server, fleet)
}

fn policy(kind: Kind, cells: u32) -> Policy {
    Policy::new(kind, Quota::per_day(cells)).unwrap()
}

fn bucket(fleet: &Fleet, name: &str, cells: u32, without: WithoutStore) -> SharedRule {
    fleet.rule(name, policy(Kind::TokenBucket, cells), without).unwrap()
}

fn charge<'a>(rule: &'a SharedRule, key: &'a FleetKey, cost: u32) -> SharedCharge<'a> {
    SharedCharge { rule, key, cost }
}

fn left(decided: &FleetDecided) -> Vec<u32> {
    decided.each.iter().map(|it| it.remaining).collect()
}

async fn looks(fleet: &Fleet, rules: &[&SharedRule], key: &FleetKey) -> Vec<u32> {
    let charges: Vec<_> = rules.iter().map(|rule| charge(rule, key, 0)).collect();
    left(&fleet.peek(&charges).await)
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

const LOCAL: WithoutStore = WithoutStore::Local { nodes: 1 };

#[tokio::test]
async fn each_rule_has_its_cost_and_all_are_charged_or_none() {
    let (_server, fleet, _clock) = still_fleet().await;
    let (requests, cells) =
        (bucket(&fleet, "requests", 3, LOCAL), bucket(&fleet, "cells", 9, LOCAL));
    let ada = key("ada");
    let decided = fleet.decide(&[charge(&requests, &ada, 1), charge(&cells, &ada, 6)]).await;
    assert_eq!((decided.verdict, decided.by), (Verdict::Allow, By::Store));
    assert_eq!(left(&decided), [2, 3]);
    assert_eq!(decided.decision().remaining, 2);
    assert_eq!((decided.receipts.cells(0), decided.receipts.cells(1)), (1, 6));
    // The second refuses; the first is not charged for it.
    let refused = fleet.decide(&[charge(&requests, &ada, 1), charge(&cells, &ada, 4)]).await;
    assert!(matches!(refused.verdict, Verdict::Deny { .. }));
    assert!(refused.each[0].verdict.passes() && !refused.each[1].verdict.passes());
    assert!(refused.receipts.is_empty());
    assert_eq!(looks(&fleet, &[&requests, &cells], &ada).await, [2, 3]);
    // One rule, for two keys at once.
    let bob = key("bob");
    let both = [charge(&requests, &ada, 2), charge(&requests, &bob, 1)];
    assert_eq!(left(&fleet.peek(&both).await), [2, 3]);
    assert_eq!(left(&fleet.decide(&both).await), [0, 2]);
}

#[tokio::test]
async fn what_need_not_be_asked_is_not() {
    let (server, fleet, _clock) = still_fleet().await;
    let rule = bucket(&fleet, "r", 9, LOCAL);
    let ada = key("ada");
    let before = calls(&server);
    for decided in [fleet.decide(&[]).await, fleet.peek(&[]).await] {
        assert_eq!(
            (decided.verdict, decided.by, decided.each.len()),
            (Verdict::Allow, By::Store, 0)
        );
    }
    assert!(fleet.decide_separately(&[]).await.is_empty());
    let clone = rule.clone();
    let twice = [charge(&rule, &ada, 1), charge(&clone, &ada, 1)];
    assert_eq!(fleet.decide(&twice).await.verdict, Verdict::Never);
    let keys: Vec<FleetKey> = (0..17_u32).map(|it| FleetKey::new(it).unwrap()).collect();
    let many: Vec<_> = keys.iter().map(|key| charge(&rule, key, 1)).collect();
    assert_eq!(fleet.decide(&many).await.verdict, Verdict::Never);
    fleet.debit(charge(&rule, &ada, 0)).await.unwrap();
    assert_eq!(calls(&server), before);
    assert!(fleet.decide(&many[..16]).await.verdict.passes());
}

#[tokio::test]
async fn a_rule_of_no_cost_only_looks() {
    let (server, fleet, _clock) = still_fleet().await;
    let (looked, taken) = (bucket(&fleet, "looked", 5, LOCAL), bucket(&fleet, "taken", 5, LOCAL));
    let ada = key("ada");
    let decided = fleet.decide(&[charge(&looked, &ada, 0), charge(&taken, &ada, 2)]).await;
    assert_eq!(left(&decided), [5, 3]);
    assert_eq!(names(&server).len(), 1, "a look leaves nothing");
    // There is nothing to give back of it, and the other is still called by its place.
    assert_eq!((decided.receipts.len(), decided.receipts.cells(0)), (1, 0));
    assert_eq!(decided.receipts.cells(1), 2);
    fleet.refund(decided.receipts).await.unwrap();
    assert_eq!(looks(&fleet, &[&looked, &taken], &ada).await, [5, 5]);
}

#[tokio::test]
async fn separately_each_is_charged_alone() {
    let (server, fleet, _clock) = still_fleet().await;
    let (full, roomy) = (bucket(&fleet, "full", 1, LOCAL), bucket(&fleet, "roomy", 50, LOCAL));
    let (ada, bob) = (key("ada"), key("bob"));
    assert!(fleet.decide(&[charge(&full, &ada, 1)]).await.verdict.passes());
    let before = calls(&server);
    let mut charges = vec![charge(&full, &ada, 1), charge(&roomy, &ada, 3), charge(&full, &bob, 1)];
    charges.extend(std::iter::repeat_n(charge(&roomy, &bob, 2), 20));
    let decided = fleet.decide_separately(&charges).await;
    assert!(calls(&server) - before <= 4, "{} calls", calls(&server) - before);
    let passed: Vec<bool> = decided.iter().map(|it| it.verdict.passes()).collect();
    assert_eq!(passed[..3], [false, true, true], "who is refused refuses nobody else");
    assert!(passed[3..].iter().all(|passes| *passes));
    assert!(decided.iter().all(|it| it.by == By::Store && it.each.len() == 1));
    assert_eq!(looks(&fleet, &[&full, &roomy], &ada).await, [0, 47]);
    assert_eq!(looks(&fleet, &[&full, &roomy], &bob).await, [0, 10]);
    // Each has a receipt of its own.
    let receipts: Vec<_> = decided.into_iter().map(|it| it.receipts).collect();
    let cells: Vec<u32> = receipts.iter().map(|it| it.cells(0)).collect();
    assert_eq!(cells[..4], [0, 3, 1, 2]);
    for receipts in receipts {
        fleet.refund(receipts).await.unwrap();
    }
    assert_eq!(looks(&fleet, &[&full, &roomy], &bob).await, [1, 50]);
    assert_eq!(looks(&fleet, &[&full, &roomy], &ada).await, [0, 50]);
    // What was refused is refused without asking, as ever; here it was refused to another.
    assert!(!fleet.decide_separately(&charges[..1]).await[0].verdict.passes());
    assert_eq!(fleet.decide_separately(&charges[..1]).await[0].by, By::Remembered);
    assert_eq!((fleet.counts().store, fleet.counts().remembered), (1 + 23 + 4 + 1, 1));
}

#[tokio::test]
async fn one_rule_of_several_is_given_back_or_a_part_of_it() {
    let (_server, fleet, _clock) = still_fleet().await;
    let kinds = [Kind::TokenBucket, Kind::Gcra, Kind::FixedWindow, Kind::SlidingWindow];
    for kind in kinds.into_iter().chain([Kind::SlidingLog, Kind::LeakyBucket]) {
        let rule = |name: &str| {
            let name = format!("{name} {kind}");
            fleet.rule(&name, policy(kind, 100), LOCAL).unwrap()
        };
        let rules = [rule("a"), rule("b"), rule("c")];
        let ada = key("ada");
        let charges = [(&rules[0], 1), (&rules[1], 10), (&rules[2], 20)];
        let charges = charges.map(|(rule, cost)| charge(rule, &ada, cost));
        let mut receipts = fleet.decide(&charges).await.receipts;
        let look = async || looks(&fleet, &[&rules[0], &rules[1], &rules[2]], &ada).await;
        assert_eq!(look().await, [99, 90, 80], "{kind}");
        let part = receipts.take_cells(1, 4);
        assert_eq!((part.len(), part.cells(1), receipts.cells(1)), (1, 4, 6));
        fleet.refund(part).await.unwrap();
        assert_eq!(look().await, [99, 94, 80], "{kind}");
        fleet.refund(receipts.take(2)).await.unwrap();
        assert_eq!(look().await, [99, 94, 100], "{kind}");
        // It is gone, and so is nothing else; of nothing, nothing is taken.
        assert!(receipts.take(2).is_empty() && receipts.take(7).is_empty());
        assert!(receipts.take_cells(0, 0).is_empty());
        assert_eq!(receipts.len(), 2);
        // More than there is left is what is left.
        fleet.refund(receipts.take_cells(1, 100)).await.unwrap();
        assert_eq!(look().await, [99, 100, 100], "{kind}");
        drop(receipts);
        assert_eq!(look().await, [99, 100, 100], "{kind}: dropped, it stands");
    }
}

#[tokio::test]
async fn permits_come_back_when_receipts_are_dropped() {
    let (_server, fleet, _clock) = still_fleet().await;
    let flights = fleet.rule("flights", permits(5, Span::from_secs(30)), LOCAL).unwrap();
    let starts = bucket(&fleet, "starts", 100, LOCAL);
    let ada = key("ada");
    let enter =
        async |cost| fleet.decide(&[charge(&starts, &ada, 1), charge(&flights, &ada, cost)]).await;
    let look = async || looks(&fleet, &[&starts, &flights], &ada).await;
    let becomes = async |free: u32| {
        tokio::time::timeout(LONG, async { while look().await[1] != free {} }).await.unwrap();
    };
    let mut held = enter(4).await.receipts;
    drop(held.take_cells(1, 1));
    becomes(2).await;
    held.release().await.unwrap();
    assert_eq!(look().await, [99, 5]);
    drop(enter(2).await);
    becomes(5).await;
    assert_eq!(look().await[0], 98, "what else was charged stands");
    enter(2).await.receipts.keep();
    drop(enter(3).await);
    becomes(3).await;
    // Separately as well, also where nobody waited for the answer.
    let ask = async || fleet.decide_separately(&[charge(&flights, &ada, 1)]).await;
    assert_eq!(ask().await[0].receipts.cells(0), 1);
    becomes(3).await;
    let mut asking = Box::pin(ask());
    assert!(poll_once(asking.as_mut()).await.is_pending());
    becomes(2).await;
    drop(asking);
    becomes(3).await;
}

#[tokio::test]
async fn a_change_keeps_what_was_consumed_for_all_who_have_the_rule() {
    let (_server, fleet, _clock) = still_fleet().await;
    let rule = bucket(&fleet, "r", 10, LOCAL);
    let (clone, ada) = (rule.clone(), key("ada"));
    assert!(fleet.decide(&[charge(&rule, &ada, 8)]).await.verdict.passes());
    fleet.change(&clone, policy(Kind::TokenBucket, 20)).unwrap();
    assert_eq!((rule.policy().limit(), rule.name(), rule.without()), (20, "r", LOCAL));
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [12]);
    assert_eq!(left(&fleet.decide(&[charge(&rule, &ada, 2)]).await), [10]);
    fleet.change(&rule, policy(Kind::TokenBucket, 10)).unwrap();
    assert_eq!(looks(&fleet, &[&clone], &ada).await, [0]);
    fleet.reset(&rule, &ada).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [10]);
}

/// A receipt is good for its rule, whatever policy that has by then.
#[tokio::test]
async fn what_is_given_back_after_a_change_is_not_lost() {
    let (_server, fleet, _clock) = still_fleet().await;
    let ada = key("ada");
    let rule = bucket(&fleet, "r", 10, LOCAL);
    let mut receipts = fleet.decide(&[charge(&rule, &ada, 8)]).await.receipts;
    fleet.change(&rule, policy(Kind::TokenBucket, 20)).unwrap();
    fleet.refund(receipts.take_cells(0, 3)).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [15]);
    fleet.change(&rule, policy(Kind::TokenBucket, 4)).unwrap();
    fleet.refund(receipts).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [4], "never above full");
    let flights = fleet.rule("flights", permits(2, Span::from_secs(30)), LOCAL).unwrap();
    let held = fleet.decide(&[charge(&flights, &ada, 2)]).await.receipts;
    fleet.change(&flights, permits(2, Span::from_secs(60))).unwrap();
    assert_eq!(looks(&fleet, &[&flights], &ada).await, [0]);
    held.release().await.unwrap();
    assert_eq!(looks(&fleet, &[&flights], &ada).await, [2]);
}

/// Less of a quota is given out for a while: a client that asks meanwhile gets nothing back.
#[tokio::test]
async fn a_bucket_stays_as_full_as_it_is_when_a_part_is_given_out() {
    let (_server, fleet, _clock) = still_fleet().await;
    let ada = key("ada");
    let rule = bucket(&fleet, "r", 160, LOCAL);
    let part = |sixteenths| {
        let quota = rule.policy().grains().map(|it| (it.tick(), it.cell())).unwrap();
        let cells = u32::try_from(quota.0).unwrap() * sixteenths;
        let part = Quota::new(cells, Span::from_micros(quota.1 * 16)).burst(10 * sixteenths);
        Policy::new(Kind::TokenBucket, part).unwrap()
    };
    let [whole, half, least] = [16, 8, 1].map(part);
    let scale = |policy| {
        let (name, without, before) = (rule.name(), rule.without(), Some(&rule));
        let limit = name;
        let wanted = WantedRule { name, limit, policy, whole, without, before, others: &[] };
        fleet.put(&[wanted]).unwrap()
    };
    assert_eq!(whole, rule.policy());
    let mut receipts = fleet.decide(&[charge(&rule, &ada, 160)]).await.receipts;
    scale(half);
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [0]);
    fleet.refund(receipts.take_cells(0, 32)).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [16], "each is worth a half");
    scale(least);
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [2]);
    fleet.refund(receipts.take_cells(0, 16)).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [3]);
    scale(whole);
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [48]);
    fleet.refund(receipts.take_cells(0, 2)).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [50], "that is over");
    scale(half);
    fleet.refund(receipts.take_cells(0, 20)).await.unwrap();
    let left = looks(&fleet, &[&rule], &ada).await[0];
    assert!(left <= 35, "which part it was before is not known any more: {left}");
}

/// This node counts its share by its own clock, and the server's may be another.
#[tokio::test]
async fn a_change_keeps_what_the_share_has_counted() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let fleet = Fleet::new(store.within(Duration::from_millis(20)));
    server.pause();
    let (rule, ada) = (bucket(&fleet, "r", 10, LOCAL), key("ada"));
    assert_eq!(left(&fleet.decide(&[charge(&rule, &ada, 4)]).await), [6]);
    fleet.change(&rule, policy(Kind::TokenBucket, 20)).unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [16]);
}

#[tokio::test]
async fn rules_come_while_others_are_asked() {
    let (server, fleet, _clock) = still_fleet().await;
    let first = bucket(&fleet, "first", 5, LOCAL);
    let ada = key("ada");
    assert_eq!(left(&fleet.decide(&[charge(&first, &ada, 1)]).await), [4]);
    let second = bucket(&fleet.clone(), "second", 7, LOCAL);
    let both = [charge(&first, &ada, 1), charge(&second, &ada, 1)];
    assert_eq!(left(&fleet.decide(&both).await), [3, 6]);
    drop(first);
    // What a rule has counted is there for every rule of the same name and policy.
    let again = bucket(&fleet, "first", 5, LOCAL);
    let there = Fleet::new(fleet.store().clone());
    let other = bucket(&there, "first", 5, WithoutStore::Open);
    assert_eq!(left(&fleet.decide(&[charge(&again, &ada, 1)]).await), [2]);
    assert_eq!(left(&there.decide(&[charge(&other, &ada, 1)]).await), [1]);
    // One that had another policy before, and that asks each time.
    let raised = fleet.store().rule("first", policy(Kind::TokenBucket, 6));
    let raised = raised.formerly(again.policy()).remember_refusals(false);
    let raised = fleet.rule_of(raised, LOCAL).unwrap();
    assert_eq!(looks(&fleet, &[&raised], &ada).await, [2]);
    let before = calls(&server);
    for _ in 0..3 {
        assert_eq!(fleet.decide(&[charge(&raised, &ada, 3)]).await.by, By::Store);
    }
    assert!(before + 3 <= calls(&server));
}

#[tokio::test]
async fn a_debit_is_charged_in_full() {
    let (_server, fleet, _clock) = still_fleet().await;
    let rule = bucket(&fleet, "r", 10, LOCAL);
    let ada = key("ada");
    fleet.debit(charge(&rule, &ada, 4)).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &ada).await, [6]);
    let debited = fleet.debit(charge(&rule, &ada, 40)).await.unwrap();
    // As much again as the burst is remembered.
    assert_eq!((debited.forgiven, debited.receipts.cells(0)), (24, 16));
    let looked = fleet.peek(&[charge(&rule, &ada, 0)]).await;
    assert!(!looked.verdict.passes() && left(&looked) == [0]);
    let permits = fleet.rule("p", policy(Kind::Concurrency, 3), LOCAL).unwrap();
    let refused = fleet.debit(charge(&permits, &ada, 1)).await;
    assert!(matches!(refused, Err(StoreError::NothingToDebit(_))));
    // What turns out to have been less comes back.
    let debited = fleet.debit(charge(&rule, &key("bob"), 4)).await.unwrap();
    fleet.refund(debited.receipts).await.unwrap();
    assert_eq!(looks(&fleet, &[&rule], &key("bob")).await, [10]);
}

/// What a request of rules that do this and that costs without Redis.
#[tokio::test]
async fn without_redis_each_rule_does_what_it_says() {
    let (_server, fleet) = alone().await;
    let (local, closed, open) = (
        bucket(&fleet, "local", 10, WithoutStore::Local { nodes: 2 }),
        bucket(&fleet, "closed", 10, WithoutStore::Closed),
        bucket(&fleet, "open", 10, WithoutStore::Open),
    );
    let ada = key("ada");
    let ask = async |rules: &[(&SharedRule, u32)]| {
        let charges: Vec<_> = rules.iter().map(|(rule, cost)| charge(rule, &ada, *cost)).collect();
        fleet.decide(&charges).await
    };
    let passes = |it: &FleetDecided| (it.verdict.passes(), it.by);
    assert_eq!(passes(&ask(&[(&open, 3)]).await), (true, By::Open));
    assert_eq!(passes(&ask(&[(&closed, 3)]).await), (false, By::Closed));
    // All three: refused, and nothing is charged to the share.
    let mixed = ask(&[(&local, 3), (&closed, 1), (&open, 1)]).await;
    assert_eq!(passes(&mixed), (false, By::Closed));
    assert_eq!(left(&mixed), [10, 0, 10]);
    assert!(mixed.receipts.is_empty());
    // A share of five, with a cost of its own, beside what lets everything pass.
    let mut mixed = ask(&[(&open, 100), (&local, 4)]).await;
    assert_eq!((passes(&mixed), left(&mixed)), ((true, By::Local), vec![10, 1]));
    assert_eq!((mixed.receipts.cells(0), mixed.receipts.cells(1)), (0, 4));
    assert_eq!(passes(&ask(&[(&open, 100), (&local, 2)]).await), (false, By::Local));
    // A part of it, given back here; then the rest.
    fleet.refund(mixed.receipts.take_cells(1, 1)).await.unwrap();
    assert_eq!(looks(&fleet, &[&local], &ada).await, [2]);
    fleet.refund(mixed.receipts).await.unwrap();
    // Of each part, what time has paid meanwhile stays charged.
    assert!(4 <= looks(&fleet, &[&local], &ada).await[0]);
    assert!(fleet.reset(&local, &ada).await.is_err());
    assert_eq!(looks(&fleet, &[&local], &ada).await, [5]);
    // A look costs nothing here either.
    let look = ask(&[(&local, 0), (&open, 0)]).await;
    assert!(look.verdict.passes() && look.receipts.is_empty());
    // Separately, nobody's refusal is another's.
    let charges = [charge(&closed, &ada, 1), charge(&local, &ada, 2), charge(&open, &ada, 1)];
    let each: Vec<_> = fleet.decide_separately(&charges).await.iter().map(passes).collect();
    assert_eq!(each, [(false, By::Closed), (true, By::Local), (true, By::Open)]);
    // A debit goes to the share, also beyond it; a rule without a share says so.
    assert_eq!(looks(&fleet, &[&local], &ada).await, [3]);
    fleet.debit(charge(&local, &ada, 2)).await.unwrap();
    assert_eq!(looks(&fleet, &[&local], &ada).await, [1]);
    let debited = fleet.debit(charge(&local, &ada, 2)).await.unwrap();
    assert_eq!((debited.forgiven, looks(&fleet, &[&local], &ada).await), (0, vec![0]));
    assert!(!ask(&[(&local, 0)]).await.verdict.passes());
    fleet.refund(debited.receipts).await.unwrap();
    assert_eq!(looks(&fleet, &[&local], &ada).await, [1]);
    assert!(fleet.debit(charge(&open, &ada, 1)).await.is_err());
    assert!(ask(&[]).await.verdict.passes());
    // One key of one rule twice is refused with Redis, and without.
    assert_eq!(ask(&[(&local, 0), (&local, 0)]).await.verdict, Verdict::Never);
}

/// What was let through and debited here, less what was given back, is what is reported to Redis.
#[tokio::test]
async fn redis_is_told_of_each_cost_when_it_is_back() {
    let (server, fleet) = alone().await;
    let rules = [bucket(&fleet, "a", 100, LOCAL), bucket(&fleet, "b", 100, LOCAL)];
    let ada = key("ada");
    let mut decided =
        fleet.decide(&[charge(&rules[0], &ada, 5), charge(&rules[1], &ada, 20)]).await;
    assert_eq!(decided.by, By::Local);
    fleet.refund(decided.receipts.take_cells(1, 8)).await.unwrap();
    // What was sent before it is left alone may be charged, too: it stood still only.
    let unanswered = fleet.counts().unanswered;
    assert!(unanswered <= 1);
    fleet.debit(charge(&rules[0], &key("bob"), 3)).await.unwrap();
    server.resume();
    let asks = async |key: &FleetKey| {
        let ask =
            async || fleet.decide(&[charge(&rules[0], key, 1), charge(&rules[1], key, 1)]).await;
        let asking = async {
            // The probe is decided before anything is repaid.
            while ask().await.by != By::Store {}
            ask().await
        };
        left(&tokio::time::timeout(LONG, asking).await.unwrap())
    };
    let bob = asks(&key("bob")).await;
    assert!(bob[0] <= 95 && bob[1] <= 98, "{bob:?}");
    let ada = asks(&ada).await;
    assert!((94 - 5..=94).contains(&ada[0]) && (87 - 20..=87).contains(&ada[1]), "{ada:?}");
}

fn assert_send<T: Send + 'static>(_: &T) {}

/// What a task or a service holds while it waits.
#[tokio::test]
async fn everything_can_be_owned_and_sent() {
    let (_server, fleet, _clock) = still_fleet().await;
    let rules = [bucket(&fleet, "a", 9, LOCAL), bucket(&fleet, "b", 9, WithoutStore::Open)];
    let asking = async move {
        let key = key("ada");
        let charges: Vec<_> = rules.iter().map(|rule| charge(rule, &key, 2)).collect();
        let looked = fleet.peek(&charges).await;
        let mut decided = fleet.decide(&charges).await;
        let separately = fleet.decide_separately(&charges).await;
        fleet.refund(decided.receipts.take(0)).await.unwrap();
        fleet.debit(charges[0]).await.unwrap();
        fleet.reset(&rules[1], &key).await.unwrap();
        (looked, decided, separately)
    };
    assert_send(&asking);
    let (looked, decided, separately) = tokio::spawn(asking).await.unwrap();
    assert_send(&decided);
    assert_eq!(
        (left(&looked), left(&decided), left(&separately[0])),
        (vec![9, 9], vec![7, 7], vec![5])
    );
    decided.receipts.refund().await.unwrap();
}
