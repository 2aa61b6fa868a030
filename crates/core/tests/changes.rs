//! Quotas that change while keys are live: no sequence of changes pays.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Span, State, Tick, Verdict};
use tidegate_sim::rng::Rng;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

/// What passed, and when.
type Passed = Vec<(Tick, u32)>;

/// A key whose policy changes.
struct Key {
    policies: Vec<Policy>,
    present: usize,
    state: State,
    now: Tick,
    passed: Passed,
}

impl Key {
    fn new(policies: Vec<Policy>) -> Key {
        let state = policies[0].fresh();
        Key { policies, present: 0, state, now: NOW, passed: Vec::new() }
    }

    fn policy(&self) -> Policy {
        self.policies[self.present]
    }

    fn remaining(&mut self) -> u32 {
        self.policy().peek(&mut self.state, self.now, 0).remaining
    }

    fn change(&mut self, to: usize) {
        let old = std::mem::replace(&mut self.present, to);
        self.policies[to].carry(&self.policies[old], &mut self.state, self.now);
    }

    fn ask(&mut self, cost: u32) -> Verdict {
        let verdict = self.policy().decide(&mut self.state, self.now, cost).verdict;
        if verdict.passes() {
            self.passed.push((self.now, cost));
        }
        verdict
    }

    /// Asks, waits and changes by chance.
    fn live(&mut self, rng: &mut Rng, steps: usize, longest_wait: u64) {
        for _ in 0..steps {
            match rng.below(4) {
                0 => self.now = self.now.after(Span::from_micros(rng.below(longest_wait))),
                1 => self.change(usize::try_from(rng.below(self.policies.len() as u64)).unwrap()),
                2 => {
                    self.remaining();
                }
                _ => {
                    let _ = self.ask(1 + rng.below_u32(self.policy().limit()));
                }
            }
        }
    }

    /// The most that passed in any span that begins with a request, less what `allows` says of it.
    fn check(&self, allows: impl Fn(Span) -> u128) {
        for (index, (from, _)) in self.passed.iter().enumerate() {
            let mut sum = 0;
            for (at, cost) in &self.passed[index..] {
                sum += u128::from(*cost);
                let allowed = allows(at.since(*from));
                assert!(sum <= allowed, "{sum} of {allowed}: {:?}", self.policies);
            }
        }
    }
}

/// Over every span at most the largest burst, and what the largest rate earns.
#[test]
fn no_sequence_of_changes_lets_more_pass_than_the_largest_quotas_of_a_bucket() {
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let kind = [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket][(seed % 3) as usize];
        let quotas: Vec<Quota> = (0..3).map(|_| rng.small_quota()).collect();
        let policies = quotas.iter().map(|quota| Policy::new(kind, *quota).unwrap());
        let mut key = Key::new(policies.collect());
        key.live(&mut rng, 120, 2_000);
        let burst = u128::from(key.policies.iter().map(Policy::limit).max().unwrap());
        key.check(|span| {
            let earns = |quota: &Quota| {
                let cells = u128::from(span.get()) * u128::from(quota.cells());
                cells.div_ceil(quota.per().get().into())
            };
            burst + quotas.iter().map(earns).max().unwrap()
        });
    }
}

/// In every window at most the largest limit, and in a log in every span of its period.
#[test]
fn no_sequence_of_changes_lets_more_pass_than_the_largest_limit_of_a_window() {
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let kind = [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog][(seed % 3) as usize];
        let per = 1_000;
        let limits = [(); 3].map(|()| 1 + rng.below_u32(50));
        let quota = |limit| Quota::new(limit, Span::from_micros(per));
        let policies = limits.iter().map(|limit| Policy::new(kind, quota(*limit)).unwrap());
        let mut key = Key::new(policies.collect());
        key.live(&mut rng, 120, 700);
        let most = u128::from(*limits.iter().max().unwrap());
        if kind == Kind::SlidingLog {
            key.check(|span| if span.get() < per { most } else { u128::MAX });
            continue;
        }
        for window in NOW.get() / per..=key.now.get() / per {
            let is_in = |at: Tick| at.get() / per == window;
            let used: u128 =
                key.passed.iter().filter(|it| is_in(it.0)).map(|it| u128::from(it.1)).sum();
            assert!(used <= most, "{kind}: {used} of {most}");
        }
    }
}

/// A hundred cuts and raises in a fifth of a second.
#[test]
fn a_cut_and_a_raise_give_out_nothing() {
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket] {
        let policies = [100, 50].map(|cells| Policy::new(kind, Quota::per_second(cells)).unwrap());
        let mut key = Key::new(policies.to_vec());
        for turn in 0..100 {
            while key.ask(1).passes() {}
            key.now = key.now.after(Span::from_millis(2));
            key.change(1 - turn % 2);
        }
        let passed: u32 = key.passed.iter().map(|it| it.1).sum();
        assert!((100..=120).contains(&passed), "{kind}: {passed}");
    }
}

/// Not by way of another algorithm or another period either.
#[test]
fn what_a_key_lacks_survives_every_detour() {
    let full = Quota::per_minute(100);
    for kind in Kind::ALL {
        for via in Kind::ALL {
            for detour in [Quota::per_minute(50), Quota::per_hour(7), Quota::per_hour(5_000)] {
                let policies = [Policy::new(kind, full), Policy::new(via, detour)];
                let mut key = Key::new(policies.map(Result::unwrap).to_vec());
                assert!(key.ask(80).passes());
                for _ in 0..3 {
                    key.change(1);
                    assert_eq!(key.remaining(), key.policy().limit().saturating_sub(80));
                    key.change(0);
                }
                assert_eq!(key.remaining(), 20, "{kind} via {via} {detour}");
            }
        }
    }
}

/// A key that lacks more than its limit is refused until exactly the tick of the answer.
#[test]
fn retry_is_exact_after_a_cut() {
    for kind in Kind::ALL {
        let policies = [100, 30].map(|cells| Policy::new(kind, Quota::per_minute(cells)).unwrap());
        let mut key = Key::new(policies.to_vec());
        assert!(key.ask(90).passes());
        key.now = key.now.after(Span::from_millis(1));
        key.change(1);
        let Verdict::Deny { retry_after } = key.ask(3) else { panic!("{kind}: it lacks 90 of 30") };
        key.now = key.now.after(Span::from_micros(retry_after.get() - 1));
        assert!(!key.ask(3).passes(), "{kind}");
        key.now = key.now.after(Span::from_micros(1));
        assert!(key.ask(3).passes(), "{kind}");
    }
}
