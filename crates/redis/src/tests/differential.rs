//! The scripts beside the core: same verdicts, same numbers, same state, over random traces.

use tidegate_core::{
    Debited, Kind, Overdraft, Policy, Quota, Receipt, Refused, Span, State, Tick, Verdict,
};
use tidegate_sim::rng::Rng;
use tidegate_testbed::Flavor;

use super::bench_server::Bench;
use crate::call::{Limit, Outcome, Request, Run};
use crate::plan::Does;
use crate::rule::{FleetRule, Place};
use crate::{found, value};
use tidegate_store::TextKey as FleetKey;

/// Steps by algorithm, on the first server; others take fewer.
const STEPS: u32 = 200_000;
/// Keys side by side, each with a policy of its own: one call decides for all of them.
const TRACES: usize = 50;

/// One key, what the core remembers of it, and what it was charged.
struct Trace {
    rule: FleetRule,
    key: FleetKey,
    state: State,
    receipts: Vec<Receipt>,
}

/// What a trace does next.
struct Step {
    request: Request,
    count: u32,
}

impl Step {
    fn run(&self) -> Run<'_> {
        Run { request: &self.request, count: self.count }
    }
}

#[test]
fn scripts_and_core_agree_on_every_algorithm() {
    for flavor in Flavor::all_there() {
        let steps = if let Flavor::Redis = flavor { STEPS } else { STEPS / 10 };
        let mut bench = Bench::start(flavor);
        for (seed, kind) in (1..).zip(Kind::ALL) {
            check(&mut bench, kind, seed, steps);
        }
        calendars(&mut bench, steps);
    }
}

fn check(bench: &mut Bench, kind: Kind, seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    walk(bench, &mut rng, steps, &format!("{kind}, seed {seed}"), &|rng| any_policy(kind, rng));
}

fn calendars(bench: &mut Bench, steps: u32) {
    let policy = |rng: &mut Rng| {
        let start = START - rng.below(1 << 26);
        let middle = start + 1 + rng.below(1 << 26);
        let end = middle + 1 + rng.below(1 << 26);
        let boundaries = [start, middle, end].map(Tick::from_micros);
        with_debts(Policy::calendar(1 + rng.below_u32(30), boundaries).unwrap(), rng)
    };
    walk(bench, &mut Rng::new(99), steps, "calendar", &policy);
}

const START: u64 = 1_700_000_000_000_000;

fn walk(
    bench: &mut Bench,
    rng: &mut Rng,
    steps: u32,
    context: &str,
    policy: &dyn Fn(&mut Rng) -> Policy,
) {
    let mut taken = 0;
    let mut epoch = 0;
    while taken < steps {
        epoch += 1;
        // Now and then all keys are of one rule: such calls have a script of their own.
        let shared = rng.one_in(4).then(|| FleetRule::new("r", policy(rng)));
        let mut traces: Vec<Trace> = (0..TRACES)
            .map(|index| {
                let rule = shared.clone().unwrap_or_else(|| FleetRule::new("r", policy(rng)));
                Trace::new(rule, &format!("{context} {epoch} {index}"))
            })
            .collect();
        let mut now = Tick::from_micros(START + rng.below(1 << 20));
        for _ in 0..100 {
            now = any_next(now, rng);
            let steps: Vec<Step> = if shared.is_some() && !rng.one_in(4) {
                let cost = traces[0].any_cost(rng);
                traces.iter().map(|trace| trace.step(Does::Decide, cost, rng)).collect()
            } else {
                traces.iter_mut().map(|trace| trace.next(rng)).collect()
            };
            // Together in one call, or each in its own.
            let at_once = if rng.one_in(8) { 1 } else { TRACES };
            for (traces, steps) in traces.chunks_mut(at_once).zip(steps.chunks(at_once)) {
                take_steps(bench, traces, steps, now, context);
                taken += u32::try_from(steps.len()).unwrap();
            }
        }
        for trace in &mut traces {
            trace.compare_state(bench, now, context);
        }
    }
}

