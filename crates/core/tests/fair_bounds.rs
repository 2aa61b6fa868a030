//! Bounds, deadlines, classes and what is done about a queue that stands.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::fair::{
    Class, Path, Queue, Reason, Refused, Request, Room, Settings, Shed, Started, Turn, Weight,
};
use tidegate_core::{Quota, Span, Tick};
use tidegate_sim::rng::Rng;

const ONE: Room = Room { free: 1, whole: 1 };

fn at(micros: u64) -> Tick {
    Tick::from_micros(micros)
}

fn request(flow: u64) -> Request {
    let path = Path::of(flow, Weight::ONE);
    Request { path, class: Class::Normal, cost: 1, deadline: at(1 << 50) }
}

fn start<T>(queue: &mut Queue<T>, now: Tick) -> Option<Started<T>> {
    match queue.dispatch(now, ONE)? {
        Turn::Start(started) => Some(started),
        Turn::Drop(_) => panic!("nothing is dropped here"),
    }
}

/// Serves one, whatever is dropped on the way, and completes it.
fn serve<T>(queue: &mut Queue<T>, now: Tick) -> Option<T> {
    loop {
        if let Turn::Start(started) = queue.dispatch(now, ONE)? {
            queue.complete(started.ticket, started.cost);
            return Some(started.item);
        }
    }
}

#[test]
fn no_bound_is_ever_passed_and_everybody_hears_what_became_of_him() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let settings = Settings { requests_max: 50, flow_requests_max: 20, ..Settings::default() };
        let levels = u8::try_from(1 + rng.below(3)).unwrap();
        let mut queue = Queue::new(Settings { levels, ..settings });
        let (mut came, mut gone) = (0_u32, 0_u32);
        for step in 0..5_000 {
            let weight = Weight::new(1 + rng.below_u32(4));
            let name = |rng: &mut Rng| rng.of_bits(4);
            let (one, two, three) = (name(&mut rng), name(&mut rng), name(&mut rng));
            let path = Path::of(one, weight).then(two, weight).then(three, weight);
            let class = Class::ALL[usize::try_from(rng.below(4)).unwrap()];
            let deadline = at(step + rng.below(2_000));
            let cost = 1 + rng.below_u32(5);
            let enqueued = queue.enqueue(at(step), Request { path, class, cost, deadline }, step);
            if let Ok(enqueued) = enqueued {
                came += 1;
                gone += u32::from(enqueued.pushed_out.is_some());
            }
            let (requests, _) = queue.backlog(class, &path);
            assert!(queue.len() <= 50 && requests <= 20, "{} and {requests}", queue.len());
            if rng.one_in(3)
                && let Some(turn) = queue.dispatch(at(step), Room { free: 4, whole: 8 })
            {
                gone += 1;
                if let Turn::Start(started) = turn {
                    assert!(started.cost <= 4);
                    queue.complete(started.ticket, rng.below_u32(8));
                }
            }
            if rng.one_in(50) {
                gone +=
                    u32::try_from(std::iter::from_fn(|| queue.expire(at(step))).count()).unwrap();
            }
            assert_eq!(queue.len(), came - gone);
            assert!(queue.flows() <= 3 * (50 + 60), "{} flows", queue.flows());
        }
    }
}

#[test]
fn the_largest_backlog_by_weight_loses_its_newest() {
    let mut queue = Queue::new(Settings { requests_max: 12, ..Settings::default() });
    // Eight of weight four are less than four of weight one.
    for number in 0..8 {
        let path = Path::of(1, Weight::new(4));
        queue.enqueue(at(0), Request { path, ..request(1) }, number).unwrap();
    }
    for number in 10..14 {
        queue.enqueue(at(0), request(2), number).unwrap();
    }
    let pushed_out = queue.enqueue(at(0), request(3), 20).unwrap().pushed_out.unwrap();
    assert_eq!((pushed_out.item, pushed_out.reason), (13, Reason::PushedOut));
    // Three of weight one are still more than what it comes with.
    let refused = queue.enqueue(at(0), request(2), 14).unwrap_err();
    assert_eq!((refused.item, refused.reason), (14, Reason::Full));
}

