//! Laws 10 and 11: a debit is never lost, and a refund is as if it had never been charged.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{
    Kind, Limit, NothingToDebit, Overdraft, Policy, Quota, QuotaError, Receipt, Refused, Span,
    State, Tick, Verdict, decide_all,
};
use tidegate_sim::oracle::Oracle;
use tidegate_sim::rng::Rng;

const START: u64 = 1_700_000_000_000_000;

fn at(seconds: u32) -> Tick {
    Tick::from_micros(START).after(Span::from_secs(seconds))
}

fn plain(kind: Kind, quota: Quota) -> Quota {
    if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) }
}

fn policy(kind: Kind, quota: Quota) -> Policy {
    Policy::new(kind, plain(kind, quota)).unwrap()
}

fn debits() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.has_debits())
}

fn remaining(policy: &Policy, state: &State, now: Tick) -> u32 {
    policy.peek(&mut state.clone(), now, 0).remaining
}

/// Shows `law` the states of a random walk: what is debited, before and when.
#[track_caller]
fn at_every_debit(law: impl Fn(&Policy, &State, Tick, u32)) {
    for kind in debits() {
        for seed in 0..600 {
            let mut rng = Rng::new(seed);
            let quota = if seed % 3 == 0 { rng.any_quota() } else { rng.small_quota() };
            let policy = policy(kind, quota);
            let (mut state, mut now) = (policy.fresh(), Tick::from_micros(START));
            for _ in 0..20 {
                now = now.after(Span::from_micros(rng.below(1 + quota.per().get() / 3)));
                let most = policy.limit().saturating_mul(3);
                let most = if rng.one_in(2) { most.min(8) } else { most };
                let cells = rng.below_u32(most);
                law(&policy, &state, now, cells);
                policy.decide(&mut state, now, rng.below_u32(policy.limit()));
                let _ = policy.debit(&mut state, now, cells / 2).unwrap();
            }
        }
    }
}

#[test]
fn law_10_a_debit_that_fits_is_as_if_it_had_been_admitted() {
    at_every_debit(|policy, before, now, cells| {
        let (mut debited, mut decided) = (before.clone(), before.clone());
        let debit = policy.debit(&mut debited, now, cells).unwrap();
        let (decision, receipt) = policy.decide_with_receipt(&mut decided, now, cells);
        if decision.verdict.passes() {
            assert_eq!((&debited, debit.forgiven), (&decided, 0));
            assert_eq!(Some(debit.receipt), receipt);
            assert_eq!(policy.peek(&mut debited, now, 0).remaining, decision.remaining);
        }
    });
}

#[test]
fn law_10_retry_is_exact_while_a_limit_is_overdrawn() {
    at_every_debit(|policy, before, now, cells| {
        let mut state = before.clone();
        let _ = policy.debit(&mut state, now, cells).unwrap();
        for cost in [0, 1, policy.limit()] {
            let passes = |at| policy.peek(&mut state.clone(), at, cost).verdict.passes();
            match policy.peek(&mut state.clone(), now, cost).verdict {
                Verdict::Deny { retry_after } if now.after(retry_after) < Tick::MAX => {
                    assert!(passes(now.after(retry_after)), "promised too early");
                    let sooner = Span::from_micros(retry_after.get() - 1);
                    assert!(!passes(now.after(sooner)), "promised too late");
                }
                verdict => assert!(verdict.passes() == passes(now), "{verdict:?}"),
            }
        }
        let overdrawn = policy.overdrawn(&mut state, now);
        assert_eq!(0 < overdrawn, !policy.peek(&mut state, now, 0).verdict.passes());
    });
}

#[test]
fn law_10_two_debits_are_one() {
    at_every_debit(|policy, before, now, cells| {
        let (mut twice, mut once) = (before.clone(), before.clone());
        let (first, rest) = (cells / 3, cells - cells / 3);
        let parts = [first, rest].map(|cells| policy.debit(&mut twice, now, cells).unwrap());
        let whole = policy.debit(&mut once, now, cells).unwrap();
        assert_eq!(twice, once);
        // Each is rounded up by itself.
        let forgiven = parts[0].forgiven + parts[1].forgiven;
        assert!((whole.forgiven..=whole.forgiven + 1).contains(&forgiven));
    });
}

