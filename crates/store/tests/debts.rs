//! What is overdrawn stays so: through sweeps, the cap, snapshots and changes of quota.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{
    Kind, NothingToDebit, Overdraft, Policy, Quota, Receipt, Refused, Span, Tick, Verdict,
};
use tidegate_sim::oracle::Oracle;
use tidegate_sim::rng::Rng;
use tidegate_store::{Charge, MemoryStore, NamedRule, Rule};

const NOW: Tick = Tick::from_micros(1_700_000_040_000_000);

fn at(seconds: u32) -> Tick {
    NOW.after(Span::from_secs(seconds))
}

fn policy(kind: Kind, cells: u32) -> Policy {
    Policy::new(kind, Quota::per_minute(cells)).unwrap()
}

fn debits() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.has_debits())
}

fn debit(store: &MemoryStore, rule: &Rule, who: u32, now: Tick, cells: u32) {
    let _ = store.debit(rule, store.key(who).unwrap(), now, cells).unwrap();
}

/// The first defect: who looks first and charges later is limited all the same.
#[test]
fn look_then_charge_is_limited() {
    for kind in debits() {
        let store = MemoryStore::new();
        let rule = store.rule(policy(kind, 21)).unwrap();
        let key = store.key("ada").unwrap();
        let looks = |now| store.decide(&rule, key, now, 0).verdict;
        for _ in 0..3 {
            assert_eq!(looks(NOW), Verdict::Allow, "{kind}");
            let _ = store.debit(&rule, key, NOW, 10).unwrap();
        }
        let Verdict::Deny { retry_after } = looks(NOW) else {
            panic!("{kind}: nothing is limited")
        };
        assert_eq!(store.overdrawn(&rule, key, NOW), 9, "{kind}");
        let sooner = NOW.after(Span::from_micros(retry_after.get() - 1));
        assert!(!looks(sooner).passes(), "{kind}");
        assert!(looks(NOW.after(retry_after)).passes(), "{kind}");
    }
    let store = MemoryStore::new();
    let permits = store.rule(policy(Kind::Concurrency, 3)).unwrap();
    let debited = store.debit(&permits, store.key("ada").unwrap(), NOW, 1);
    assert_eq!((debited, store.len()), (Err(NothingToDebit), 0));
}

/// The second: a late refund does not pay twice.
#[test]
fn a_late_refund_gives_back_only_what_time_has_not() {
    let store = MemoryStore::new();
    let quota = Quota::per_second(1).burst(10);
    let rule = store.rule(Policy::token_bucket(quota).unwrap()).unwrap();
    let key = store.key("ada").unwrap();
    let (_, receipt) = store.decide_with_receipt(&rule, key, at(0), 10);
    assert!(store.decide(&rule, key, at(5), 5).verdict.passes());
    store.refund(&rule, key, at(5), receipt.unwrap());
    let passed = (0..20).filter(|_| store.decide(&rule, key, at(5), 1).verdict.passes()).count();
    assert_eq!(passed, 5);
}

/// Keys of one rule beside oracles that charge what requests really cost when they came.
#[test]
fn law_11_nothing_passes_that_would_not_have_had_the_truth_been_charged() {
    let kinds = debits().filter(|kind| *kind != Kind::LeakyQueue);
    for (kind, seed) in kinds.flat_map(|kind| (0..60).map(move |seed| (kind, seed))) {
        let mut rng = Rng::new(seed);
        let quota = rng.small_quota();
        let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
        let store = MemoryStore::with_keys_max(16);
        let rule = store.rule(Policy::new(kind, quota).unwrap()).unwrap();
        let mut truths = vec![Oracle::new(kind, quota); 5];
        let (mut held, mut now): (Vec<(usize, usize, Tick, u32)>, Tick) = (Vec::new(), NOW);
        for _ in 0..400 {
            now = now.after(Span::from_micros(rng.below(1 + quota.per().get() / 20)));
            let who = usize::try_from(rng.below(5)).unwrap();
            let (key, truth) = (store.key(who).unwrap(), &mut truths[who]);
            let (moment, cost) = (truth.moment(), 1 + rng.below_u32(6));
            let receipt = match rng.below(5) {
                0 => {
                    truth.debit(now, cost);
                    Some(store.debit(&rule, key, now, cost).unwrap())
                        .filter(|debited| debited.forgiven == 0)
                        .map(|debited| debited.receipt)
                }
                1 | 2 if !held.is_empty() => {
                    let index = usize::try_from(rng.below(held.len() as u64)).unwrap();
                    let (who, moment, at, cells) = held.swap_remove(index);
                    let actual = rng.below_u32(cells);
                    let receipt = Receipt::new(at, cells - actual);
                    store.refund(&rule, store.key(who).unwrap(), now, receipt);
                    truths[who].as_if(moment, actual);
                    None
                }
                _ => {
                    let (_, receipt) = store.decide_with_receipt(&rule, key, now, cost);
                    if receipt.is_some() {
                        assert!(truth.would_pass(now, cost), "{kind} {quota} {truth:?}");
                        truth.charge(now, cost);
                    }
                    receipt
                }
            };
            held.extend(receipt.map(|it| (who, moment, it.at(), it.cost())));
            for (who, truth) in truths.iter().enumerate() {
                let overdrawn = store.overdrawn(&rule, store.key(who).unwrap(), now);
                assert!(truth.overdrawn(now) <= overdrawn.into(), "{kind} {quota} {truth:?}");
            }
        }
    }
}