#[test]
fn many_names_in_one_group_lose_as_one() {
    let settings = Settings { requests_max: 100, levels: 2, ..Settings::default() };
    let mut queue = Queue::new(settings);
    let path = |group: u64, name| Path::of(group, Weight::ONE).then(name, Weight::ONE);
    let ask = |group, name| Request { path: path(group, name), ..request(0) };
    for name in 0..95 {
        queue.enqueue(at(0), ask(1, name), 1).unwrap();
    }
    // Five of one tenant: more than any single name of the other group has.
    for _ in 0..5 {
        queue.enqueue(at(0), ask(2, 0), 2).unwrap();
    }
    for _ in 0..40 {
        let pushed_out = queue.enqueue(at(0), ask(2, 0), 2).unwrap().pushed_out.unwrap();
        assert_eq!(pushed_out.item, 1);
    }
    assert_eq!(queue.backlog(Class::Normal, &Path::of(1, Weight::ONE)).0, 55);
}

#[test]
fn one_flow_has_a_bound_of_its_own() {
    let mut queue = Queue::new(Settings { flow_requests_max: 2, ..Settings::default() });
    queue.set_rate(Some(Quota::per_second(10)));
    for _ in 0..2 {
        queue.enqueue(at(0), request(1), ()).unwrap();
    }
    let refused = queue.enqueue(at(0), request(1), ()).unwrap_err();
    let one_of_ten = Some(Span::from_millis(100));
    assert_eq!((refused.reason, refused.retry_after), (Reason::FlowFull, one_of_ten));
    queue.enqueue(at(0), request(2), ()).unwrap();
}

#[test]
fn what_would_start_too_late_is_refused_at_once_and_told_when_to_come_back() {
    let mut queue = Queue::new(Settings::default());
    queue.set_rate(Some(Quota::per_second(10)));
    for flow in 0..50 {
        queue.enqueue(at(0), request(flow), 0).unwrap();
    }
    for _ in 0..4 {
        queue.enqueue(at(0), request(7), 7).unwrap();
    }
    // A newcomer waits for one of each at most, and no longer than for all that there is.
    let patient = |flow, millis: u32| Request {
        deadline: at(0).after(Span::from_millis(millis)),
        ..request(flow)
    };
    queue.enqueue(at(0), patient(100, 1), 100).unwrap();
    // Flow 7 has five; the next would wait for all 55: 5.5 seconds.
    let refused = queue.enqueue(at(0), patient(7, 4_000), 7).unwrap_err();
    let early = Some(Span::from_millis(1_500));
    assert_eq!((refused.reason, refused.retry_after), (Reason::TooLate, early));
    queue.enqueue(at(0), patient(7, 5_500), 7).unwrap();
}

#[test]
fn a_retry_after_is_honest() {
    // A request that comes back after `retry_after` is taken in and starts in time, if no other
    // comes.
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut queue = Queue::new(Settings::default());
        queue.set_rate(Some(Quota::per_second(100)));
        for _ in 0..200 {
            let weight = Weight::new(1 + rng.below_u32(3));
            let path = Path::of(rng.below(6), weight);
            queue.enqueue(at(0), Request { path, ..request(0) }, 0).unwrap();
        }
        let within = Span::from_millis(100 + rng.below_u32(300));
        let ask = |now: Tick| Request { deadline: now.after(within), ..request(1) };
        let Err(Refused { retry_after: Some(early), .. }) = queue.enqueue(at(0), ask(at(0)), 1)
        else {
            continue;
        };
        let again = early.get() - early.get() % 10_000 + 10_000;
        for served in 0..again / 10_000 {
            serve(&mut queue, at(served * 10_000)).unwrap();
        }
        let now = at(again);
        queue.enqueue(now, ask(now), 1).expect("it was told to come back now");
        let mut then = now;
        while serve(&mut queue, then) != Some(1) {
            then = then.after(Span::from_millis(10));
            assert!(then <= now.after(within), "it was told it would start in time");
        }
    }
}

