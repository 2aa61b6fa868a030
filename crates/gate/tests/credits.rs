//! Unused quota, saved up for a burst: two buckets that judge together.

mod stand;

use tidegate_core::{Span, Tick};
use tidegate_gate::Sample;
use tidegate_sim::rng::Rng;

use self::stand::{START, gate, passed};

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

/// Over every span: at most the burst, what was saved, and the rate; over short ones, at most the
/// burst and so many times the rate.
#[test]
fn the_laws_of_credits() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (cells, per) = (1 + rng.below(20), 1 + rng.below(10));
        let (burst, saved_for, factor) = (1 + rng.below(20), rng.below(60), 1 + rng.below(10));
        let algorithm =
            ["token-bucket", "gcra", "leaky-bucket"][usize::try_from(rng.below(3)).unwrap_or(0)];
        let (gate, clock) = gate(&format!(
            "rules: [{{ name: r, limit: {cells}/{per}s, burst: {burst}, algorithm: {algorithm}, \
             credits: {{ for: {saved_for}s, rate: {factor}x }} }}]"
        ));
        let saved = cells * saved_for / per;
        let mut now = Tick::from_micros(START * 1_000_000);
        let mut admitted: Vec<(Tick, u64)> = Vec::new();
        for _ in 0..400 {
            let longest = if rng.one_in(20) { 60_000_000 } else { 400_000 };
            let span = Span::from_micros(rng.below(longest));
            clock.advance(span);
            now = now.after(span);
            let asked = usize::try_from(1 + rng.below(4)).unwrap_or(1);
            let count = passed(&gate, &Sample::new("GET /"), asked);
            admitted.push((now, count as u64));
        }
        for (from, (start, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (end, count) in &admitted[from..] {
                sum += u128::from(*count);
                let micros = u128::from(end.since(*start).get());
                let (rate, period) = (u128::from(cells), u128::from(per) * 1_000_000);
                let most = u128::from(burst + saved) * period + rate * micros;
                assert!(sum * period <= most, "seed {seed}: {sum} in {micros} us");
                let most = u128::from(burst) * period + u128::from(factor) * rate * micros;
                assert!(sum * period <= most, "seed {seed}: {sum} in {micros} us, at once");
            }
        }
    }
}
