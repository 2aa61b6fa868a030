//! What every store must answer: the same as the core, digit for digit.
//!
//! A store under test implements [`Subject`]; [`check`] walks it and a plain list of states through
//! the same random requests, looks, debits, refunds, resets and changes of quota, by all kinds
//! of policies.

use tidegate_core::{
    Debited, Decision, Kind, Limit, Overdraft, Policy, Quota, Receipt, Refused, Span, State, Tick,
    decide_all,
};

use crate::rng::Rng;

/// A store, as far as the check can see it. Keys are small numbers.
pub trait Subject {
    /// What the store calls a rule.
    type Rule;

    /// Keeps states for `policy`.
    fn rule(&mut self, policy: Policy) -> Self::Rule;

    /// Changes a rule's policy, keeping what was consumed.
    fn change(&mut self, rule: &Self::Rule, policy: Policy, now: Tick) -> Self::Rule;

    /// Whether all keys are asked about just before such a change: a store that keeps states under
    /// each policy by itself may find an earlier state there, where only time has emptied it.
    fn is_asked_before_change(&mut self, _rule: &Self::Rule, _policy: &Policy) -> bool {
        false
    }

    /// Decides one request.
    fn decide(
        &mut self,
        on: (&Self::Rule, u64),
        now: Tick,
        cost: u32,
    ) -> (Decision, Option<Receipt>);

    /// Decides one request by several limits.
    fn decide_all(&mut self, on: &[(&Self::Rule, u64)], now: Tick, cost: u32) -> Vec<Answered>;

    /// Answers without charging.
    fn peek(&mut self, on: (&Self::Rule, u64), now: Tick, cost: u32) -> Decision;

    /// Gives a charge back.
    fn refund(&mut self, on: (&Self::Rule, u64), now: Tick, receipt: Receipt);

    /// Charges what has happened; nothing for permits.
    fn debit(&mut self, on: (&Self::Rule, u64), now: Tick, cells: u32) -> Option<Debited>;

    /// Gives cells back without a receipt.
    fn give_back(&mut self, on: (&Self::Rule, u64), now: Tick, cells: u32);

    /// By how many cells a key is overdrawn.
    fn overdrawn(&mut self, on: (&Self::Rule, u64), now: Tick) -> u32;

    /// Makes a key fresh.
    fn reset(&mut self, on: (&Self::Rule, u64));
}

/// What a store said, and the receipt of what it charged.
pub type Answered = (Decision, Option<Receipt>);

/// How many keys each rule is asked about: the numbers below this.
pub const KEYS: u64 = 5;

struct Model {
    policy: Policy,
    /// Each with the policy by which it was last asked about: it lives under that until it is asked
    /// about by another.
    states: Vec<(Policy, State)>,
    /// What may be refunded later: whose, when and how much.
    held: Vec<(u64, Tick, u32)>,
}

/// Walks `subject` through `steps` random steps from `seed`.
///
/// # Panics
///
/// At the first answer that differs from the core's, naming the seed.
pub fn check<S: Subject>(subject: &mut S, seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let mut now = Tick::from_micros(1_700_000_000_000_000 + rng.below(1 << 30));
    let mut rules: Vec<(S::Rule, Model)> = Vec::new();
    for kind in Kind::ALL {
        let policy = any_policy(kind, &mut rng);
        rules.push((subject.rule(policy), Model::new(policy)));
    }
    for step in 0..steps {
        now = now.after(Span::from_micros(rng.of_bits(22)));
        let index = usize::try_from(rng.below(rules.len() as u64)).unwrap_or(0);
        let key = rng.below(KEYS);
        let context = || format!("seed {seed}, step {step}");
        match rng.below(12) {
            0 => {
                let kind = if rng.one_in(2) { rules[index].1.policy.kind() } else { any(&mut rng) };
                let policy = any_policy(kind, &mut rng);
                let (rule, model) = &mut rules[index];
                if subject.is_asked_before_change(rule, &policy) {
                    for key in 0..KEYS {
                        let present = model.policy;
                        let expected = present.peek(model.state(key, now), now, 0);
                        assert_eq!(subject.peek((rule, key), now, 0), expected, "{}", context());
                    }
                }
                let rule = subject.change(&rules[index].0, policy, now);
                rules[index].1.policy = policy;
                // What stores know of the policy that a receipt was charged under is theirs.
                rules[index].1.held.clear();
                rules[index].0 = rule;
            }
            1 => {
                let (rule, model) = &mut rules[index];
                subject.reset((rule, key));
                *model.state(key, now) = model.policy.fresh();
            }
            2 => all_at_once(subject, &mut rules, &mut rng, now, &context),
            3 => {
                let (rule, model) = &mut rules[index];
                let cost = any_cost(&model.policy, &mut rng);
                let policy = model.policy;
                let expected = policy.peek(model.state(key, now), now, cost);
                assert_eq!(subject.peek((rule, key), now, cost), expected, "{}", context());
                let expected = policy.overdrawn(model.state(key, now), now);
                assert_eq!(subject.overdrawn((rule, key), now), expected, "{}", context());
            }
            4 => afterwards(subject, &mut rules[index], key, &mut rng, now, &context),
            _ => one(subject, &mut rules[index], key, &mut rng, now, &context),
        }
    }
}

