//! Unused quota, saved up for a burst: two buckets that judge together.

use std::sync::Arc;

use tidegate_core::{Decision, Span, Tick};
use tidegate_gate::{Admission, Field, Sample};
use tidegate_sim::rng::Rng;
use tidegate_store::ManualClock;

use super::{gate, turns};
use crate::stand::{START, Still, passed};

#[test]
fn what_was_saved_can_be_spent_faster() {
    // Ten a second, ten at once; thirty seconds of it are saved, and spent ten times as fast.
    let (gate, clock) = gate("rules: [{ name: r, limit: 10/s, credits: { for: 30s, rate: 10x } }]");
    let request = Sample::new("GET /");
    assert_eq!(passed(&gate, &request, 400), 10);
    let mut all = 10;
    for _ in 0..3 {
        clock.advance(Span::from_millis(100));
        all += passed(&gate, &request, 400);
    }
    assert_eq!(all, 40, "a hundred a second, ten at once");
    for _ in 0..60 {
        clock.advance(Span::from_millis(100));
        all += passed(&gate, &request, 400);
    }
    // 310 at first, and ten a second since.
    assert_eq!(all, 310 + 63);
}

/// A rule with credits has two limits, and is one rule.
#[test]
fn a_request_is_counted_once_for_a_rule() {
    let (gate, _) = gate("rules: [{ name: r, limit: 10/s, credits: { for: 30s, rate: 10x } }]");
    assert_eq!(passed(&gate, &Sample::new("GET /"), 12), 10);
    let counts = gate.counts()[0].1;
    assert_eq!((counts.allowed, counts.denied), (10, 2));
}

/// The numbers of a rule with credits.
#[derive(Clone, Copy, Debug)]
struct Saved {
    cells: u64,
    per: u64,
    burst: u64,
    /// As much as is ever saved.
    most: u64,
    factor: u64,
}

/// What came of one request: when, whether it passed, what each limit said, and what is saved.
struct Told {
    at: Tick,
    passes: bool,
    each: Vec<Decision>,
    credits: Vec<Option<u32>>,
}

impl Told {
    fn of(admission: &Admission, at: Tick) -> Told {
        Told {
            at,
            passes: admission.verdict().passes(),
            each: admission.each().map(|answer| answer.decision).collect(),
            credits: admission.each().map(|answer| answer.credits).collect(),
        }
    }
}

fn any_rule(rng: &mut Rng) -> (String, Saved) {
    let (cells, per) = (1 + rng.below(20), 1 + rng.below(10));
    let (burst, saved_for, factor) = (1 + rng.below(20), rng.below(60), 1 + rng.below(10));
    let algorithm =
        ["token-bucket", "gcra", "leaky-bucket"][usize::try_from(rng.below(3)).unwrap_or(0)];
    let policy = format!(
        "rules: [{{ name: r, limit: {cells}/{per}s, burst: {burst}, algorithm: {algorithm}, \
         credits: {{ for: {saved_for}s, rate: {factor}x }} }}]"
    );
    (policy, Saved { cells, per, burst, most: cells * saved_for / per, factor })
}

/// Requests at random, from idle minutes to crowds; what came of each.
fn walk(gate: &Still, clock: &Arc<ManualClock>, rng: &mut Rng, steps: u32) -> Vec<Told> {
    let mut now = Tick::from_micros(START * 1_000_000);
    let mut told = Vec::new();
    for _ in 0..steps {
        let longest = if rng.one_in(20) { 60_000_000 } else { 400_000 };
        let span = Span::from_micros(rng.below(longest));
        clock.advance(span);
        now = now.after(span);
        for _ in 0..=rng.below(4) {
            told.push(Told::of(&gate.decide(&Sample::new("GET /")), now));
        }
    }
    told
}

/// Credits never exceed the ceiling, and together with the base rate they bound every span.
fn check_laws(saved: Saved, told: &[Told]) {
    let Saved { cells, per, burst, most, factor } = saved;
    let (rate, period) = (u128::from(cells), u128::from(per) * 1_000_000);
    for one in told {
        let [main, peak] = &one.each[..] else { panic!("{saved:?}: not two limits") };
        assert_eq!((u64::from(main.limit), u64::from(peak.limit)), (burst + most, burst));
        let [Some(credits), None] = one.credits[..] else { panic!("{saved:?}: {:?}", one.credits) };
        assert!(u64::from(credits) <= most, "{saved:?}: {credits} saved");
        assert_eq!(u64::from(credits), u64::from(main.remaining).saturating_sub(burst));
    }
    for (from, first) in told.iter().enumerate() {
        let mut after = 0_u128;
        for one in &told[from..] {
            let micros = u128::from(one.at.since(first.at).get());
            let sum = after + u128::from(first.passes);
            let ever = u128::from(burst + most) * period + rate * micros;
            assert!(sum * period <= ever, "{saved:?}: {sum} in {micros} us");
            let at_once = u128::from(burst) * period + u128::from(factor) * rate * micros;
            assert!(sum * period <= at_once, "{saved:?}: {sum} in {micros} us, at once");
            // What remained when the span began, in whole cells: less than one more was there.
            let had = u128::from(first.each[0].remaining + 1) * period + rate * micros;
            assert!(after * period < had, "{saved:?}: {after} since {first:?}", first = first.at);
            after += u128::from(one.passes && !std::ptr::eq(one, first));
        }
    }
    // A refusal by either is charged to neither.
    for pair in told.windows(2).filter(|pair| pair[0].at == pair[1].at && !pair[1].passes) {
        let left = |told: &Told| told.each.iter().map(|it| it.remaining).collect::<Vec<_>>();
        assert_eq!(left(&pair[0]), left(&pair[1]), "{saved:?}: a refusal was charged");
    }
}

#[test]
fn law_credits_are_bounded_and_bound_every_span() {
    for seed in 0..turns(40).into() {
        let mut rng = Rng::new(seed);
        let (policy, saved) = any_rule(&mut rng);
        let (gate, clock) = gate(&policy);
        check_laws(saved, &walk(&gate, &clock, &mut rng, 300));
    }
}

#[test]
fn credits_show_in_the_decision_and_in_the_headers() {
    let (gate, clock) = gate("rules: [{ name: r, limit: 10/s, credits: { for: 30s, rate: 10x } }]");
    let request = Sample::new("GET /");
    let admission = gate.decide(&request);
    let mut fields = Vec::new();
    admission.fields(|field, value| fields.push((field, value.to_owned())));
    let field = |wanted| fields.iter().find(|(field, _)| *field == wanted).map(|(_, it)| &**it);
    assert_eq!(field(Field::RateLimitPolicy), Some(r#""r";q=310;w=31, "r-peak";q=10;w=1"#));
    assert_eq!(field(Field::RateLimit), Some(r#""r";r=309;t=1, "r-peak";r=9;t=1"#));
    // The limit that is closest to refusing.
    assert_eq!((field(Field::XLimit), field(Field::XRemaining)), (Some("10"), Some("9")));
    let credits = |admission: &Admission| admission.each().next().and_then(|it| it.credits);
    assert_eq!(credits(&admission), Some(299));
    for _ in 0..60 {
        clock.advance(Span::from_millis(100));
        passed(&gate, &request, 10);
    }
    let refused = gate.decide(&request);
    assert_eq!(credits(&refused), Some(0));
    let names: Vec<String> = refused.violated().map(|it| it.name()).collect();
    assert_eq!(names, ["r"]);
    let (plain, _) = super::gate("rules: [{ name: r, limit: 10/s }]");
    assert_eq!(credits(&plain.decide(&request)), None);
}