#[test]
fn deadlines_pass_in_order_wherever_they_are() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut queue = Queue::new(Settings::default());
        let mut now = rng.of_bits(40);
        let mut deadlines = std::collections::BTreeSet::new();
        for number in 0..300_u64 {
            let deadline = now + rng.of_bits(30);
            let asked = Request { deadline: at(deadline), ..request(number % 7) };
            let handle = queue.enqueue(at(now), asked, (deadline, number)).unwrap().handle;
            if rng.one_in(3) {
                queue.cancel(handle).unwrap();
            } else {
                deadlines.insert((deadline, number));
            }
            let next = queue.next_deadline().map(Tick::get);
            assert!(next <= deadlines.first().map(|(deadline, _)| *deadline));
            assert_eq!(next.is_some(), !deadlines.is_empty());
            now += rng.of_bits(26);
            while let Some(refused) = queue.expire(at(now)) {
                assert_eq!(refused.reason, Reason::Expired);
                assert!(deadlines.remove(&refused.item), "it was not there");
                assert!(refused.item.0 <= now, "too early");
            }
            assert!(deadlines.first().is_none_or(|(deadline, _)| now < *deadline), "too late");
        }
    }
}

#[test]
fn what_has_expired_does_not_start_even_if_nobody_asked() {
    let mut queue = Queue::new(Settings::default());
    queue.enqueue(at(0), Request { deadline: at(10), ..request(1) }, 1).unwrap();
    queue.enqueue(at(0), request(1), 2).unwrap();
    let Some(Turn::Drop(refused)) = queue.dispatch(at(11), ONE) else { panic!("it started") };
    assert_eq!((refused.item, refused.reason), (1, Reason::Expired));
    assert_eq!(serve(&mut queue, at(11)), Some(2));
    // Its last tick is still its own.
    queue.enqueue(at(11), Request { deadline: at(20), ..request(1) }, 3).unwrap();
    assert_eq!(serve(&mut queue, at(20)), Some(3));
}

#[test]
fn a_higher_class_goes_first_and_a_lower_one_has_its_floor() {
    let mut queue = Queue::new(Settings { floors: [0, 0, 100, 50], ..Settings::default() });
    let mut served = [0_u32; 4];
    for step in 0..10_000 {
        for class in [Class::Critical, Class::Normal, Class::Low] {
            while queue.backlog_of_class(class).0 < 3 {
                queue.enqueue(at(step), Request { class, ..request(1) }, class).unwrap();
            }
        }
        served[serve(&mut queue, at(step)).unwrap() as usize] += 1;
        // While all have requests, nobody is ever more than one behind his floor.
        let all = u32::try_from(step + 1).unwrap();
        assert!(all / 10 <= served[2] + 1 && all / 20 <= served[3] + 1, "{served:?} of {all}");
    }
    assert_eq!(served, [8_500, 0, 1_000, 500]);
}

#[test]
fn what_a_low_class_gets_while_it_is_alone_is_not_held_against_it() {
    let mut queue = Queue::new(Settings::default());
    for step in 0..1_000 {
        queue.enqueue(at(step), Request { class: Class::Low, ..request(1) }, Class::Low).unwrap();
        serve(&mut queue, at(step)).unwrap();
    }
    let mut low = 0;
    for step in 0..1_000 {
        for class in [Class::Critical, Class::Low] {
            queue.enqueue(at(step), Request { class, ..request(1) }, class).unwrap();
        }
        low += u32::from(serve(&mut queue, at(step)) == Some(Class::Low));
    }
    assert_eq!(low, 50);
}

