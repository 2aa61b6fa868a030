//! Permits that are renewed: what a holder may count on, and what it can never gain by it.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Receipt, Span, State, Tick};
use tidegate_sim::rng::Rng;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn permits(limit: u32, lease: Span) -> Policy {
    Policy::new(Kind::Concurrency, Quota::in_flight(limit, lease)).unwrap()
}

fn in_flight(policy: &Policy, state: &State, now: Tick) -> u32 {
    policy.limit() - policy.peek(&mut state.clone(), now, 0).remaining
}

fn later(now: Tick, ticks: u64) -> Tick {
    now.after(Span::from_micros(ticks))
}

/// The receipt once more, for tests that do what a holder cannot.
fn copy(receipt: &Receipt) -> Receipt {
    Receipt::new(receipt.at(), receipt.cost())
}

/// A random walk of takes, releases and renewals, with what each holder knows of its permit.
struct Walk {
    policy: Policy,
    lease: Span,
    state: State,
    held: Vec<Receipt>,
    now: Tick,
    latest: Tick,
}

impl Walk {
    fn new(rng: &mut Rng) -> Walk {
        let lease = Span::from_micros(1 + rng.below(100_000));
        let policy = permits(1 + rng.below_u32(20), lease);
        let now = later(NOW, rng.below(1_000));
        let mut state = policy.fresh();
        policy.peek(&mut state, now, 0);
        Walk { policy, lease, state, held: vec![], now, latest: now }
    }

    /// Goes on, or one time in eight back.
    fn passes_time(&mut self, rng: &mut Rng) {
        let step = rng.below(1 + self.lease.get() / 3);
        self.now = if rng.one_in(8) {
            Tick::from_micros(self.now.get() - step)
        } else {
            later(self.now, step)
        };
        self.latest = self.latest.max(self.now);
        self.policy.peek(&mut self.state, self.now, 0);
        self.held.retain(|receipt| self.now.since(receipt.at()) < self.lease);
    }

    fn take(&mut self, rng: &mut Rng) {
        let cost = 1 + rng.below_u32(3);
        let (_, receipt) = self.policy.decide_with_receipt(&mut self.state, self.now, cost);
        self.held.extend(receipt);
    }

    fn any(&mut self, rng: &mut Rng) -> Option<Receipt> {
        let count = self.held.len();
        let index = usize::try_from(rng.below(count.max(1) as u64)).unwrap();
        (index < count).then(|| self.held.swap_remove(index))
    }

    fn in_flight(&self) -> u32 {
        in_flight(&self.policy, &self.state, self.now)
    }

    /// What is remembered is what the holders hold, each from the tick on its receipt.
    fn check(&self) {
        let mut expected: Vec<(Tick, u32)> = Vec::new();
        let mut held: Vec<&Receipt> = self.held.iter().collect();
        held.sort_by_key(|receipt| receipt.at());
        for receipt in held {
            match expected.last_mut() {
                Some((at, cells)) if *at == receipt.at() => *cells += receipt.cost(),
                _ => expected.push((receipt.at(), receipt.cost())),
            }
        }
        assert_eq!(self.policy.events(&self.state).collect::<Vec<_>>(), expected);
        assert!(self.in_flight() <= self.policy.limit());
    }
}

fn walks(mut each: impl FnMut(&mut Walk, &mut Rng)) {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut walk = Walk::new(&mut rng);
        for _ in 0..60 {
            walk.passes_time(&mut rng);
            match rng.below(4) {
                0 => {
                    if let Some(receipt) = walk.any(&mut rng) {
                        walk.policy.refund(&mut walk.state, walk.now, receipt);
                    }
                }
                1 => each(&mut walk, &mut rng),
                _ => walk.take(&mut rng),
            }
            walk.check();
        }
    }
}

#[test]
fn a_renewal_changes_no_count_and_the_permit_counts_from_now() {
    let mut renewals = 0;
    walks(|walk, rng| {
        let Some(receipt) = walk.any(rng) else { return };
        let (before, cost) = (walk.in_flight(), receipt.cost());
        let renewed = walk.policy.renew(&mut walk.state, walk.now, receipt).expect("it is held");
        // As a charge: from now, or from the latest tick if the clock has gone back.
        assert_eq!(renewed, Receipt::new(walk.latest, cost));
        assert_eq!(walk.in_flight(), before);
        walk.held.push(renewed);
        renewals += 1;
    });
    assert!(10_000 < renewals, "{renewals}");
}

#[test]
fn a_renewed_permit_lapses_exactly_one_period_later() {
    walks(|walk, rng| {
        let Some(receipt) = walk.any(rng) else { return };
        let cost = receipt.cost();
        let renewed = walk.policy.renew(&mut walk.state, walk.now, receipt).unwrap();
        let end = renewed.at().after(walk.lease);
        let just_before = Tick::from_micros(end.get() - 1);
        // By the end nothing else is newer, so it is the last to go.
        assert!(cost <= in_flight(&walk.policy, &walk.state, just_before));
        assert_eq!(in_flight(&walk.policy, &walk.state, end), 0);
        assert_eq!(walk.policy.forget_at(&walk.state), end);
        let (mut held, mut lapsed) = (walk.state.clone(), walk.state.clone());
        assert!(walk.policy.renew(&mut held, just_before, copy(&renewed)).is_some());
        assert_eq!(walk.policy.renew(&mut lapsed, end, copy(&renewed)), None);
        walk.held.push(renewed);
    });
}