fn take_steps(bench: &mut Bench, traces: &mut [Trace], steps: &[Step], now: Tick, context: &str) {
    let runs: Vec<Run<'_>> = steps.iter().map(Step::run).collect();
    let outcomes = bench.decide(&runs, now);
    for ((trace, step), outcome) in traces.iter_mut().zip(steps).zip(outcomes) {
        trace.compare(bench, (step, outcome), now, context);
    }
}

/// Mostly a little later; sometimes much, sometimes back.
fn any_next(now: Tick, rng: &mut Rng) -> Tick {
    match rng.below(20) {
        0 => Tick::from_micros(now.get() - rng.of_bits(24)),
        1 => now.after(Span::from_micros(rng.of_bits(40))),
        _ => now.after(Span::from_micros(rng.of_bits(22))),
    }
}

fn any_policy(kind: Kind, rng: &mut Rng) -> Policy {
    let quota = if rng.one_in(3) { rng.any_quota() } else { rng.small_quota() };
    let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
    with_debts(Policy::new(kind, quota).unwrap(), rng)
}

/// `policy` as it is, or with another overdraft, or where refusals are charged.
fn with_debts(policy: Policy, rng: &mut Rng) -> Policy {
    let overdraft = match rng.below(4) {
        0 => Overdraft::Cells(rng.below_u32(policy.limit().saturating_mul(3))),
        1 => Overdraft::Unlimited,
        _ => Overdraft::Again,
    };
    let policy = policy.with_overdraft(overdraft).unwrap_or(policy);
    let refused = if rng.one_in(3) { Refused::Charge } else { Refused::Free };
    policy.with_refused(refused).unwrap_or(policy)
}

impl Trace {
    fn new(rule: FleetRule, name: &str) -> Trace {
        let (key, state) = (FleetKey::new(name).unwrap(), rule.policy().fresh());
        Trace { rule, key, state, receipts: vec![] }
    }

    fn any_cost(&self, rng: &mut Rng) -> u32 {
        let most = self.rule.policy().limit().saturating_add(2);
        if rng.one_in(3) { rng.below_u32(most) } else { rng.below_u32(most.min(4)) }
    }

    fn next(&mut self, rng: &mut Rng) -> Step {
        let cost = self.any_cost(rng);
        let (does, cost) = match rng.below(16) {
            0 => (Does::Peek, cost),
            1 if rng.one_in(4) => (Does::Reset, 0),
            4 if self.rule.policy().kind().has_debits() => {
                let much = rng.one_in(3);
                (Does::Debit, if much { cost.saturating_mul(1 + rng.below_u32(3)) } else { cost })
            }
            5 if self.gives_back() && rng.one_in(2) => (Does::GiveBack, cost),
            2..4 if !self.receipts.is_empty() => {
                let index = rng.below(self.receipts.len() as u64);
                let receipt = &self.receipts[usize::try_from(index).unwrap()];
                let (at, cost) = (receipt.at(), receipt.cost());
                // Mostly one that is held; sometimes one that has lapsed or never was.
                let at = if rng.one_in(16) { at.after(Span::from_micros(1)) } else { at };
                let is_permit = self.rule.policy().kind() == Kind::Concurrency;
                if is_permit && rng.one_in(2) {
                    (Does::Renew { at }, cost.max(1))
                } else {
                    (Does::refund(&Receipt::new(at, cost)), cost)
                }
            }
            _ => (Does::Decide, cost),
        };
        self.step(does, cost, rng)
    }

    /// Whether anything comes back without a receipt.
    fn gives_back(&self) -> bool {
        !matches!(self.rule.policy().kind(), Kind::Concurrency | Kind::LeakyQueue)
    }

    fn step(&self, does: Does, cost: u32, rng: &mut Rng) -> Step {
        let place = self.rule.place("t:", &self.key);
        let limit = Limit { rule: self.rule.clone(), place, cost, formers: 0 };
        let request = Request { does, slot: 0, limits: std::iter::once(limit).collect() };
        let count = if rng.one_in(4) { 1 + rng.below_u32(40) } else { 1 };
        let count = count.min(request.most_alike());
        Step { request, count }
    }

