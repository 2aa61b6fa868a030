//! A queue's output is smooth whatever is given back: no two slots ever meet.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Receipt, Span, Tick, Verdict};
use tidegate_sim::rng::Rng;

/// What was sent, or is to be: when, how many cells, and the receipt while it can be given back.
type Slot = (Tick, u32, Option<Receipt>);

fn queue(quota: Quota) -> Policy {
    Policy::new(Kind::LeakyQueue, quota).unwrap()
}

#[track_caller]
fn is_smooth(quota: Quota, slots: &[Slot]) {
    let mut sorted: Vec<(u64, u32)> = slots.iter().map(|it| (it.0.get(), it.1)).collect();
    sorted.sort_unstable();
    let (cells, per) = (u128::from(quota.cells()), u128::from(quota.per().get()));
    for (first, (from, _)) in sorted.iter().enumerate() {
        let mut before = 0_u128;
        for (at, cost) in &sorted[first..] {
            // A start is given in whole ticks, rounded up: that is the tick to spare.
            let paid = u128::from(at - from + 1) * cells;
            assert!(before == 0 || before * per < paid, "{quota}: {before} cells until {at}");
            before += u128::from(*cost);
        }
    }
}

#[test]
fn slots_never_meet_whatever_is_given_back() {
    let mut given_back = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let quota = rng.small_quota();
        let policy = queue(quota);
        let mut state = policy.fresh();
        let mut now = Tick::from_micros(1 << 40);
        let mut slots: Vec<Slot> = Vec::new();
        for _ in 0..60 {
            now = now.after(Span::from_micros(rng.below(1 + quota.per().get() / 4)));
            if rng.one_in(4) && !slots.is_empty() {
                let index = usize::try_from(rng.below(slots.len() as u64)).unwrap();
                if let (at, _, receipt @ Some(_)) = &mut slots[index]
                    && now < *at
                {
                    policy.refund(&mut state, now, receipt.take().unwrap());
                    slots.remove(index);
                    given_back += 1;
                }
                continue;
            }
            let cost = 1 + rng.below_u32(3);
            let (decision, receipt) = policy.decide_with_receipt(&mut state, now, cost);
            match decision.verdict {
                Verdict::Allow => slots.push((now, cost, receipt)),
                Verdict::Delay { by } => slots.push((now.after(by), cost, receipt)),
                Verdict::Deny { .. } | Verdict::Never => {}
            }
        }
        is_smooth(quota, &slots);
    }
    assert!(1_000 < given_back, "hardly anybody left: {given_back}");
}

#[test]
fn the_last_slot_comes_back_and_an_earlier_one_stays_empty() {
    let policy = queue(Quota::per_second(10).burst(5));
    let (mut state, now) = (policy.fresh(), Tick::from_micros(1 << 40));
    let take = |state: &mut _| policy.decide_with_receipt(state, now, 1);
    let [_, second, third] = [0; 3].map(|_| take(&mut state).1.unwrap());
    let before = state.clone();
    policy.refund(&mut state, now, second);
    assert_eq!(state, before, "the third has been told its slot");
    policy.refund(&mut state, now, third);
    let (decision, _) = take(&mut state);
    assert_eq!(decision.verdict, Verdict::Delay { by: Span::from_millis(200) });
}