fn one<S: Subject>(
    subject: &mut S,
    (rule, model): &mut (S::Rule, Model),
    key: u64,
    rng: &mut Rng,
    now: Tick,
    context: &dyn Fn() -> String,
) {
    let cost = any_cost(&model.policy, rng);
    let policy = model.policy;
    let (decision, receipt) = subject.decide((rule, key), now, cost);
    let (expected, model_receipt) = policy.decide_with_receipt(model.state(key, now), now, cost);
    assert_eq!(decision, expected, "{}: {policy:?}, cost {cost}", context());
    assert_eq!(receipt, model_receipt, "{}", context());
    let (Some(receipt), Some(model_receipt)) = (receipt, model_receipt) else { return };
    if rng.one_in(6) {
        subject.refund((rule, key), now, receipt);
        policy.refund(model.state(key, now), now, model_receipt);
    } else {
        model.hold(key, &model_receipt);
    }
}

/// A charge after the fact: a debit, cells that come back without a receipt, or a late refund.
fn afterwards<S: Subject>(
    subject: &mut S,
    (rule, model): &mut (S::Rule, Model),
    key: u64,
    rng: &mut Rng,
    now: Tick,
    context: &dyn Fn() -> String,
) {
    let policy = model.policy;
    let cells = any_cost(&policy, rng);
    if !policy.kind().has_debits() {
        assert_eq!(subject.debit((rule, key), now, cells), None, "{}", context());
        // Whether that carried the state to the present policy is the store's affair: a look does.
        let expected = policy.peek(model.state(key, now), now, 0);
        assert_eq!(subject.peek((rule, key), now, 0), expected, "{}", context());
        return;
    }
    match rng.below(4) {
        0 => {
            subject.give_back((rule, key), now, cells);
            policy.give_back(model.state(key, now), now, cells);
        }
        1 if !model.held.is_empty() => {
            let index = usize::try_from(rng.below(model.held.len() as u64)).unwrap_or(0);
            let (key, at, cost) = model.held.swap_remove(index);
            let back = cost - rng.below_u32(cost);
            subject.refund((rule, key), now, Receipt::new(at, back));
            policy.refund(model.state(key, now), now, Receipt::new(at, back));
        }
        _ => {
            let cells = cells.saturating_mul(1 + rng.below_u32(4));
            let debited = subject.debit((rule, key), now, cells);
            let expected = policy.debit(model.state(key, now), now, cells).ok();
            assert_eq!(debited, expected, "{}: {policy:?}, {cells} cells", context());
            if let Some(expected) = expected {
                model.hold(key, &expected.receipt);
            }
        }
    }
}

fn all_at_once<S: Subject>(
    subject: &mut S,
    rules: &mut [(S::Rule, Model)],
    rng: &mut Rng,
    now: Tick,
    context: &dyn Fn() -> String,
) {
    let keys: Vec<u64> = rules.iter().map(|_| rng.below(KEYS)).collect();
    let cost = 1 + rng.below_u32(3);
    let on: Vec<(&S::Rule, u64)> = rules.iter().zip(&keys).map(|(it, &key)| (&it.0, key)).collect();
    let answers = subject.decide_all(&on, now, cost);
    let policies: Vec<Policy> = rules.iter().map(|(_, model)| model.policy).collect();
    let states = rules.iter_mut().zip(&keys).map(|((_, model), &key)| model.state(key, now));
    let limits = policies.iter().zip(states);
    let mut limits: Vec<Limit<'_>> =
        limits.map(|(policy, state)| Limit::new(policy, state, cost)).collect();
    let _ = decide_all(&mut limits, now);
    let answered = |it: &mut Limit<'_>| it.answer().map(|answer| (answer, it.take_receipt()));
    let expected: Vec<Answered> = limits.iter_mut().filter_map(answered).collect();
    assert_eq!(answers, expected, "{}", context());
}

impl Model {
    fn new(policy: Policy) -> Model {
        let states = (0..KEYS).map(|_| (policy, policy.fresh())).collect();
        Model { policy, states, held: Vec::new() }
    }

    fn hold(&mut self, key: u64, receipt: &Receipt) {
        if 8 <= self.held.len() {
            self.held.remove(0);
        }
        if 0 < receipt.cost() {
            self.held.push((key, receipt.at(), receipt.cost()));
        }
    }

    fn state(&mut self, key: u64, now: Tick) -> &mut State {
        let key = usize::try_from(key).unwrap_or(0);
        let (policy, state) = &mut self.states[key];
        if *policy != self.policy {
            self.policy.carry(policy, state, now);
            *policy = self.policy;
        }
        state
    }
}

fn any(rng: &mut Rng) -> Kind {
    Kind::ALL[usize::try_from(rng.below(8)).unwrap_or(0)]
}

fn any_policy(kind: Kind, rng: &mut Rng) -> Policy {
    let quota = if rng.one_in(3) { rng.any_quota() } else { rng.small_quota() };
    let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
    let policy = Policy::new(kind, quota).expect("every quota of the range is accepted");
    let overdraft = match rng.below(6) {
        0 => Overdraft::Cells(rng.below_u32(policy.limit())),
        1 => Overdraft::Unlimited,
        _ => Overdraft::Again,
    };
    let refused = if rng.one_in(6) { Refused::Charge } else { Refused::Free };
    // Windows have no overdraft, and permits nothing to charge.
    let policy = policy.with_overdraft(overdraft).unwrap_or(policy);
    policy.with_refused(refused).unwrap_or(policy)
}

fn any_cost(policy: &Policy, rng: &mut Rng) -> u32 {
    let most = policy.limit().saturating_add(2);
    if rng.one_in(3) { rng.below_u32(most) } else { rng.below_u32(most.min(4)) }
}