    fn compare(
        &mut self,
        bench: &mut Bench,
        (step, outcome): (&Step, Outcome<'_>),
        now: Tick,
        context: &str,
    ) {
        let policy = *self.rule.policy();
        let cost = step.request.limits[0].cost;
        let at = || format!("{context}: {policy:?} at {now:?}, {:?} {cost}", step.request.does);
        if let (Does::Renew { at: taken }, Outcome::Renewed(renewed)) =
            (step.request.does, &outcome)
        {
            return self.compare_renewal((taken, cost), renewed, now, &at());
        }
        if let (Does::Refund { at: taken, .. }, Outcome::Refunded(is_back)) =
            (step.request.does, &outcome)
        {
            let place = &step.request.limits[0].place;
            return self.compare_refund(bench, (place, taken, cost), *is_back, now, &at());
        }
        if let Outcome::Debited(debits) = &outcome {
            return self.compare_debit(debits, now, cost, &at());
        }
        let Outcome::Decided { passed, mut found } = outcome else { panic!("{}", at()) };
        match step.request.does {
            Does::Reset => self.state = policy.fresh(),
            Does::Peek => {
                let (_, answers) = found::peek(&mut found, now);
                let expected = policy.peek(&mut self.state.clone(), now, cost);
                assert_eq!(answers[0].decision, expected, "{}", at());
                let overdrawn = policy.overdrawn(&mut self.state.clone(), now);
                assert_eq!(answers[0].overdrawn, overdrawn, "{}", at());
                assert_eq!(passed == step.count, expected.verdict.passes(), "{}", at());
            }
            Does::GiveBack if cost == 0 => {}
            Does::GiveBack => {
                policy.give_back(&mut self.state, now, cost);
                self.forget_paid(bench, &step.request.limits[0].place, now);
            }
            Does::Debit | Does::Renew { .. } | Does::Refund { .. } => {
                unreachable!("not asked for")
            }
            Does::Decide => {
                let mut model = self.state.clone();
                for index in 0..step.count {
                    let (_, mut answers) = found::decide(&mut found, now);
                    let one = answers.pop().unwrap();
                    let (expected, receipt) = policy.decide_with_receipt(&mut model, now, cost);
                    assert_eq!(one.decision, expected, "{}, {index} of {}", at(), step.count);
                    assert_eq!(one.receipt, receipt, "{}", at());
                    let by_script = index < passed;
                    assert_eq!(by_script, expected.verdict.passes(), "{}", at());
                    let overdrawn = policy.overdrawn(&mut model.clone(), now);
                    assert_eq!(one.overdrawn, overdrawn, "{}", at());
                    // What does not pass is not written, nor what time did to it, unless it is
                    // charged for that.
                    let is_denied = matches!(expected.verdict, Verdict::Deny { .. });
                    let is_charged = policy.refused() == Refused::Charge && is_denied;
                    if (by_script || is_charged) && 0 < cost {
                        self.state = model.clone();
                        self.receipts.extend(receipt);
                    }
                }
                let excess = self.receipts.len().saturating_sub(8);
                self.receipts.drain(..excess);
            }
        }
    }

    fn compare_refund(
        &mut self,
        bench: &mut Bench,
        (place, taken, cost): (&Place, Tick, u32),
        is_back: bool,
        now: Tick,
        context: &str,
    ) {
        let policy = *self.rule.policy();
        let receipt = Receipt::new(taken, cost);
        assert_eq!(is_back, policy.takes_back(&self.state, now, &receipt), "{context}");
        policy.refund(&mut self.state, now, receipt);
        self.forget_paid(bench, place, now);
        self.receipts.retain(|receipt| receipt.at() != taken);
    }

    /// What is as good as fresh is forgotten, even if the clock then goes back.
    fn forget_paid(&mut self, bench: &mut Bench, place: &Place, now: Tick) {
        let policy = self.rule.policy();
        if policy.is_fresh(&self.state, now) && bench.value(&place.name).is_empty() {
            self.state = policy.fresh();
        }
    }

    fn compare_debit(&mut self, debits: &[Debited], now: Tick, cells: u32, context: &str) {
        // Of nothing, nothing is written, nor what time did.
        let mut model = self.state.clone();
        let expected = self.rule.policy().debit(&mut model, now, cells).unwrap();
        if 0 < cells {
            self.state = model;
        }
        assert_eq!(debits, std::slice::from_ref(&expected), "{context}");
        self.receipts.extend(Some(expected.receipt).filter(|receipt| 0 < receipt.cost()));
    }

    fn compare_renewal(
        &mut self,
        (taken, cost): (Tick, u32),
        renewed: &[Option<Receipt>],
        now: Tick,
        context: &str,
    ) {
        let mut model = self.state.clone();
        let expected = self.rule.policy().renew(&mut model, now, Receipt::new(taken, cost));
        assert_eq!(renewed, std::slice::from_ref(&expected), "{context}");
        self.receipts.retain(|receipt| receipt.at() != taken);
        // What has lapsed is not written, nor what time did to the rest.
        if expected.is_some() {
            self.state = model;
            self.receipts.extend(expected);
        }
    }

    fn compare_state(&mut self, bench: &mut Bench, now: Tick, context: &str) {
        let policy = self.rule.policy();
        let kept = bench.value(&self.rule.place("t:", &self.key).name);
        let mut kept = value::read(policy, &kept).expect("a value that the script wrote");
        policy.peek(&mut kept, now, 0);
        policy.peek(&mut self.state, now, 0);
        let events = |state: &State| policy.events(state).collect::<Vec<_>>();
        assert_eq!(events(&kept), events(&self.state), "{context}: {policy:?}");
        if !policy.is_fresh(&kept, now) || !policy.is_fresh(&self.state, now) {
            assert_eq!(policy.pack(&kept), policy.pack(&self.state), "{context}: {policy:?}");
        }
    }
}

/// A script that has no words must not take a weight for what is left of it without them.
#[test]
fn what_weighs_more_than_a_burst_never_passes_however_much_it_is() {
    let mut bench = Bench::start(Flavor::Redis);
    for cells in [1, 7] {
        let quota = Quota::new(cells, Span::from_secs(600)).burst(2);
        let policy = Policy::new(Kind::Gcra, quota).unwrap();
        let tidegate_core::Shape::Line(grains) = policy.shape() else { panic!("a line") };
        let burst = 2 * grains.cell() / grains.tick();
        let left = |cost: &u32| u64::from(*cost) * grains.cell() / grains.tick() % (1 << 52);
        let cost = (3..u32::MAX).find(|cost| left(cost) <= burst).unwrap();
        let trace = Trace::new(FleetRule::new("r", policy), &format!("{cells}"));
        for cost in [3, cost, u32::MAX] {
            let step = Step { count: 1, ..trace.step(Does::Decide, cost, &mut Rng::new(1)) };
            let outcome = bench.decide(&[step.run()], Tick::from_micros(START)).remove(0);
            assert!(matches!(outcome, Outcome::Decided { passed: 0, .. }), "{cost} {outcome:?}");
        }
    }
}

/// Past 32,768 events a log keeps those of one short while together; so does the script.
#[test]
fn long_logs_are_merged_alike() {
    let mut bench = Bench::start(Flavor::Redis);
    let quota = Quota::new(1_000_000, Span::from_secs(60));
    let policy = Policy::new(Kind::SlidingLog, quota).unwrap();
    let mut trace = Trace::new(FleetRule::new("r", policy), "long");
    let mut rng = Rng::new(7);
    let mut now = Tick::from_micros(START);
    for _ in 0..32_700 {
        now = now.after(Span::from_micros(500));
        policy.decide(&mut trace.state, now, 1);
    }
    let name = trace.rule.place("t:", &trace.key).name;
    let value = value::write(&policy, &trace.state);
    let () = redis::cmd("SET").arg(&*name).arg(value).query(&mut bench.connection).unwrap();
    for _ in 0..4_000 {
        now = now.after(Span::from_micros(rng.of_bits(14)));
        let step = trace.next(&mut rng);
        // What empties the list is tried on short ones.
        if matches!(step.request.does, Does::Reset | Does::GiveBack) {
            continue;
        }
        let run = Run { request: &step.request, count: step.count };
        let outcome = bench.decide(&[run], now).remove(0);
        trace.compare(&mut bench, (&step, outcome), now, "long log");
    }
    assert!(32_768 < policy.events(&trace.state).count());
    let merged = trace.state.clone();
    trace.compare_state(&mut bench, now, "long log");
    assert!(policy.events(&merged).count() < 35_500, "nothing was merged");
}
