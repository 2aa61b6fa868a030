//! The memory store answers as the core does, digit for digit.

use std::sync::Arc;

use tidegate_core::{Decision, Policy, Tick};
use tidegate_sim::conformance;
use tidegate_store::{Charge, ManualClock, MemoryStore};

fn check(seed: u64, steps: u32) {
    conformance::check(&MemoryStore::new(), &Arc::new(ManualClock::new()), seed, steps);
}

#[test]
fn law_9_the_memory_store_gives_the_cores_answers() {
    for seed in 0..300 {
        check(seed, 400);
    }
}

/// Long enough for idle states to be forgotten on the way, whatever has become of their rules.
#[test]
fn law_9_holds_while_states_are_forgotten() {
    for seed in 1_000..1_020 {
        check(seed, 20_000);
    }
}

/// The same through the short way and the batch, which have no receipts.
#[test]
fn law_9_a_batch_gives_the_answers_of_one_by_one() {
    use tidegate_core::{Kind, Quota, Span};
    let (batched, single) = (MemoryStore::new(), MemoryStore::new());
    let quotas = [Quota::per_second(100), Quota::per_minute(9_999), Quota::per_second(7)];
    let mut now = Tick::from_micros(1 << 40);
    for kind in Kind::ALL {
        for quota in quotas {
            let policy = Policy::new(kind, quota).unwrap();
            let rules = [batched.rule(policy).unwrap(), single.rule(policy).unwrap()];
            for round in 0..40 {
                now = now.after(Span::from_millis(round * 7));
                let ids = (0..100_u32).map(|id| id * id % 37);
                let charges: Vec<Charge<'_>> = ids
                    .clone()
                    .map(|id| Charge {
                        rule: &rules[0],
                        key: batched.key(id).unwrap(),
                        cost: id % 3,
                    })
                    .collect();
                let mut answers = Vec::new();
                batched.decide_batch(&charges, now, |answer| answers.push(answer));
                let expected: Vec<Decision> = ids
                    .map(|id| single.decide(&rules[1], single.key(id).unwrap(), now, id % 3))
                    .collect();
                assert_eq!(answers, expected, "{kind} {quota}");
            }
        }
    }
}