/// Nothing is forgiven before as much again as the burst is owed, and all beyond it is.
#[test]
fn law_10_a_bucket_remembers_as_much_as_it_was_told_to() {
    let quota = Quota::per_second(1).burst(10);
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket, Kind::LeakyQueue] {
        for (overdraft, kept) in [
            (Overdraft::Again, 20),
            (Overdraft::Cells(3), 13),
            (Overdraft::Cells(50), 60),
            (Overdraft::Unlimited, 1_000_000),
        ] {
            let policy = policy(kind, quota).with_overdraft(overdraft).unwrap();
            let mut state = policy.fresh();
            let debited = policy.debit(&mut state, at(0), 1_000_000).unwrap();
            assert_eq!(debited.forgiven, 1_000_000 - kept, "{kind} {overdraft:?}");
            assert_eq!(debited.receipt.cost(), kept);
            assert_eq!(policy.overdrawn(&mut state, at(0)), kept - 10);
            assert_eq!(policy.overdrawn(&mut state, at(1)), kept - 11);
            assert_eq!(policy.forget_at(&state), at(kept));
        }
    }
}

#[test]
fn law_10_windows_and_logs_remember_all() {
    for kind in [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog] {
        let policy = policy(kind, Quota::per_hour(10));
        let mut state = policy.fresh();
        for debits in 1..=1_000_u32 {
            assert_eq!(policy.debit(&mut state, at(0), 7).unwrap().forgiven, 0);
            let over = (7 * debits).saturating_sub(10);
            assert_eq!(policy.overdrawn(&mut state, at(0)), over, "{kind}");
        }
        let debited = policy.debit(&mut state, at(0), u32::MAX).unwrap();
        assert_eq!(debited.forgiven, 7_000, "a count stops at its last number");
        assert_eq!(policy.debit(&mut state, at(0), 5).unwrap().forgiven, 5);
    }
}

#[test]
fn what_cannot_be_debited_says_so() {
    let permits = policy(Kind::Concurrency, Quota::per_minute(3));
    let mut state = permits.fresh();
    assert_eq!(permits.debit(&mut state, at(0), 1), Err(NothingToDebit));
    permits.decide(&mut state, at(0), 2);
    permits.give_back(&mut state, at(0), 2);
    assert_eq!(remaining(&permits, &state, at(0)), 1, "permits come back by their receipts");
    assert_eq!(permits.with_refused(Refused::Charge), Err(QuotaError::RefusedPermitsCharged));
    for kind in Kind::ALL {
        let overdraft = policy(kind, Quota::per_minute(3)).with_overdraft(Overdraft::Unlimited);
        assert_eq!(overdraft.is_ok(), kind.has_burst(), "{kind}");
    }
}

/// The example of the contract: time had given back five of the ten already.
#[test]
fn law_11_what_time_has_paid_is_not_given_back_again() {
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket] {
        let policy = policy(kind, Quota::per_second(1).burst(10));
        let mut state = policy.fresh();
        let (_, receipt) = policy.decide_with_receipt(&mut state, at(0), 10);
        assert!(policy.decide(&mut state, at(5), 5).verdict.passes());
        policy.refund(&mut state, at(5), receipt.unwrap());
        assert_eq!(remaining(&policy, &state, at(5)), 5, "{kind}");
    }
}