/// Law 6: it is forgotten when it is fresh, and not before.
#[test]
fn an_overdrawn_key_is_swept_only_once_it_owes_nothing() {
    for kind in debits() {
        let store = MemoryStore::with_keys_max(64);
        let rule = store.rule(policy(kind, 10)).unwrap();
        debit(&store, &rule, 1, NOW, 20);
        let fresh_at = NOW.after(store.peek(&rule, store.key(1).unwrap(), NOW, 0).reset_after);
        let other = store.rule(policy(kind, 1_000_000)).unwrap();
        // Long enough to be idle if it were fresh, and swept many times over.
        let just_before = Tick::from_micros(fresh_at.get() - 1);
        for round in 0..200_000_u32 {
            store.decide(&other, store.key(1_000 + round % 7).unwrap(), just_before, 1);
        }
        let left = store.peek(&rule, store.key(1).unwrap(), just_before, 0).remaining;
        assert!(left < 10, "{kind}: forgotten too soon");
        assert_eq!(store.peek(&rule, store.key(1).unwrap(), fresh_at, 0).remaining, 10, "{kind}");
    }
}

/// A flood of new keys resets nobody, and a debit for which there is no room is owed by its group.
#[test]
fn at_the_cap_no_debit_is_lost() {
    for kind in debits() {
        let store = MemoryStore::with_keys_max(64);
        let rule = store.rule(policy(kind, 10)).unwrap();
        debit(&store, &rule, 0, NOW, 19);
        for who in 1..5_000 {
            store.decide(&rule, store.key(who).unwrap(), NOW, 10);
        }
        let overdrawn = |who: u32| store.overdrawn(&rule, store.key(who).unwrap(), NOW);
        assert_eq!(overdrawn(0), 9, "{kind}");
        for who in 10_000..10_200 {
            debit(&store, &rule, who, NOW, 15);
            assert!(5 <= overdrawn(who), "{kind}: {who}");
        }
        assert_eq!(overdrawn(0), 9, "{kind}");
    }
}

#[test]
fn a_snapshot_and_a_change_of_quota_keep_what_is_overdrawn() {
    for kind in debits() {
        let store = MemoryStore::new();
        let rule = store.rule(policy(kind, 10)).unwrap();
        debit(&store, &rule, 1, NOW, 18);
        let mut bytes = Vec::new();
        let named = NamedRule { name: "r", limit: "", rule: &rule };
        store.export(&[named], NOW, &mut bytes).unwrap();
        let restored = MemoryStore::restore(&mut &bytes[..], 1 << 10).unwrap();
        let rule = restored.rules[0].rule.clone();
        let key = restored.store.key(1).unwrap();
        assert_eq!(restored.store.overdrawn(&rule, key, NOW), 8, "{kind}");
        let raised = restored.store.change(&rule, policy(kind, 15), NOW).unwrap();
        assert_eq!(restored.store.overdrawn(&raised, key, NOW), 3, "{kind}");
        let cut = restored.store.change(&raised, policy(kind, 5), NOW).unwrap();
        assert_eq!(restored.store.overdrawn(&cut, key, NOW), 13, "{kind}");
    }
}

/// Together with others, only the limits that refuse and charge for it are charged.
#[test]
fn of_several_limits_those_that_refuse_are_charged_for_it() {
    let store = MemoryStore::new();
    let strict = policy(Kind::TokenBucket, 3).with_refused(Refused::Charge).unwrap();
    let rules = [policy(Kind::TokenBucket, 3), strict, policy(Kind::SlidingLog, 9)];
    let rules = rules.map(|policy| store.rule(policy).unwrap());
    let key = store.key("ada").unwrap();
    let ask = || {
        let charges: Vec<Charge<'_>> =
            rules.iter().map(|rule| Charge { rule, key, cost: 2 }).collect();
        store.decide_all(&charges, NOW, |_, _| {})
    };
    assert!(ask().passes());
    assert_eq!(ask(), Verdict::Deny { retry_after: Span::from_secs(60) });
    let left = rules.each_ref().map(|rule| store.peek(rule, key, NOW, 0).remaining);
    assert_eq!(left, [1, 0, 7]);
    assert_eq!(store.overdrawn(&rules[1], key, NOW), 1);
    // By itself as well, and no further than a burst.
    (0..9).for_each(|_| assert!(!store.decide(&rules[1], key, NOW, 3).verdict.passes()));
    assert_eq!(store.overdrawn(&rules[1], key, NOW), 3);
}

#[test]
fn an_overdraft_is_as_far_as_the_rule_says() {
    let store = MemoryStore::new();
    let unlimited = policy(Kind::Gcra, 10).with_overdraft(Overdraft::Unlimited).unwrap();
    let rule = store.rule(unlimited).unwrap();
    let key = store.key("ada").unwrap();
    assert_eq!(store.debit(&rule, key, NOW, 5_000_000).unwrap().forgiven, 0);
    assert_eq!(store.overdrawn(&rule, key, NOW), 4_999_990);
    store.give_back(&rule, key, NOW, 4_999_000);
    assert_eq!(store.overdrawn(&rule, key, NOW), 990);
}
