//! Limits that follow the load: less while a service is overloaded, all of it again afterwards.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::Span;
use tidegate_gate::adapt::{Fraction, Outcome};
use tidegate_gate::{Field, Gate, Load, Sample};
use tidegate_store::ManualClock;

use crate::stand::{by, gate, looks, passed, replace};

const POLICY: &str = "rules: [{ name: r, key: header:x-api-key, limit: 1600/h, adaptive: 25% },
                              { name: fixed, key: header:x-api-key, limit: 3000/h }]";

fn push(gate: &Gate, source: &str, percent: u32) -> Fraction {
    let load = Fraction::from_millionths(percent * 10_000);
    let load = Load { source, load, ttl: Span::from_secs(5) };
    gate.load(&load).unwrap().factor
}

/// Lets time pass, with a look now and then.
fn pass(gate: &Gate, clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds * 10 {
        clock.advance(Span::from_millis(100));
        gate.advance();
    }
}

fn policy_of(gate: &Gate, request: &Sample) -> String {
    let mut said = String::new();
    gate.decide(request).fields(|field, value| {
        if field == Field::RateLimitPolicy {
            value.clone_into(&mut said);
        }
    });
    said
}

#[test]
fn only_marked_rules_give_way_and_clients_are_told() {
    let (gate, clock) = gate(POLICY);
    assert_eq!(looks(&gate, &by("a")), [1_600, 3_000]);
    clock.advance(Span::from_secs(1));
    assert_eq!(push(&gate, "s", 200), Fraction::from_percent(50));
    assert_eq!(looks(&gate, &by("a")), [800, 3_000]);
    assert!(policy_of(&gate, &by("a")).contains("\"r\";q=800;w=3600"));
    assert!(policy_of(&gate, &by("a")).contains("\"fixed\";q=3000;w=3600"));
}

#[test]
fn what_was_consumed_is_kept_down_and_up() {
    for algorithm in ["fixed-window", "sliding-window", "sliding-log"] {
        let policy =
            format!("rules: [{{ name: r, limit: 1600/h, adaptive: 10%, algorithm: {algorithm} }}]");
        let (gate, clock) = gate(&policy);
        assert_eq!(passed(&gate, &by("a"), 600), 600);
        clock.advance(Span::from_millis(200));
        push(&gate, "s", 200);
        let left = looks(&gate, &by("a"))[0];
        assert!((200..=202).contains(&left), "{algorithm}: {left}");
        // Two steps below what was consumed: nothing passes, and nothing is owed for ever.
        clock.advance(Span::from_secs(1));
        push(&gate, "s", 200);
        assert_eq!(passed(&gate, &by("a"), 1), 0, "{algorithm}");
        pass(&gate, &clock, 30);
        assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
        let left = looks(&gate, &by("a"))[0];
        assert!((1_000..=1_230).contains(&left), "{algorithm}: {left}");
    }
}

#[test]
fn a_bucket_is_as_full_as_it_was_down_and_up() {
    for algorithm in ["token-bucket", "gcra", "leaky-bucket"] {
        let policy =
            format!("rules: [{{ name: r, limit: 1600/h, adaptive: 10%, algorithm: {algorithm} }}]");
        let (gate, clock) = gate(&policy);
        assert_eq!(passed(&gate, &by("a"), 800), 800);
        for left in [400, 200] {
            clock.advance(Span::from_secs(1));
            push(&gate, "s", 200);
            let found = looks(&gate, &by("a"))[0];
            assert!((left..=left + 1).contains(&found), "{algorithm}: {found}");
        }
        pass(&gate, &clock, 30);
        assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
        // 32 seconds pay 14.
        let found = looks(&gate, &by("a"))[0];
        assert!((813..=815).contains(&found), "{algorithm}: {found}");
    }
}

#[test]
fn whoever_asks_while_less_is_given_out_gets_nothing_back() {
    for algorithm in ["token-bucket", "gcra", "leaky-bucket", "sliding-log"] {
        let policy =
            format!("rules: [{{ name: r, limit: 1000/h, adaptive: 5%, algorithm: {algorithm} }}]");
        let (gate, clock) = gate(&policy);
        let mut sum = passed(&gate, &by("a"), 2_000);
        for _ in 0..20 {
            for _ in 0..4 {
                clock.advance(Span::from_secs(1));
                push(&gate, "s", 200);
                sum += passed(&gate, &by("a"), 1_000);
            }
            pass(&gate, &clock, 20);
            assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
            sum += passed(&gate, &by("a"), 1_000);
        }
        // 480 seconds pay 133.
        assert!((1_000..=1_134).contains(&sum), "{algorithm}: {sum}");
    }
}