/// One server that takes ten milliseconds, and a flow that gets twice as much as it can do for a
/// second, then half. How long each that started had waited, in milliseconds.
fn standing(settings: Settings) -> (Vec<u64>, u32) {
    let mut queue = Queue::new(settings);
    let (mut waits, mut dropped) = (Vec::new(), 0);
    for step in 0..400_u64 {
        let now = at(step * 10_000);
        let arrivals = if step < 100 { 2 } else { step % 2 };
        for _ in 0..arrivals {
            queue.enqueue(now, request(1), ()).unwrap();
        }
        while let Some(turn) = queue.dispatch(now, ONE) {
            match turn {
                Turn::Drop(refused) => {
                    assert_eq!(refused.reason, Reason::Shed);
                    dropped += 1;
                }
                Turn::Start(started) => {
                    waits.push(started.waited.get() / 1_000);
                    queue.complete(started.ticket, 1);
                    break;
                }
            }
        }
    }
    (waits, dropped)
}

#[test]
fn a_standing_queue_is_thinned_out_until_it_moves() {
    let (plain, none) = standing(Settings::default());
    let shed = Some(Shed::default());
    let (thinned, dropped) = standing(Settings { shed, ..Settings::default() });
    assert_eq!(none, 0);
    let most = |waits: &[u64]| waits.iter().copied().max().unwrap();
    assert!(990 <= most(&plain), "{}", most(&plain));
    assert!((20..100).contains(&dropped), "{dropped}");
    assert!(most(&thinned) < 2 * most(&plain) / 3, "{}", most(&thinned));
}

#[test]
fn a_burst_is_not_a_standing_queue() {
    let shed = Some(Shed::default());
    let mut queue = Queue::new(Settings { shed, ..Settings::default() });
    for _ in 0..9 {
        queue.enqueue(at(0), request(1), ()).unwrap();
    }
    for step in 0..9 {
        let started = start(&mut queue, at(step * 10_000)).unwrap();
        queue.complete(started.ticket, 1);
    }
}

#[test]
fn the_newest_go_first_while_it_stands() {
    let after = Some(Span::from_millis(100));
    let (plain, _) = standing(Settings::default());
    let newest_first = Settings { newest_first_after: after, ..Settings::default() };
    let (newest, _) = standing(newest_first);
    let quick = |waits: &[u64]| waits.iter().filter(|wait| **wait <= 20).count();
    assert!(quick(&plain) < 60, "{}", quick(&plain));
    assert!(150 < quick(&newest), "{}", quick(&newest));
}

#[test]
fn credit_for_what_was_overestimated_is_bounded_by_the_estimate() {
    let mut queue = Queue::new(Settings { flow_requests_max: 5_000, ..Settings::default() });
    for flow in [1, 2] {
        for _ in 0..2_000 {
            queue.enqueue(at(0), Request { cost: 10, ..request(flow) }, flow).unwrap();
        }
    }
    // Flow 1 starts ten, and all of them turn out to be nothing, long afterwards.
    let room = Room { free: 1_000, whole: 1_000 };
    let mut tickets = Vec::new();
    while tickets.len() < 10 {
        let Some(Turn::Start(started)) = queue.dispatch(at(0), room) else { panic!("idle") };
        if started.item == 1 {
            tickets.push(started.ticket);
        } else {
            queue.complete(started.ticket, 10);
        }
    }
    for ticket in tickets {
        queue.complete(ticket, 0);
    }
    let first: Vec<u64> = (0..8)
        .map(|_| {
            let Some(Turn::Start(started)) = queue.dispatch(at(0), room) else { panic!("idle") };
            queue.complete(started.ticket, 10);
            started.item
        })
        .collect();
    let in_a_row = first.iter().take_while(|flow| **flow == 1).count();
    assert!(in_a_row <= 3, "{first:?}");
}
