//! The limiter as an application sees it: rules, keys, costs, refunds, changes, and its errors.

use std::sync::Arc;

use tidegate_core::{Kind, Policy, Quota, QuotaError, Span, Verdict};
use tidegate_store::{BuildError, ChangeError, Limiter, ManualClock, MemoryStore};

fn manual() -> (Arc<ManualClock>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), clock)
}

#[test]
fn one_quota_is_a_token_bucket_for_each_key() {
    let limiter = Limiter::new(Quota::per_minute(2)).unwrap();
    assert_eq!(limiter.decide("ada").remaining, 1);
    assert_eq!(limiter.decide("ada").remaining, 0);
    assert!(!limiter.decide("ada").verdict.passes());
    assert_eq!(limiter.decide("bob").remaining, 1);
    assert_eq!(limiter.keys(), 2);
    limiter.reset("ada");
    assert_eq!(limiter.peek("ada").remaining, 2);
}

#[test]
fn time_is_what_the_clock_says() {
    let (clock, for_limiter) = manual();
    let limiter =
        Limiter::builder().each("it", Quota::per_second(1)).clock(for_limiter).build().unwrap();
    assert!(limiter.decide("ada").verdict.passes());
    let retry_after = Span::from_secs(1);
    assert_eq!(limiter.decide("ada").verdict, Verdict::Deny { retry_after });
    clock.advance(Span::from_micros(999_999));
    assert!(!limiter.decide("ada").verdict.passes());
    clock.advance(Span::from_micros(1));
    assert!(limiter.decide("ada").verdict.passes());
}

#[test]
fn several_rules_are_all_or_nothing_and_every_violation_is_reported() {
    let (_, clock) = manual();
    let limiter = Limiter::builder()
        .each("per-client", Quota::per_minute(3))
        .each("per-day", (Kind::FixedWindow, Quota::per_day(2)))
        .all("everyone", Quota::per_second(5))
        .clock(clock)
        .build()
        .unwrap();
    assert!(limiter.decide("ada").verdict.passes());
    assert!(limiter.decide("ada").verdict.passes());
    let answer = limiter.key("ada").cost(2).decide_each();
    let violated: Vec<&str> = answer.violated().map(|(name, _)| name).collect();
    assert_eq!(violated, ["per-client", "per-day"]);
    // The longest wait of those that refused, and its numbers.
    let retry_after = Span::from_secs(86_400);
    assert_eq!(answer.decision().verdict, Verdict::Deny { retry_after });
    assert_eq!((answer.decision().limit, answer.decision().remaining), (2, 0));
    // Nothing was charged to those that would have let it pass.
    assert_eq!(limiter.key("bob").cost(3).decide_each().of("everyone").unwrap().remaining, 3);
    let passed = limiter.key("bob").cost(2).decide_each();
    assert_eq!(passed.of("everyone").unwrap().remaining, 1);
    assert_eq!(passed.decision().remaining, 0, "the closest to refusing speaks");
}

#[test]
fn a_cost_of_zero_looks_and_a_cost_above_the_limit_never_passes() {
    let limiter = Limiter::new(Quota::per_minute(5)).unwrap();
    assert_eq!(limiter.key("ada").cost(0).decide().remaining, 5);
    assert_eq!(limiter.keys(), 0);
    assert_eq!(limiter.key("ada").cost(6).decide().verdict, Verdict::Never);
    assert_eq!(limiter.key("ada").cost(5).decide().remaining, 0);
    assert_eq!(limiter.key("ada").cost(0).decide().verdict, Verdict::Allow);
}

#[test]
fn an_overlong_key_never_passes() {
    let long = "k".repeat(5_000);
    let limiter = Limiter::new(Quota::per_minute(5)).unwrap();
    assert_eq!(limiter.decide(&long).verdict, Verdict::Never);
    assert_eq!(limiter.peek(&long).verdict, Verdict::Never);
    assert!(limiter.key(&long).enter().is_err());
    limiter.reset(&long);
    assert_eq!(limiter.keys(), 0);
}

