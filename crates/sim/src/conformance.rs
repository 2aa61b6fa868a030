//! What every store must answer: the same as the core, digit for digit.
//!
//! [`check`] walks any [`Store`] and a plain list of states through the same random requests,
//! looks, refunds, resets and changes of quota, on all algorithms.

use std::sync::Arc;

use tidegate_core::{
    Change, Decision, Kind, Limit, Policy, Quota, Shape, Span, State, Tick, WithoutStore,
    decide_all,
};
use tidegate_store::{
    Charged, Clock, Judgment, LimitCharge, ManualClock, Place, Store, StoreKey, StoreLimit,
    TextKey, Verb, WantedLimit, block_on,
};

use crate::rng::Rng;

/// How many keys each rule is asked about: the numbers below this.
const KEYS: u64 = 5;

/// A limit, in the store and as it should be.
struct Both {
    name: String,
    limit: StoreLimit,
    model: Model,
    /// What was charged is not dropped: a store may take permits back then.
    held: Vec<Charged>,
}

struct Model {
    policy: Policy,
    /// The policies that it had.
    had: Vec<Policy>,
    states: Vec<State>,
}

/// A store that is asked by numbers, and waited for.
struct Subject<'s> {
    store: &'s dyn Store,
    clock: Arc<dyn Clock>,
}

/// Walks `store`, which counts by `clock`, through `steps` random steps from `seed`.
///
/// # Panics
///
/// At the first answer that differs from the core's, naming the seed.
pub fn check(store: &dyn Store, clock: &Arc<ManualClock>, seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let start = Tick::from_micros(1_700_000_000_000_000 + rng.below(1 << 30));
    clock.advance(start.since(clock.now()));
    let subject = Subject { store, clock: Arc::clone(clock) as Arc<dyn Clock> };
    let mut limits: Vec<Both> = Vec::new();
    for kind in Kind::ALL {
        let (name, policy) = (format!("{seed}: {kind}"), any_policy(kind, &mut rng));
        let limit = subject.put(&name, policy, None);
        limits.push(Both { name, limit, model: Model::new(policy), held: Vec::new() });
    }
    for step in 0..steps {
        clock.advance(Span::from_micros(rng.of_bits(22)));
        let now = clock.now();
        let index = usize::try_from(rng.below(limits.len() as u64)).unwrap_or(0);
        let key = rng.below(KEYS);
        let context = || format!("seed {seed}, step {step}");
        let both = &mut limits[index];
        match rng.below(12) {
            0 => {
                let kind = if rng.one_in(2) { both.model.policy.kind() } else { any(&mut rng) };
                change(&subject, both, any_policy(kind, &mut rng), now);
            }
            1 => {
                subject.reset(both, key);
                *both.model.state(key) = both.model.policy.fresh();
            }
            2 => all_at_once(&subject, &mut limits, &mut rng, now, &context),
            3 => {
                let policy = both.model.policy;
                let cost = any_cost(&policy, &mut rng);
                let expected = policy.peek(both.model.state(key), now, cost);
                assert_eq!(subject.peek(both, key, cost), expected, "{}", context());
            }
            _ => one(&subject, both, key, &mut rng, now, &context),
        }
    }
}

fn change(subject: &Subject<'_>, both: &mut Both, policy: Policy, now: Tick) {
    let had = &mut both.model.had;
    had.push(both.model.policy);
    // Where others count by the same states, a key that nobody asks about between a policy and its
    // return is as if that policy had never gone. The model does not know this, so here somebody
    // asks.
    if subject.store.is_shared() && had.iter().any(|had| reads_alike(had, &policy)) {
        for key in 0..KEYS {
            subject.peek(both, key, 0);
        }
    }
    both.limit = subject.put(&both.name, policy, Some(&both.limit));
    both.model.change(policy, now);
}

fn one(
    subject: &Subject<'_>,
    both: &mut Both,
    key: u64,
    rng: &mut Rng,
    now: Tick,
    context: &dyn Fn() -> String,
) {
    let policy = both.model.policy;
    let cost = any_cost(&policy, rng);
    let mut judgment = subject.judge(&[(both, key)], Verb::Decide, cost);
    let (expected, receipt) = policy.decide_with_receipt(both.model.state(key), now, cost);
    let (decision, mut charged) = judgment.limits.remove(0);
    assert_eq!(decision, expected, "{}: {policy:?}, cost {cost}", context());
    if let Some(receipt) = receipt
        && rng.one_in(6)
    {
        subject.refund(both, key, &mut charged);
        policy.refund(both.model.state(key), now, receipt);
    }
    both.held.push(charged);
}

