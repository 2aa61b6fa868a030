//! `CL.THROTTLE` beside the core's own GCRA, digit for digit: times are whole seconds, rounded up.

use std::collections::HashMap;

use tidegate_core::{Kind, Policy, Quota, Span, State, Verdict};
use tidegate_sim::rng::Rng;
use tidegate_store::Clock as _;
use tidegate_testbed::Reply;

use crate::world::World;

const LIMITS: usize = 12;
const STEPS: u64 = 1_500;

fn seconds(span: Span) -> i64 {
    i64::try_from(span.get().div_ceil(1_000_000)).unwrap()
}

#[test]
fn a_throttle_is_the_core_in_whole_seconds() {
    let world = World::new("rules: [{ name: others, match: { path: /never }, limit: 1/h }]");
    let mut resp = world.resp();
    let mut rng = Rng::new(7);
    let limits: Vec<(u32, u32, u32)> = (0..LIMITS)
        .map(|_| (rng.below_u32(9), 1 + rng.below_u32(40), 1 + rng.below_u32(90)))
        .collect();
    let mut states: HashMap<(usize, u64), State> = HashMap::new();
    let (mut passed, mut refused) = (0, 0);
    for step in 0..STEPS {
        world.clock.advance(Span::from_micros(rng.of_bits(20)));
        let at = usize::try_from(rng.below(LIMITS as u64)).unwrap();
        let (key, cost) = (rng.below(3), rng.below_u32(4));
        let (burst, count, period) = limits[at];
        let quota = Quota::new(count, Span::from_secs(period)).burst(burst + 1);
        let policy = Policy::new(Kind::Gcra, quota).unwrap();
        let state = states.entry((at, key)).or_insert_with(|| policy.fresh());
        let decision = policy.decide(state, world.clock.now(), cost);
        let retry = match decision.verdict {
            Verdict::Deny { retry_after } => seconds(retry_after),
            _ => -1,
        };
        let may_go = decision.verdict.passes();
        *(if may_go { &mut passed } else { &mut refused }) += 1;
        let (limit, remaining) = (decision.limit.into(), decision.remaining.into());
        let expected = [(!may_go).into(), limit, remaining, retry, seconds(decision.reset_after)];
        let words = ["CL.THROTTLE".to_owned(), format!("k{key}")];
        let numbers = [burst, count, period, cost].map(|number| number.to_string());
        let told = resp.call(&[&words[..], &numbers[..]].concat()).unwrap();
        let expected: Vec<Reply> = expected.into_iter().map(Reply::Int).collect();
        assert_eq!(told.items(), expected, "step {step}: {burst} {count} {period} {cost}");
    }
    assert!(100 < passed && 100 < refused, "{passed} passed, {refused} did not");
}