#[test]
fn a_renewed_permit_is_released_by_its_new_receipt_and_by_no_other() {
    let mut voids = 0;
    walks(|walk, rng| {
        let Some(receipt) = walk.any(rng) else { return };
        let old = copy(&receipt);
        let renewed = walk.policy.renew(&mut walk.state, walk.now, receipt).unwrap();
        let full = walk.in_flight();
        // A receipt is known by its tick: others of the same one would be taken for it.
        if renewed.at() != old.at() && walk.held.iter().all(|it| it.at() != old.at()) {
            assert_eq!(walk.policy.renew(&mut walk.state, walk.now, copy(&old)), None);
            walk.policy.refund(&mut walk.state, walk.now, old);
            assert_eq!(walk.in_flight(), full, "the old receipt gave something back");
            voids += 1;
        }
        let cost = renewed.cost();
        walk.policy.refund(&mut walk.state, walk.now, renewed);
        assert_eq!(walk.in_flight(), full - cost);
    });
    assert!(3_000 < voids, "{voids}");
}

#[test]
fn what_has_lapsed_is_not_renewed_and_nothing_comes_of_trying() {
    let policy = permits(3, Span::from_secs(10));
    let mut state = policy.fresh();
    let (_, first) = policy.decide_with_receipt(&mut state, NOW, 2);
    let end = NOW.after(Span::from_secs(10));
    let (_, second) = policy.decide_with_receipt(&mut state, end, 3);
    assert!(second.is_some(), "the first has made room");
    assert_eq!(policy.renew(&mut state, end, first.unwrap()), None);
    assert_eq!(in_flight(&policy, &state, end), 3);
    assert_eq!(policy.renew(&mut state, end, Receipt::new(end, 0)), None, "holds nothing");
    assert_eq!(policy.renew(&mut policy.fresh(), end, Receipt::new(end, 1)), None);
    // Released is as good as lapsed.
    let second = second.unwrap();
    policy.refund(&mut state, end, copy(&second));
    assert_eq!(policy.renew(&mut state, end, second), None);
}

#[test]
fn only_permits_are_renewed() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Concurrency) {
        let policy = Policy::new(kind, Quota::per_minute(5)).unwrap();
        let mut state = policy.fresh();
        let (_, receipt) = policy.decide_with_receipt(&mut state, NOW, 1);
        let before = state.clone();
        assert_eq!(policy.renew(&mut state, NOW, receipt.unwrap()), None, "{kind}");
        assert_eq!(state, before, "{kind}");
        // Nor is a state of another kind taken for one.
        let permits = permits(5, Span::from_secs(60));
        let found = permits.renew(&mut state, NOW, Receipt::new(NOW, 1));
        assert_eq!(found.is_some(), kind == Kind::SlidingLog, "{kind}");
    }
}

/// Past 32,768 permits those of one short while are kept together; each is still renewed by itself.
#[test]
fn permits_that_are_kept_together_are_renewed_one_by_one() {
    let lease = Span::from_secs(60);
    let policy = permits(100_000, lease);
    let mut state = policy.fresh();
    let mut now = NOW;
    let mut held: Vec<Receipt> = Vec::new();
    for _ in 0..40_000 {
        now = later(now, 60);
        held.extend(policy.decide_with_receipt(&mut state, now, 1).1);
    }
    let events = policy.events(&state).count();
    assert!(events < 40_000, "nothing is kept together: {events}");
    for receipt in held.drain(37_000..).collect::<Vec<_>>() {
        now = later(now, 60);
        held.push(policy.renew(&mut state, now, receipt).expect("it is held"));
        assert_eq!(in_flight(&policy, &state, now), 40_000);
    }
    for receipt in held {
        policy.refund(&mut state, now, receipt);
    }
    assert_eq!(in_flight(&policy, &state, now), 0);
}

/// One that has lapsed takes nothing from a neighbor that it was kept together with.
#[test]
fn a_permit_that_has_lapsed_is_not_renewed_by_what_others_hold() {
    let lease = Span::from_secs(60);
    let policy = permits(100_000, lease);
    let mut state = policy.fresh();
    for index in 0..33_000 {
        policy.decide(&mut state, later(NOW, index), 1);
    }
    // At the start of a short while, as events are kept: a 16,384th of the lease.
    let short = lease.get().div_ceil(16_384);
    let first_at = Tick::from_micros((NOW.get() + 100_000).next_multiple_of(short));
    let (_, first) = policy.decide_with_receipt(&mut state, first_at, 1);
    let (_, second) = policy.decide_with_receipt(&mut state, later(first_at, 1_000), 1);
    let now = later(first_at, lease.get() + 500);
    assert_eq!(in_flight(&policy, &state, now), 2, "they are not kept together");
    assert_eq!(policy.renew(&mut state, now, first.unwrap()), None);
    assert!(policy.renew(&mut state, now, second.unwrap()).is_some());
}

/// Any tick after any other, to the ends of time: no panic, and never more in flight than before.
#[test]
fn no_clock_makes_a_renewal_pay() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let quota = rng.any_quota();
        let policy = permits(quota.cells(), quota.per());
        let mut state = policy.fresh();
        for _ in 0..40 {
            let now = Tick::from_micros(rng.of_bits(60));
            let cost = u32::try_from(rng.of_bits(32)).unwrap();
            let Some(receipt) = policy.decide_with_receipt(&mut state, now, cost).1 else {
                continue;
            };
            let then = Tick::from_micros(rng.of_bits(60));
            let before = in_flight(&policy, &state, then);
            if let Some(renewed) = policy.renew(&mut state, then, receipt) {
                assert!(then <= renewed.at() && renewed.cost() == cost);
            }
            assert_eq!(in_flight(&policy, &state, then), before);
        }
    }
}
