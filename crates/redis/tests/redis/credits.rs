//! Credits in a limiter without a policy file: the same answers here and by Redis.

use std::sync::Arc;

use tidegate_core::{Credits, Decision, Quota, QuotaError, Span};
use tidegate_sim::rng::Rng;
use tidegate_store::{BuildError, Clock, Limiter, ManualClock};

use crate::stand::still;

#[tokio::test]
async fn a_fleet_saves_what_one_process_would() {
    let (quota, credits) = (Quota::per_second(3).burst(2), Credits::new(Span::from_secs(4), 5));
    let builder = Limiter::builder().each("r", quota).credits(credits);
    let (_server, fleet, clock) = still(builder).await;
    let same: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let here = Limiter::builder().each("r", quota).credits(credits).clock(same).build().unwrap();
    let mut rng = Rng::new(1);
    let mut passed = 0;
    for _ in 0..400 {
        let longest = if rng.one_in(9) { 6_000_000 } else { 200_000 };
        clock.advance(Span::from_micros(rng.below(longest)));
        let there = fleet.decide("ada").await;
        let there: Vec<(&str, Decision)> = there.each().collect();
        let here: Vec<(&str, Decision)> = here.key("ada").decide_each().each().collect();
        assert_eq!(there, here);
        assert_eq!(
            here.iter().map(|it| (it.0, it.1.limit)).collect::<Vec<_>>(),
            [("r", 14), ("r-peak", 2)]
        );
        passed += u32::from(here.iter().all(|it| it.1.verdict.passes()));
    }
    assert!((50..400).contains(&passed), "{passed}");
}

#[tokio::test]
async fn what_cannot_be_saved_is_said_with_the_rule() {
    let credits = Credits::new(Span::from_secs(30), 10);
    let log = (tidegate_core::Kind::SlidingLog, Quota::per_second(1));
    let error = QuotaError::CreditsWithoutBucket;
    let here = Limiter::builder().each("r", log).credits(credits).build();
    assert_eq!(here.err(), Some(BuildError::Quota { name: "r".into(), error }));
    let (_server, node, _) = still(Limiter::builder().each("x", Quota::per_second(1))).await;
    let store = node.limiter.store();
    let there = Limiter::builder().each("r", log).credits(credits).build_on(Arc::clone(store));
    assert_eq!(there.err(), Some(BuildError::Quota { name: "r".into(), error }));
    let taken = Limiter::builder()
        .each("r-peak", Quota::per_second(1))
        .each("r", Quota::per_second(1))
        .credits(credits)
        .build_on(Arc::clone(store));
    assert_eq!(taken.err(), Some(BuildError::SameName { name: "r-peak".into() }));
}
