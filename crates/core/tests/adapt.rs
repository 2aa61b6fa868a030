//! Laws of the controller: whatever it hears, it keeps its bounds, and it never hears a refusal.

use tidegate_core::adapt::{Controller, Fraction, Outcome, Settings, SettingsError, Started};
use tidegate_core::{Span, Tick};
use tidegate_sim::rng::Rng;

const SETTINGS: Settings = Settings {
    limit_min: 4,
    limit_max: 200,
    limit_start: 20,
    brake_floor: Fraction::from_percent(25),
    factor_floor: Fraction::from_percent(10),
    queue_target: Span::from_millis(5),
    pressure_max: Fraction::from_percent(60),
    failures_max: Fraction::from_percent(5),
};

/// How long requests stand in our queue: too long, so that rates are lowered.
const WAITED: Span = Span::from_millis(20);

fn controller() -> Controller {
    Controller::new(SETTINGS, Tick::from_micros(0)).expect("the settings are in order")
}

/// Serves requests one generation after another: as many as the limit lets, but at most `demand`,
/// on `workers` that take 10 ms each.
fn serve(controller: &mut Controller, now: &mut Tick, generations: u32, demand: u32, workers: u32) {
    for _ in 0..generations {
        let mut started: Vec<Started> = Vec::new();
        while started.len() < demand as usize {
            match controller.start(*now, WAITED) {
                Some(one) => started.push(one),
                None => break,
            }
        }
        // What finds no worker waits for the next turn.
        for crowd in chunks(started, workers) {
            *now = now.after(Span::from_millis(10));
            for one in crowd {
                controller.finish(*now, one, Outcome::Served);
            }
        }
    }
}

fn chunks(mut started: Vec<Started>, of: u32) -> Vec<Vec<Started>> {
    let mut crowds = Vec::new();
    while !started.is_empty() {
        let rest = started.split_off(started.len().min(of as usize));
        crowds.push(std::mem::replace(&mut started, rest));
    }
    crowds
}

#[test]
#[cfg(target_pointer_width = "64")]
fn it_is_as_small_as_it_says() {
    assert_eq!(size_of::<Controller>(), 400);
}

#[test]
fn the_limit_stays_within_its_bounds_whatever_is_heard() {
    for seed in 1..=40 {
        let mut rng = Rng::new(seed);
        let mut controller = controller();
        let mut now = Tick::from_micros(0);
        let mut flights = Vec::new();
        for _ in 0..5_000 {
            now = now.after(Span::from_micros(rng.of_bits(18)));
            match rng.below(8) {
                0..=3 => flights.extend(controller.start(now, Span::from_micros(rng.of_bits(20)))),
                4..=5 if !flights.is_empty() => {
                    let index = rng.below(flights.len() as u64);
                    let one = flights.swap_remove(usize::try_from(index).unwrap());
                    let outcomes =
                        [Outcome::Served, Outcome::Failed, Outcome::TimedOut, Outcome::Abandoned];
                    let outcome = outcomes[usize::try_from(rng.below(4)).unwrap()];
                    controller.finish(now, one, outcome);
                }
                6 => controller.pressure(now, Fraction::from_millionths(rng.below_u32(2_000_000))),
                _ => controller.load(now, Fraction::from_millionths(rng.below_u32(9_000_000))),
            }
            let limit = controller.limit();
            assert!((SETTINGS.limit_min..=SETTINGS.limit_max).contains(&limit), "seed {seed}");
            let factor = controller.factor();
            assert!(SETTINGS.factor_floor <= factor && factor <= Fraction::WHOLE, "seed {seed}");
            assert_eq!(controller.in_flight() as usize, flights.len(), "seed {seed}");
        }
    }
}

#[test]
fn nobody_starts_above_the_limit() {
    let mut controller = controller();
    let now = Tick::from_micros(1);
    let started: Vec<Started> =
        std::iter::from_fn(|| controller.start(now, Span::ZERO)).take(1_000).collect();
    assert_eq!(started.len(), 20);
}

#[test]
fn a_refusal_leaves_no_trace() {
    let (mut asked, mut spared) = (controller(), controller());
    let mut times = [Tick::from_micros(0); 2];
    for _ in 0..200 {
        for (controller, now) in [&mut asked, &mut spared].into_iter().zip(&mut times) {
            serve(controller, now, 3, 500, 50);
        }
        // Both are in the same state, but one of them refuses a thousand more, which did not even
        // wait.
        let [full, same] = [&mut asked, &mut spared].map(|controller| {
            let next = std::iter::from_fn(|| controller.start(times[0], WAITED));
            next.collect::<Vec<Started>>()
        });
        for _ in 0..1_000 {
            assert!(asked.start(times[0], Span::ZERO).is_none());
        }
        for (controller, (now, flights)) in
            [&mut asked, &mut spared].into_iter().zip(times.iter_mut().zip([full, same]))
        {
            *now = now.after(Span::from_millis(10));
            for one in flights {
                controller.finish(*now, one, Outcome::Served);
            }
        }
        assert_eq!(asked.reading(), spared.reading());
    }
}