#[test]
fn law_11_at_once_all_comes_back() {
    for kind in Kind::ALL {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let quota = if seed % 3 == 0 { rng.any_quota() } else { rng.small_quota() };
            let policy = policy(kind, quota);
            let (mut state, now) = (policy.fresh(), Tick::from_micros(START));
            policy.decide(&mut state, now, rng.below_u32(policy.limit()));
            let before = remaining(&policy, &state, now);
            let cost = rng.below_u32(before.saturating_add(1));
            let (_, receipt) = policy.decide_with_receipt(&mut state, now, cost);
            policy.refund(&mut state, now, receipt.unwrap());
            assert_eq!(remaining(&policy, &state, now), before, "{kind} {quota}");
        }
    }
}

/// Nothing that a full state has forgiven comes back by refunding something else.
#[test]
fn law_11_a_clipped_debit_stays_whole() {
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket] {
        let policy = policy(kind, Quota::per_second(1).burst(10));
        let mut state = policy.fresh();
        let (_, receipt) = policy.decide_with_receipt(&mut state, at(0), 10);
        assert_eq!(policy.debit(&mut state, at(0), 20).unwrap().forgiven, 10);
        policy.refund(&mut state, at(0), receipt.unwrap());
        // Without the ten, all twenty would have been remembered.
        assert_eq!(policy.overdrawn(&mut state, at(0)), 10, "{kind}");
    }
}

/// One that is under way: where it stands in the oracle's history, its receipt, and its estimate.
struct Held {
    moment: usize,
    at: Tick,
    cells: u32,
}

/// A limit beside an oracle that charges what requests really cost when they came.
struct Walk {
    policy: Policy,
    state: State,
    truth: Oracle,
    held: Vec<Held>,
    now: Tick,
    /// Cells that were asked to be given back, and requests that passed.
    settled: u64,
    passed: u64,
}

impl Walk {
    fn new(policy: Policy, truth: Oracle) -> Walk {
        let (state, now) = (policy.fresh(), Tick::from_micros(START));
        Walk { policy, state, truth, held: Vec::new(), now, settled: 0, passed: 0 }
    }

    fn request(&mut self, cost: u32) {
        let (now, moment) = (self.now, self.truth.moment());
        let (decision, receipt) = self.policy.decide_with_receipt(&mut self.state, now, cost);
        if let Some(receipt) = receipt {
            let context = (&self.policy, &self.state, &self.truth);
            assert!(self.truth.would_pass(now, cost), "{cost} more passed: {context:?}");
            self.truth.charge(now, cost);
            self.hold(moment, &receipt);
            self.passed += 1;
        } else if self.policy.refused() == Refused::Charge && decision.verdict != Verdict::Never {
            self.truth.refuse(now, cost);
        }
    }

    fn debit(&mut self, cells: u32) {
        let moment = self.truth.moment();
        let Ok(debited) = self.policy.debit(&mut self.state, self.now, cells) else { return };
        self.truth.debit(self.now, cells);
        if debited.forgiven == 0 {
            self.hold(moment, &debited.receipt);
        }
    }

    fn hold(&mut self, moment: usize, receipt: &Receipt) {
        if 0 < receipt.cost() {
            self.held.push(Held { moment, at: receipt.at(), cells: receipt.cost() });
        }
    }

    /// One of those under way has cost less or more.
    fn settle(&mut self, rng: &mut Rng) {
        if self.held.is_empty() {
            return;
        }
        let index = rng.below(self.held.len() as u64);
        let Held { moment, at, cells } = self.held.swap_remove(usize::try_from(index).unwrap());
        if rng.one_in(5) {
            return self.debit(rng.below_u32(cells.min(100)));
        }
        let actual = if rng.one_in(2) { 0 } else { rng.below_u32(cells) };
        self.policy.refund(&mut self.state, self.now, Receipt::new(at, cells - actual));
        self.truth.as_if(moment, actual);
        self.settled += u64::from(cells - actual);
    }

    fn check(&self) {
        let (now, left) = (self.now, remaining(&self.policy, &self.state, self.now));
        let overdrawn = self.policy.overdrawn(&mut self.state.clone(), now);
        let said = || format!("{left} {overdrawn}: {:?} {:?}", self.policy, self.truth);
        assert!(self.truth.overdrawn(now).min(u32::MAX.into()) <= overdrawn.into(), "{}", said());
        assert!(0 < overdrawn || self.truth.would_pass(now, left), "{}", said());
    }

