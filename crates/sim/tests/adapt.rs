//! What happens to services, and that the controller copes with it: one quick run of each target.

use tidegate_core::Span;
use tidegate_sim::adapt::{Clients, Profile, Scenario, Score, Spread, limit, run};

fn plant(seed: u64) -> Scenario {
    let length = Span::from_secs(24);
    let warm_up = Span::from_secs(8);
    Scenario { length, warm_up, ..Scenario::new(100, Span::from_millis(10), seed) }
}

#[track_caller]
fn check(scenario: &Scenario, goodput: f64, inflation: f64) {
    let score = Score::of(scenario, "tidegate");
    assert!(goodput <= score.goodput && score.inflation <= inflation, "{score:?}");
}

#[test]
fn it_neither_queues_nor_wastes() {
    for spread in [Spread::None, Spread::Even(0.5), Spread::Exponential] {
        check(&Scenario { spread, ..plant(1) }, 0.95, 1.10);
    }
}

#[test]
fn ten_times_the_load_changes_nothing() {
    let plant = plant(2);
    check(&Scenario { clients: Clients { load: 10.0, ..plant.clients }, ..plant }, 0.95, 1.10);
}

#[test]
fn two_kinds_of_requests_are_no_queue() {
    check(&Scenario { spread: Spread::Bimodal(10.0), ..plant(3) }, 0.90, 1.20);
}

#[test]
fn half_the_capacity_is_found_within_a_second() {
    for service in [Span::from_millis(1), Span::from_millis(10), Span::from_millis(100)] {
        let settles = |seed| {
            let profile = Profile::Step { at: 20.0, by: 0.5 };
            let halved = Scenario { profile, service, spread: Spread::Even(0.5), ..plant(seed) };
            run(&halved, "tidegate").settles(&run(&halved, "oracle"), 20.0, 0.5)
        };
        let seeds: Vec<f64> = (1..=5).map(settles).collect();
        assert!(seeds.iter().all(|seed| *seed <= 1.0), "{service}: {seeds:?}");
    }
}

#[test]
fn a_service_that_hardly_answers_is_not_waited_for() {
    let profile = Profile::Step { at: 20.0, by: 0.1 };
    let service = Span::from_millis(100);
    let broken = Scenario { profile, service, spread: Spread::Even(0.5), ..plant(12) };
    let run = run(&broken, "tidegate");
    let soon = limit(run.between(20.75, 21.0));
    let late = limit(run.between(23.0, 24.0));
    assert!(soon <= 60.0 && late <= 35.0, "{soon} {late}");
}

#[test]
fn a_service_that_is_slower_with_as_many_workers_keeps_its_limit() {
    let slower = Scenario { profile: Profile::Slower { at: 10.0, by: 2.0 }, ..plant(5) };
    check(&slower, 0.90, 1.15);
    let late = limit(run(&slower, "tidegate").between(18.0, 24.0));
    assert!((85.0..=125.0).contains(&late), "{late}");
}

#[test]
fn a_false_alarm_does_not_keep_the_limit_down() {
    // Exponential times and few answers in a round: some rounds look like trouble.
    for seed in [1, 8] {
        let plant = Scenario::new(100, Span::from_millis(100), seed);
        check(&Scenario { clients: Clients { load: 10.0, ..plant.clients }, ..plant }, 0.95, 1.10);
    }
}

#[test]
fn pauses_teach_nothing() {
    let pauses = Scenario { profile: Profile::Pauses { every: 4.0, lasts: 0.2 }, ..plant(6) };
    check(&pauses, 0.96, 1.10);
}

#[test]
fn capacity_that_shrinks_slowly_is_followed() {
    let ramp = Scenario { profile: Profile::Ramp { from: 8.0, to: 20.0, by: 0.3 }, ..plant(7) };
    check(&ramp, 0.93, 1.15);
}

#[test]
fn requests_that_take_ever_longer_are_followed() {
    let profile = Profile::Leak { from: 10.0, to: 50.0, by: 2.0 };
    check(&Scenario { profile, length: Span::from_secs(60), ..plant(8) }, 0.80, 1.15);
    // With few answers in a round it is noise that says that fewer in flight would help.
    let profile = Profile::Leak { from: 20.0, to: 50.0, by: 2.0 };
    check(&Scenario { profile, ..Scenario::new(100, Span::from_millis(100), 18) }, 0.88, 1.15);
}

#[test]
fn a_storm_of_retries_ends_without_help_and_without_a_limit_it_does_not() {
    let clients = Clients { load: 0.9, spike: Some((12.0, 13.0, 3.0)), timeout: 0.1, retries: 3 };
    let storm = Scenario { clients, ..plant(9) };
    let recovers = |name| run(&storm, name).recovers(13.0, 0.9 * storm.rate(), 0.95);
    assert!(recovers("tidegate") <= 5.0);
    assert!(recovers("none") > 10.0);
}

#[test]
fn an_hour_changes_nothing() {
    let length = Span::from_secs(3_600);
    let hour = Scenario { length, ..Scenario::new(100, Span::from_millis(500), 10) };
    let run = run(&hour, "tidegate");
    let (first, last) = (limit(run.between(300.0, 1_800.0)), limit(run.between(1_800.0, 3_600.0)));
    assert!((last / first - 1.0).abs() <= 0.05, "{first} {last}");
}

#[test]
fn baselines_do_as_their_laws_say() {
    // Envoy allows a quarter more latency and the root of the limit on top.
    let steady = Scenario { spread: Spread::None, ..plant(11) };
    let envoy = Score::of(&steady, "envoy").inflation;
    assert!((1.25..=1.45).contains(&envoy), "{envoy}");
    // AIMD sees nothing before five seconds of latency; Gradient2 follows the load.
    assert!(5.0 < Score::of(&steady, "aimd").inflation);
    let longer = Scenario { length: Span::from_secs(240), ..steady };
    let growth = run(&longer, "gradient2");
    assert!(limit(growth.between(20.0, 40.0)) < limit(growth.between(220.0, 240.0)));
}

#[test]
fn a_seed_says_it_all() {
    let samples = |seed| format!("{:?}", run(&plant(seed), "tidegate").samples);
    assert_eq!(samples(1), samples(1));
    assert_ne!(samples(1), samples(2));
}