#[test]
fn what_is_given_back_under_a_smaller_part_is_what_it_took() {
    let (gate, clock) = gate(
        "costs: [{ path: /**, cost: 16 }]
rules: [{ name: r, limit: 1600/day, adaptive: 5% }]",
    );
    let mut all: Vec<_> = (0..100).map(|_| gate.decide(&by("a"))).collect();
    assert!(all.iter().all(|it| it.verdict().passes()));
    clock.advance(Span::from_secs(1));
    assert_eq!(push(&gate, "s", 200), Fraction::from_percent(50));
    assert_eq!(looks(&gate, &by("a")), [0]);
    for mut admission in all.drain(..25) {
        drop(admission.refund());
    }
    // Time has paid a little of each meanwhile, which is not given back again.
    assert_eq!(looks(&gate, &by("a")), [199]);
    pass(&gate, &clock, 20);
    assert_eq!(looks(&gate, &by("a")), [399]);
    // A dip that is over counts for nothing.
    drop(all.pop().unwrap().refund());
    assert_eq!(looks(&gate, &by("a")), [415]);
}

#[test]
fn a_floor_is_a_floor_and_a_limit_is_at_least_one() {
    let (gate, clock) = gate(
        "tiers: { header: x-tier, default: free }
rules: [{ name: r, key: header:x-api-key, limit: { free: 160/h, pro: 1600/h }, adaptive: 25%,
          overrides: { big: 3200/h } },
        { name: one, limit: 1/h, adaptive: 1%, algorithm: fixed-window }]",
    );
    for _ in 0..20 {
        clock.advance(Span::from_secs(1));
        push(&gate, "s", 900);
    }
    assert_eq!(gate.load_reading().factor, Fraction::from_millionths(62_500));
    assert_eq!(looks(&gate, &by("a")), [40, 1]);
    assert_eq!(looks(&gate, &by("a").with_header("x-tier", "pro")), [400, 1]);
    assert_eq!(looks(&gate, &by("big")), [800, 1]);
}

#[test]
fn a_pusher_that_dies_is_forgotten_and_everything_comes_back() {
    let (gate, clock) = gate(POLICY);
    clock.advance(Span::from_secs(1));
    push(&gate, "s", 200);
    pass(&gate, &clock, 4);
    let reading = gate.load_reading();
    assert_eq!((reading.factor, reading.sources), (Fraction::from_percent(50), 1));
    pass(&gate, &clock, 1);
    assert_eq!(gate.load_reading().sources, 0);
    pass(&gate, &clock, 5);
    assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
    assert_eq!(looks(&gate, &by("a")), [1_600, 3_000]);
}

#[test]
fn limits_change_at_most_once_a_second_whatever_is_pushed() {
    let (gate, clock) = gate(POLICY);
    clock.advance(Span::from_secs(1));
    let mut changes = 0;
    let mut last = Fraction::WHOLE;
    for round in 0..300_u32 {
        clock.advance(Span::from_millis(20));
        let factor = push(&gate, "s", if round % 2 == 0 { 300 } else { 10 });
        changes += u32::from(factor != last);
        last = factor;
    }
    // Six seconds.
    assert!((1..=7).contains(&changes), "{changes}");
}

#[test]
fn a_reload_under_load_stays_under_load() {
    let (gate, clock) = gate(POLICY);
    clock.advance(Span::from_secs(1));
    push(&gate, "s", 200);
    assert_eq!(passed(&gate, &by("a"), 100), 100);
    replace(&gate, &POLICY.replace("1600", "3200"));
    assert_eq!(looks(&gate, &by("a")), [1_500, 2_900]);
    replace(&gate, &POLICY.replace(", adaptive: 25%", ""));
    assert_eq!(looks(&gate, &by("a")), [3_000 / 2, 2_900]);
}

#[test]
fn failures_of_requests_that_were_let_in_brake_and_refusals_do_not() {
    let (gate, clock) = gate(POLICY);
    for _ in 0..200 {
        clock.advance(Span::from_millis(10));
        if let Some(flight) = gate.let_in(Span::ZERO) {
            flight.finish(Outcome::Failed);
        }
    }
    let reading = gate.load_reading();
    assert!(reading.factor < Fraction::WHOLE);
    assert_eq!(reading.controller.in_flight, 0);
    pass(&gate, &clock, 10);
    // Full, and more are turned away: that is no reason to give less.
    let held: Vec<_> = std::iter::from_fn(|| gate.let_in(Span::ZERO)).collect();
    assert!(gate.let_in(Span::ZERO).is_none());
    assert_eq!(gate.load_reading().controller.in_flight as usize, held.len());
    drop(held);
    assert_eq!(gate.load_reading().controller.in_flight, 0);
    assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
}

#[test]
fn requests_alone_bring_it_back() {
    let (gate, clock) = gate(POLICY);
    clock.advance(Span::from_secs(1));
    push(&gate, "s", 200);
    for _ in 0..120 {
        clock.advance(Span::from_millis(100));
        let _ = gate.decide(&by("b"));
    }
    assert_eq!(looks(&gate, &by("a")), [1_600, 3_000]);
}

#[test]
fn a_flapping_load_gives_nobody_a_fresh_quota() {
    let (gate, clock) = gate("rules: [{ name: r, limit: 1600/day, adaptive: 5% }]");
    assert_eq!(passed(&gate, &by("a"), 1_600), 1_600);
    for round in 0..600_u32 {
        clock.advance(Span::from_secs(1));
        push(&gate, "s", if round % 2 == 0 { 300 } else { 10 });
    }
    pass(&gate, &clock, 20);
    assert_eq!(gate.load_reading().factor, Fraction::WHOLE);
    // Ten minutes of a day: at most eleven.
    let left = looks(&gate, &by("a"))[0];
    assert!(left <= 12, "{left}");
}