    fn run(&mut self, quota: Quota, rng: &mut Rng, with_debits: bool) {
        for _ in 0..40 {
            let pace = [1, quota.per().get() / 50 + 1, quota.per().get() / 4 + 1];
            let pace = pace[usize::try_from(rng.below(3)).unwrap()];
            self.now = self.now.after(Span::from_micros(rng.below(pace)));
            let most = self.policy.limit().saturating_add(1);
            let most = if rng.one_in(3) { most } else { most.min(6) };
            let cost = rng.below_u32(most);
            match rng.below(8) {
                0..3 => self.settle(rng),
                3 if with_debits => self.debit(cost.saturating_mul(2)),
                _ => self.request(cost),
            }
            self.check();
        }
    }
}

#[test]
fn law_11_nothing_passes_that_would_not_have_had_the_truth_been_charged() {
    // A queue gives back its last slot only, which is exact.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::LeakyQueue) {
        let (mut passed, mut settled) = (0, 0);
        for seed in 0..4_000 {
            let mut rng = Rng::new(seed);
            let quota = if seed % 4 == 0 { rng.any_quota() } else { rng.small_quota() };
            let (mut policy, mut truth) =
                (policy(kind, quota), Oracle::new(kind, plain(kind, quota)));
            if kind.has_burst() && rng.one_in(2) {
                let cells = rng.below_u32(policy.limit().saturating_mul(2));
                policy = policy.with_overdraft(Overdraft::Cells(cells)).unwrap();
                truth = truth.overdraft(Some(cells));
            }
            // The sum of a log stops at 2^32 - 1, and is less than the truth when others leave.
            let is_huge = kind == Kind::SlidingLog && 1 << 25 < policy.limit();
            let mut walk = Walk::new(policy, truth);
            walk.run(quota, &mut rng, seed % 3 != 0 && !is_huge);
            passed += walk.passed;
            settled += walk.settled;
        }
        assert!(20_000 < passed && 10_000 < settled, "{kind}: {passed} passed, {settled} settled");
    }
}

#[test]
fn law_11_holds_where_refusals_are_charged() {
    for kind in debits().filter(|kind| *kind != Kind::LeakyQueue) {
        for seed in 0..3_000 {
            let mut rng = Rng::new(seed);
            let quota = rng.small_quota();
            let policy = policy(kind, quota).with_refused(Refused::Charge).unwrap();
            let truth = Oracle::new(kind, plain(kind, quota)).refusals();
            Walk::new(policy, truth).run(quota, &mut rng, false);
        }
    }
}

#[test]
fn without_a_receipt_at_most_what_is_owed_comes_back() {
    for kind in debits().filter(|kind| *kind != Kind::LeakyQueue) {
        let policy = policy(kind, Quota::per_minute(10));
        let mut state = policy.fresh();
        policy.give_back(&mut state, at(20), 3);
        assert_eq!(remaining(&policy, &state, at(20)), 10, "{kind}");
        policy.decide(&mut state, at(20), 8);
        policy.give_back(&mut state, at(20), 3);
        assert_eq!(remaining(&policy, &state, at(20)), 5, "{kind}");
        policy.give_back(&mut state, at(20), 300);
        assert_eq!(remaining(&policy, &state, at(20)), 10, "{kind}");
        policy.decide(&mut state, at(20), 1);
        assert_eq!(remaining(&policy, &state, at(20)), 9, "{kind}: nothing was saved up");
    }
    // Of an earlier window nothing comes back: at(20) is 20 s into one, and at(50) is in the next.
    for kind in [Kind::FixedWindow, Kind::SlidingWindow] {
        let policy = policy(kind, Quota::per_minute(10));
        let mut state = policy.fresh();
        policy.decide(&mut state, at(20), 10);
        let before = remaining(&policy, &state, at(50));
        policy.give_back(&mut state, at(50), 10);
        assert_eq!(remaining(&policy, &state, at(50)), before, "{kind}");
    }
}

