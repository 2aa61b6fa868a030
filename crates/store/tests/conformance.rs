//! The memory store answers as the core does, digit for digit.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Debited, Decision, Policy, Receipt, Tick};
use tidegate_sim::conformance::{Answered, Subject, check};
use tidegate_store::{Charge, MemoryStore, Rule};

struct Memory(MemoryStore);

impl Memory {
    fn charge<'a>(&self, (rule, key): (&'a Rule, u64), cost: u32) -> Charge<'a> {
        Charge { rule, key: self.0.key(("key", key)).unwrap(), cost }
    }
}

impl Subject for Memory {
    type Rule = Rule;

    fn rule(&mut self, policy: Policy) -> Rule {
        self.0.rule(policy).unwrap()
    }

    fn change(&mut self, rule: &Rule, policy: Policy, now: Tick) -> Rule {
        self.0.change(rule, policy, now).unwrap()
    }

    fn decide(&mut self, on: (&Rule, u64), now: Tick, cost: u32) -> (Decision, Option<Receipt>) {
        let charge = self.charge(on, cost);
        self.0.decide_with_receipt(charge.rule, charge.key, now, cost)
    }

    fn decide_all(&mut self, on: &[(&Rule, u64)], now: Tick, cost: u32) -> Vec<Answered> {
        let charges: Vec<Charge<'_>> = on.iter().map(|&on| self.charge(on, cost)).collect();
        let mut answers = Vec::new();
        let _ = self.0.decide_all(&charges, now, |answer, receipt| answers.push((answer, receipt)));
        answers
    }

    fn peek(&mut self, on: (&Rule, u64), now: Tick, cost: u32) -> Decision {
        let charge = self.charge(on, cost);
        self.0.peek(charge.rule, charge.key, now, cost)
    }

    fn refund(&mut self, on: (&Rule, u64), now: Tick, receipt: Receipt) {
        let charge = self.charge(on, 0);
        self.0.refund(charge.rule, charge.key, now, receipt);
    }

    fn debit(&mut self, on: (&Rule, u64), now: Tick, cells: u32) -> Option<Debited> {
        let charge = self.charge(on, cells);
        self.0.debit(charge.rule, charge.key, now, cells).ok()
    }

    fn give_back(&mut self, on: (&Rule, u64), now: Tick, cells: u32) {
        let charge = self.charge(on, cells);
        self.0.give_back(charge.rule, charge.key, now, cells);
    }

    fn overdrawn(&mut self, on: (&Rule, u64), now: Tick) -> u32 {
        let charge = self.charge(on, 0);
        self.0.overdrawn(charge.rule, charge.key, now)
    }

    fn reset(&mut self, on: (&Rule, u64)) {
        let charge = self.charge(on, 0);
        self.0.reset(charge.rule, charge.key);
    }
}

#[test]
fn law_9_the_memory_store_gives_the_cores_answers() {
    for seed in 0..300 {
        check(&mut Memory(MemoryStore::new()), seed, 400);
    }
}

/// Long enough for idle states to be forgotten on the way, whatever has become of their rules.
#[test]
fn law_9_holds_while_states_are_forgotten() {
    for seed in 1_000..1_020 {
        check(&mut Memory(MemoryStore::new()), seed, 20_000);
    }
}

/// Law 9 through the short way and the batch, which have no receipts.
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