#[test]
fn a_key_for_a_rule_that_there_is_not_is_an_error_that_names_the_rules() {
    let builder = Limiter::builder().each("per-user", Quota::per_minute(5));
    let limiter = builder.all("everyone", Quota::per_minute(50)).build().unwrap();
    let error = limiter.key("ada").key_for("per-usr", "bob").unwrap_err();
    let message = "no rule is called `per-usr`; the limiter has `per-user`, `everyone`";
    assert_eq!((error.to_string(), format!("{error:?}")), (message.into(), message.into()));
    let asked = limiter.key("ada").key_for("per-user", "bob").unwrap();
    assert_eq!(asked.decide().remaining, 4);
    assert_eq!(limiter.peek("ada").remaining, 5);
}

#[test]
fn idle_keys_of_several_rules_are_forgotten_too() {
    let (clock, for_limiter) = manual();
    let limiter = Limiter::builder()
        .each("rate", Quota::per_second(10))
        .each("window", (Kind::SlidingWindow, Quota::per_second(10)))
        .all("everyone", Quota::per_second(1_000_000))
        .clock(for_limiter)
        .build()
        .unwrap();
    for id in 0..20_000 {
        limiter.decide(("idle", id));
    }
    assert!(40_000 <= limiter.keys());
    clock.advance(Span::from_secs(60));
    for _ in 0..300_000 {
        limiter.decide("busy");
    }
    assert!(limiter.keys() <= 6, "{} are still there", limiter.keys());
}

#[test]
fn a_pass_is_refunded_once_and_a_permit_released_when_dropped() {
    let (_, clock) = manual();
    let limiter = Limiter::builder()
        .each("rate", Quota::per_minute(10))
        .each("in-flight", (Kind::Concurrency, Quota::in_flight(2, Span::from_secs(30))))
        .clock(clock)
        .build()
        .unwrap();
    let left = |rule: &str| limiter.key("ada").cost(0).decide_each().of(rule).unwrap().remaining;
    let (first, second) =
        (limiter.key("ada").enter().unwrap(), limiter.key("ada").enter().unwrap());
    let refused = limiter.key("ada").enter().unwrap_err();
    assert_eq!(refused.verdict, Verdict::Deny { retry_after: Span::from_secs(30) });
    drop(first);
    assert_eq!((left("rate"), left("in-flight")), (8, 1));
    second.refund();
    assert_eq!((left("rate"), left("in-flight")), (9, 2));
}

#[test]
fn permits_of_one_key_and_of_all_are_taken_and_given_back_together() {
    let (clock, for_limiter) = manual();
    let flights = |count| (Kind::Concurrency, Quota::in_flight(count, Span::from_secs(30)));
    let limiter = Limiter::builder().each("each", flights(2)).all("all", flights(3));
    let limiter = limiter.clock(for_limiter).build().unwrap();
    let left = |key: &str| {
        let answer = limiter.key(key).cost(0).decide_each();
        ["each", "all"].map(|rule| answer.of(rule).unwrap().remaining)
    };
    let enter = |key: &'static str| limiter.key(key).enter();
    let [one, two, three] = ["ada", "ada", "bob"].map(|key| enter(key).unwrap());
    assert!(enter("cleo").is_err() && enter("ada").is_err());
    assert_eq!((left("cleo"), left("ada"), left("bob")), ([2, 0], [0, 0], [1, 0]));
    drop(one);
    assert_eq!((left("ada"), left("bob")), ([1, 1], [1, 1]));
    two.refund();
    assert_eq!(left("ada"), [2, 2]);
    // A pass that vanishes gives back both when the lease is over.
    std::mem::forget(three);
    clock.advance(Span::from_micros(29_999_999));
    assert_eq!(left("bob"), [1, 2]);
    clock.advance(Span::from_micros(1));
    assert_eq!(left("bob"), [2, 3]);
}

#[test]
fn a_lost_permit_comes_back_after_its_lease() {
    let (clock, for_limiter) = manual();
    let policy = Policy::new(Kind::Concurrency, Quota::in_flight(1, Span::from_secs(30))).unwrap();
    let limiter = Limiter::builder().each("it", policy).clock(for_limiter).build().unwrap();
    std::mem::forget(limiter.key("ada").enter().unwrap());
    clock.advance(Span::from_micros(29_999_999));
    assert!(limiter.key("ada").enter().is_err());
    clock.advance(Span::from_micros(1));
    assert!(limiter.key("ada").enter().is_ok());
}