#[test]
fn hammering_does_not_pay_where_refusals_are_charged() {
    for kind in debits() {
        let policy = policy(kind, Quota::per_minute(10)).with_refused(Refused::Charge).unwrap();
        let mut state = policy.fresh();
        let _ = policy.decide(&mut state, at(20), 9);
        // Would wait for one cell; is charged for both, and then waits for them.
        let refused = policy.decide(&mut state, at(20), 2);
        let Verdict::Deny { retry_after } = refused.verdict else { panic!("{refused:?}") };
        assert_eq!(policy.overdrawn(&mut state, at(20)), 1, "{kind}");
        let then = at(20).after(retry_after);
        assert!(policy.peek(&mut state.clone(), then, 2).verdict.passes(), "{kind}");
        let sooner = at(20).after(Span::from_micros(retry_after.get() - 1));
        assert!(!policy.peek(&mut state.clone(), sooner, 2).verdict.passes(), "{kind}");
        for _ in 0..50 {
            assert!(!policy.decide(&mut state, at(20), 7).verdict.passes());
        }
        assert_eq!(policy.overdrawn(&mut state, at(20)), 10, "{kind}: it stops at one burst");
        assert_eq!(policy.decide(&mut policy.fresh(), at(20), 11).verdict, Verdict::Never);
        let mut fresh = policy.fresh();
        policy.decide(&mut fresh, at(20), 11);
        assert_eq!(remaining(&policy, &fresh, at(20)), 10, "{kind}: it could never pass");
    }
}

/// Only the limits that refuse and charge for it are charged; the others are not.
#[test]
fn of_several_limits_only_those_that_refuse_are_charged_for_it() {
    let free = policy(Kind::TokenBucket, Quota::per_minute(3));
    let large = policy(Kind::Gcra, Quota::per_minute(100));
    let [strict, large] = [free, large].map(|policy| policy.with_refused(Refused::Charge).unwrap());
    let policies = [free, strict, large];
    let mut states = policies.map(|policy| policy.fresh());
    for wanted in [true, false] {
        let [a, b, c] = &mut states;
        let mut limits =
            [Limit::new(&free, a, 2), Limit::new(&strict, b, 2), Limit::new(&large, c, 2)];
        let together = decide_all(&mut limits, at(0));
        assert_eq!(together.passes(), wanted);
        let longest = limits.iter().filter_map(|limit| match limit.answer()?.verdict {
            Verdict::Deny { retry_after } => Some(retry_after),
            _ => None,
        });
        if let Verdict::Deny { retry_after } = together {
            assert_eq!(Some(retry_after), longest.max());
            // It owes four of three, and waits until it owes one.
            assert_eq!(retry_after, Span::from_secs(60));
        }
    }
    let left = [0, 1, 2].map(|index: usize| remaining(&policies[index], &states[index], at(0)));
    assert_eq!(left, [1, 0, 98]);
    assert_eq!(strict.overdrawn(&mut states[1], at(0)), 1);
}

/// What is packed into words and what is not decide alike, also where refusals are charged.
#[test]
fn words_charge_refusals_as_states_do() {
    for kind in [Kind::TokenBucket, Kind::LeakyQueue] {
        let policy = policy(kind, Quota::per_minute(5)).with_refused(Refused::Charge).unwrap();
        let (mut word, mut state) = (0, policy.fresh());
        for second in 0..200 {
            let (now, cost) = (at(second / 2), second % 4);
            let expected = policy.decide(&mut state, now, cost);
            assert_eq!(policy.decide_only_word(&mut word.clone(), now, cost), None);
            assert_eq!(policy.decide_word(&mut word, now, cost), expected);
            assert_eq!(policy.pack(&state)[0], word);
        }
    }
}