fn all_at_once(
    subject: &Subject<'_>,
    limits: &mut [Both],
    rng: &mut Rng,
    now: Tick,
    context: &dyn Fn() -> String,
) {
    // Of one tenant, or of several.
    let same = rng.one_in(2).then(|| rng.below(KEYS));
    let keys: Vec<u64> = limits.iter().map(|_| same.unwrap_or_else(|| rng.below(KEYS))).collect();
    let cost = 1 + rng.below_u32(3);
    let on: Vec<(&Both, u64)> = limits.iter().zip(keys.iter().copied()).collect();
    let judgment = subject.judge(&on, Verb::Decide, cost);
    let policies: Vec<Policy> = limits.iter().map(|both| both.model.policy).collect();
    let states = limits.iter_mut().zip(&keys).map(|(both, &key)| both.model.state(key));
    let judged = policies.iter().zip(states);
    let mut judged: Vec<Limit<'_>> =
        judged.map(|(policy, state)| Limit::new(policy, state, cost)).collect();
    let verdict = decide_all(&mut judged, now);
    let expected: Vec<Decision> = judged.iter().filter_map(Limit::answer).collect();
    let said: Vec<Decision> = judgment.limits.iter().map(|(decision, _)| *decision).collect();
    assert_eq!((judgment.verdict, said), (verdict, expected), "{}", context());
    for (both, (_, charged)) in limits.iter_mut().zip(judgment.limits) {
        both.held.push(charged);
    }
}

impl Subject<'_> {
    fn put(&self, name: &str, policy: Policy, before: Option<&StoreLimit>) -> StoreLimit {
        let wanted = WantedLimit {
            name: name.to_owned(),
            policy,
            without: WithoutStore::Closed,
            before,
            change: Change::Quota,
            besides: Vec::new(),
        };
        let put = self.store.put(&[wanted], self.store.now(&*self.clock));
        put.expect("there is room for one more").remove(0)
    }

    fn key(&self, number: u64) -> StoreKey {
        let text = || TextKey::in_tenant(number, number);
        let key = self.store.key_form().key(|keys| keys.key(("key", number)), text);
        key.expect("numbers are short")
    }

    fn judge(&self, on: &[(&Both, u64)], verb: Verb, cost: u32) -> Judgment {
        let keys: Vec<StoreKey> = on.iter().map(|(_, key)| self.key(*key)).collect();
        let charges = on
            .iter()
            .zip(&keys)
            .map(|((both, _), key)| LimitCharge { at: Place { limit: &both.limit, key }, cost });
        let charges: Vec<LimitCharge<'_>> = charges.collect();
        let now = self.store.now(&*self.clock);
        let judgment = block_on(self.store.judge(&charges, verb, now));
        assert!(!judgment.by.is_fallback(), "decided without the store: {}", judgment.by);
        assert_eq!(judgment.limits.len(), on.len(), "one answer for each limit");
        judgment
    }

    fn peek(&self, both: &Both, key: u64, cost: u32) -> Decision {
        self.judge(&[(both, key)], Verb::Peek, cost).limits[0].0
    }

    fn refund(&self, both: &Both, key: u64, charged: &mut Charged) {
        let at = Place { limit: &both.limit, key: &self.key(key) };
        block_on(self.store.settle(at, charged, 0, &self.clock));
    }

    fn reset(&self, both: &Both, key: u64) {
        let at = Place { limit: &both.limit, key: &self.key(key) };
        block_on(self.store.reset(at)).expect("a store that answers");
    }
}

impl Model {
    fn new(policy: Policy) -> Model {
        Model { policy, had: Vec::new(), states: (0..KEYS).map(|_| policy.fresh()).collect() }
    }

    fn state(&mut self, key: u64) -> &mut State {
        let key = usize::try_from(key).unwrap_or(0);
        &mut self.states[key]
    }

    fn change(&mut self, policy: Policy, now: Tick) {
        for state in &mut self.states {
            policy.carry(&self.policy, state, now);
        }
        self.policy = policy;
    }
}

fn reads_alike(a: &Policy, b: &Policy) -> bool {
    match (a.shape(), b.shape()) {
        (Shape::FixedWindow { per: a, .. }, Shape::FixedWindow { per: b, .. })
        | (Shape::Log { per: a, .. }, Shape::Log { per: b, .. })
        | (Shape::SlidingWindow { per: a, .. }, Shape::SlidingWindow { per: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

fn any(rng: &mut Rng) -> Kind {
    Kind::ALL[usize::try_from(rng.below(8)).unwrap_or(0)]
}

fn any_policy(kind: Kind, rng: &mut Rng) -> Policy {
    let quota = if rng.one_in(3) { rng.any_quota() } else { rng.small_quota() };
    let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
    Policy::new(kind, quota).expect("every quota of the range is accepted")
}

fn any_cost(policy: &Policy, rng: &mut Rng) -> u32 {
    let most = policy.limit().saturating_add(2);
    if rng.one_in(3) { rng.below_u32(most) } else { rng.below_u32(most.min(4)) }
}