#[test]
fn demand_below_the_limit_does_not_raise_it() {
    let mut controller = controller();
    let mut now = Tick::from_micros(0);
    for _ in 0..5_000 {
        serve(&mut controller, &mut now, 1, 8, 1_000);
        assert_eq!(controller.limit(), 20);
    }
}

#[test]
fn demand_above_the_limit_raises_it_to_what_the_service_can_do() {
    let mut controller = controller();
    let mut now = Tick::from_micros(0);
    serve(&mut controller, &mut now, 5_000, 1_000, 80);
    let mut limits = Vec::new();
    for _ in 0..200 {
        serve(&mut controller, &mut now, 5, 1_000, 80);
        limits.push(controller.limit());
    }
    let mean = limits.iter().sum::<u32>() / 200;
    assert!((70..=95).contains(&mean), "{limits:?}");
}

/// What is left of the limit and of rates after a second of some signal in every beat.
fn after(signal: impl Fn(&mut Controller, Tick)) -> (u32, Fraction) {
    let mut controller = controller();
    let mut now = Tick::from_micros(0);
    for _ in 0..10 {
        now = now.after(Span::from_millis(101));
        signal(&mut controller, now);
        controller.advance(now);
    }
    (controller.limit(), controller.factor())
}

#[test]
fn more_pressure_and_more_load_never_leave_more() {
    let steps = |signal: fn(&mut Controller, Tick, Fraction)| {
        let left = (0..=20).map(|tenths| {
            let share = Fraction::from_millionths(tenths * 100_000);
            after(|controller, now| signal(controller, now, share))
        });
        let left: Vec<_> = left.collect();
        assert!(left.is_sorted_by(|less, more| more.0 <= less.0 && more.1 <= less.1), "{left:?}");
        assert_eq!(left[0], (20, Fraction::WHOLE));
        assert!(left[20].0 <= 6 && left[20].1 <= Fraction::from_percent(25), "{left:?}");
    };
    steps(Controller::pressure);
    steps(Controller::load);
}

#[test]
fn brakes_come_off_when_nothing_is_said_any_more() {
    let mut controller = controller();
    controller.load(Tick::from_micros(1), Fraction::from_percent(250));
    let mut now = Tick::from_micros(1);
    let mut lowest = controller.limit();
    for _ in 0..1_000 {
        now = now.after(Span::from_millis(100));
        controller.advance(now);
        lowest = lowest.min(controller.limit());
    }
    // One word halves at most, and moves the brake once.
    assert_eq!(lowest, 10);
    assert_eq!((controller.limit(), controller.factor()), (20, Fraction::WHOLE));
}

#[test]
fn failures_brake_and_clients_that_leave_do_not() {
    let fail = |outcome: Outcome| {
        after(move |controller, now| {
            for nth in 0..20 {
                let one = controller.start(now, Span::ZERO).unwrap();
                let outcome = if nth % 10 == 0 { outcome } else { Outcome::Served };
                controller.finish(now, one, outcome);
            }
        })
    };
    assert!(fail(Outcome::Failed).0 < 10);
    assert!(fail(Outcome::TimedOut).0 < 10);
    assert_eq!(fail(Outcome::Abandoned), (20, Fraction::WHOLE));
}

#[test]
fn a_standing_queue_lowers_rates_and_not_the_limit() {
    let wait = |millis: u32| {
        after(move |controller, now| {
            let one = controller.start(now, Span::from_millis(millis)).unwrap();
            controller.finish(now, one, Outcome::Served);
        })
    };
    assert_eq!(wait(5), (20, Fraction::WHOLE));
    let waits: Vec<_> = [5, 6, 7, 8, 20, 1_000].map(wait).into();
    assert!(waits.is_sorted_by(|short, long| long.1 <= short.1), "{waits:?}");
    assert!(waits.iter().all(|(limit, _)| *limit == 20));
    assert_eq!(waits[5].1, SETTINGS.factor_floor);
}

#[test]
fn settings_that_cannot_be_kept_are_refused() {
    let refused = |settings| Controller::new(settings, Tick::from_micros(0)).unwrap_err();
    assert_eq!(refused(Settings { limit_min: 0, ..SETTINGS }), SettingsError::NoLimit);
    assert_eq!(refused(Settings { limit_max: 1_000_001, ..SETTINGS }), SettingsError::LimitTooHigh);
    assert_eq!(refused(Settings { limit_start: 3, ..SETTINGS }), SettingsError::LimitsOutOfOrder);
    assert_eq!(refused(Settings { limit_start: 201, ..SETTINGS }), SettingsError::LimitsOutOfOrder);
    let floor = Settings { factor_floor: Fraction::NONE, ..SETTINGS };
    assert_eq!(refused(floor), SettingsError::Floor);
    assert_eq!(refused(floor).to_string().matches("change it").count(), 1);
}