#[test]
fn a_quota_is_changed_while_keys_are_live() {
    let (_, clock) = manual();
    let limiter =
        Limiter::builder().each("it", Quota::per_minute(100)).clock(clock).build().unwrap();
    limiter.key("ada").cost(80).decide();
    limiter.change("it", Quota::per_minute(150)).unwrap();
    assert_eq!(limiter.peek("ada").remaining, 70);
    // To two words, to a window, to a list, and back.
    for (policy, remaining) in [
        (Policy::token_bucket(Quota::per_minute(9_999)), 9_919),
        (Policy::new(Kind::FixedWindow, Quota::per_hour(100)), 20),
        (Policy::new(Kind::SlidingLog, Quota::per_hour(90)), 10),
        (Policy::token_bucket(Quota::per_minute(50)), 0),
        (Policy::token_bucket(Quota::per_minute(90)), 10),
    ] {
        limiter.change("it", policy.unwrap()).unwrap();
        assert_eq!(limiter.peek("ada").remaining, remaining);
        assert_eq!(limiter.keys(), 1);
    }
    let unknown = limiter.change("that", Quota::per_minute(1)).unwrap_err();
    assert_eq!(unknown, ChangeError::UnknownRule);
    assert_eq!(
        unknown.to_string(),
        "no rule has this name: give one that the limiter was built with",
    );
    let impossible = limiter.change("it", Quota::per_minute(0)).unwrap_err();
    assert_eq!(impossible.to_string(), "a quota of 0 cells lets nothing pass: give at least 1");
    assert_eq!(limiter.peek("ada").limit, 90);
}

#[test]
fn a_builder_names_every_mistake() {
    let error = |built: Result<Limiter, BuildError>| built.unwrap_err().to_string();
    assert_eq!(
        error(Limiter::builder().build()),
        "a limiter without rules lets everything pass: add one with `each`",
    );
    assert_eq!(
        error(Limiter::builder().each("search", Quota::per_minute(0)).build()),
        "rule `search`: a quota of 0 cells lets nothing pass: give at least 1",
    );
    let twice = Limiter::builder().each("it", Quota::per_minute(1)).all("it", Quota::per_hour(1));
    assert_eq!(error(twice.build()), "two rules are called `it`: give each a name of its own");
    let names: Vec<String> = (0..17).map(|id| format!("rule {id}")).collect();
    let many = names.iter().fold(Limiter::builder(), |all, name| all.each(name, Quota::per_day(1)));
    assert_eq!(
        error(many.build()),
        "a limiter has at most 16 rules: judge by fewer, or use several limiters",
    );
    let burst = (Kind::FixedWindow, Quota::per_minute(5).burst(2));
    let error = Limiter::new(burst).unwrap_err();
    let name = "limit".into();
    assert_eq!(error, BuildError::Quota { name, error: QuotaError::BurstWithoutBucket });
}

#[test]
fn a_store_of_ones_own_bounds_the_keys() {
    let limiter = Limiter::builder()
        .each("it", Quota::per_day(10))
        .store(MemoryStore::with_keys_max(500))
        .build()
        .unwrap();
    for id in 0..10_000 {
        limiter.decide(("client", id));
    }
    assert!(limiter.keys() <= 500);
}

#[test]
fn the_system_clock_never_goes_back_and_knows_the_year() {
    let limiter = Limiter::new(Quota::per_minute(5)).unwrap();
    let start = limiter.now();
    assert!(1_700_000_000_000_000 < start.get(), "before 2023: {start:?}");
    let mut last = start;
    for _ in 0..100_000 {
        let now = limiter.now();
        assert!(last <= now);
        last = now;
    }
}

/// A log line with one of them does not hold a table of a million keys.
#[test]
fn what_is_held_is_shown_on_one_line() {
    let builder = Limiter::builder().each("per-user", Quota::per_minute(5));
    let limiter = builder.all("everyone", Quota::per_minute(50)).build().unwrap();
    assert_eq!(format!("{limiter:?}"), r#"Limiter { rules: ["per-user", "everyone"], .. }"#);
    for shown in [
        format!("{:?}", limiter.key("ada")),
        format!("{:?}", limiter.key("ada").decide_each()),
        format!("{:?}", limiter.key("ada").enter()),
        format!("{:?}", tidegate_store::MemoryStore::new()),
    ] {
        assert!(shown.len() < 1_000 && !shown.contains('\n'), "{shown}");
    }
}