mod shares {
    use std::collections::VecDeque;
    use std::future::Future as _;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use tidegate_core::Tick;
    use tidegate_gate::{Admission, Admit, Response};
    use tidegate_store::Clock as _;

    use super::*;

    const SHARED: &str = "
rules: [{ name: r, key: header:x-api-key, limit: 16000000/h, adaptive: 25% }]
share: [{ name: backend, capacity: 200 in flight, adaptive: 5%, by: header:x-api-key, wait: 1h }]";

    struct Status(u16);

    impl Response for Status {
        fn status(&self) -> u16 {
            self.0
        }

        fn header(&self, _: &str) -> Option<&[u8]> {
            None
        }
    }

    /// A service whose workers take 20 ms for a request each, and sixty who want it.
    struct Busy {
        gate: Gate,
        clock: Arc<ManualClock>,
        /// When each is free again.
        workers: VecDeque<Tick>,
        inside: VecDeque<(Tick, Admission)>,
        waiting: Vec<Admit>,
    }

    impl Busy {
        fn new(policy: &str, workers: usize) -> Busy {
            let (gate, clock) = gate(policy);
            let workers = (0..workers).map(|_| clock.now()).collect();
            Busy { gate, clock, workers, inside: VecDeque::new(), waiting: Vec::new() }
        }

        fn run(&mut self, seconds: u32, status: Option<u16>) {
            let end = self.clock.now().after(Span::from_secs(seconds));
            while self.clock.now() < end {
                while self.waiting.len() < 60 {
                    self.waiting.push(self.gate.admit(&by("a")));
                }
                self.start_who_may();
                let (at, mut done) = self.inside.pop_front().unwrap();
                self.clock.advance(at.since(self.clock.now()));
                if let Some(status) = status {
                    drop(done.settle(&Status(status)));
                }
            }
        }

        fn start_who_may(&mut self) {
            let mut index = 0;
            while let Some(admit) = self.waiting.get_mut(index) {
                match Pin::new(admit).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => index += 1,
                    Poll::Ready(admission) => {
                        assert!(admission.verdict().passes());
                        drop(self.waiting.swap_remove(index));
                        let free = self.workers.pop_front().unwrap().max(self.clock.now());
                        let done = free.after(Span::from_millis(20));
                        self.workers.push_back(done);
                        self.inside.push_back((done, admission));
                    }
                }
            }
        }

        fn limit(&self) -> u32 {
            self.gate.stats().shares[0].limit
        }
    }

    #[test]
    fn a_share_finds_its_capacity_and_failures_lower_it() {
        let mut busy = Busy::new(SHARED, 40);
        assert_eq!(busy.limit(), 20);
        busy.run(20, Some(200));
        let found = busy.limit();
        assert!((38..=48).contains(&found), "{found}");
        busy.run(4, Some(503));
        assert!((10..=found / 2).contains(&busy.limit()), "{}", busy.limit());
        busy.run(30, Some(404));
        assert!((38..=48).contains(&busy.limit()), "{}", busy.limit());
    }

    #[test]
    fn a_queue_that_stands_before_it_lowers_rates_until_it_is_gone() {
        let mut busy = Busy::new(SHARED, 40);
        assert_eq!(looks(&busy.gate, &by("c")), [16_000_000]);
        busy.run(10, Some(200));
        assert_eq!(looks(&busy.gate, &by("c")), [4_000_000], "the floor");
        busy.waiting.clear();
        busy.inside.clear();
        pass(&busy.gate, &busy.clock, 20);
        assert_eq!(looks(&busy.gate, &by("c")), [16_000_000]);
    }

    #[test]
    fn whoever_leaves_without_a_word_teaches_it_nothing() {
        let mut busy = Busy::new(SHARED, 40);
        busy.run(5, None);
        assert_eq!(busy.limit(), 20);
    }

    #[test]
    fn words_about_load_lower_it_and_its_bounds_hold() {
        let mut busy = Busy::new(SHARED, 40);
        busy.run(20, Some(200));
        let found = busy.limit();
        push(&busy.gate, "s", 200);
        busy.run(1, Some(200));
        assert!(busy.limit() <= found * 6 / 10, "{found} {}", busy.limit());
        for _ in 0..10 {
            push(&busy.gate, "s", 200);
            busy.run(1, Some(200));
        }
        assert!(10 <= busy.limit() && busy.limit() <= found / 2, "{}", busy.limit());
        replace(&busy.gate, &SHARED.replace("200 in flight", "400 in flight"));
        assert!(20 <= busy.limit(), "its floor is higher now: {}", busy.limit());
        replace(&busy.gate, &SHARED.replace("200 in flight, adaptive: 5%", "7 in flight"));
        assert_eq!(busy.limit(), 7);
    }
}
