//! Runs a scenario: clients, our queue, the guard and the service, event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use tidegate_core::adapt::Outcome;
use tidegate_core::{Span, Tick};

use super::guard::{Guard, Ticket};
use super::plant::{Service, fraction, micros, now_seconds};
use super::scenario::{Scenario, seconds};
use crate::rng::Rng;

/// Our queue holds no more than this.
const QUEUE_MAX: usize = 10_000;

/// What happened in one slice of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The limit at its end; as many as are in flight if there is none.
    pub limit: f64,
    /// How many were in flight at its end.
    pub in_flight: f64,
    /// The sum of the latencies of what ended, in seconds, from the guard to the answer.
    pub latency_sum: f64,
    /// How many ended.
    pub ended: f64,
    /// How many of these in time for somebody who still waited.
    pub good: f64,
    /// How many requests were made, retries included.
    pub offered: f64,
}

/// A whole run, slice by slice.
#[derive(Clone, Debug)]
pub struct Run {
    /// How long a slice is.
    pub slice: Span,
    /// The slices.
    pub samples: Vec<Sample>,
}

/// Runs `scenario` with the guard called `name`, see [`Guard::NAMES`].
pub fn run(scenario: &Scenario, name: &str) -> Run {
    let guard = Guard::named(name, scenario);
    World::new(*scenario, guard).run()
}

/// One try of a client.
#[derive(Debug)]
struct Try {
    arrived: Tick,
    retries_left: u8,
    /// Its client has given up.
    gone: bool,
    ticket: Option<Ticket>,
    /// Tells this use of the place from others.
    number: u64,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// A client comes, with so many tries after this one.
    Arrive(u8),
    /// The client of a try gives up: the place and the number of the try.
    GiveUp(usize, u64),
}

#[derive(Debug)]
struct World {
    scenario: Scenario,
    guard: Guard,
    service: Service,
    rng: Rng,
    tries: Vec<Option<Try>>,
    free: Vec<usize>,
    queue: VecDeque<usize>,
    timers: BinaryHeap<Reverse<(Tick, Timer)>>,
    in_flight: u32,
    next_arrival: Tick,
    numbers: u64,
    /// How long a request stands in our queue at most.
    queued_max: Span,
    slice: Sample,
    run: Run,
}

impl World {
    fn new(scenario: Scenario, guard: Guard) -> World {
        let patience =
            seconds(scenario.service).clamp(0.005, 0.1).min(scenario.clients.timeout / 4.0);
        let long = seconds(scenario.length) > 600.0;
        let slice = if long { Span::from_secs(1) } else { Span::from_millis(50) };
        World {
            scenario,
            guard,
            service: Service::new(scenario),
            rng: Rng::new(scenario.seed),
            tries: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            in_flight: 0,
            next_arrival: Tick::from_micros(1),
            numbers: 0,
            queued_max: Span::from_micros(micros(patience)),
            slice: Sample::default(),
            run: Run { slice, samples: Vec::new() },
        }
    }

    fn run(mut self) -> Run {
        let end = Tick::from_micros(self.scenario.length.get());
        // Workers come back without an event of their own: somebody has to look.
        let pulse = Span::from_micros((self.scenario.service.get() / 4).clamp(1_000, 10_000));
        let (mut pulse_at, mut slice_at) = (Tick::default(), Tick::default().after(self.run.slice));
        loop {
            let now = self.next_event().min(pulse_at).min(slice_at);
            if end < now {
                return self.run;
            }
            if pulse_at <= now {
                pulse_at = now.after(pulse);
                self.service.employ(now);
            }
            self.events(now);
            if slice_at <= now {
                slice_at = now.after(self.run.slice);
                self.close_slice(now);
            }
        }
    }

    fn next_event(&self) -> Tick {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let ends = [self.service.next_end(), timer];
        ends.into_iter().flatten().fold(self.next_arrival, Tick::min)
    }

    fn events(&mut self, now: Tick) {
        while let Some(place) = self.service.done(now) {
            self.answer(place, now);
        }
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::Arrive(retries) => self.arrive(now, retries),
                Timer::GiveUp(place, number) => self.give_up(now, place, number),
            }
        }
        if self.next_arrival <= now {
            self.arrive(now, self.scenario.clients.retries);
            let rate = self.scenario.demand_at(now_seconds(now));
            let gap = -(1.0 - fraction(&mut self.rng)).ln() / rate;
            self.next_arrival = Tick::from_micros(now.get() + micros(gap));
        }
        self.dispatch(now);
    }

    fn arrive(&mut self, now: Tick, retries_left: u8) {
        self.slice.offered += 1.0;
        if QUEUE_MAX <= self.queue.len() {
            return self.refuse(now, retries_left);
        }
        self.numbers += 1;
        let number = self.numbers;
        let place = self.free.pop().unwrap_or_else(|| {
            self.tries.push(None);
            self.tries.len() - 1
        });
        self.tries[place] =
            Some(Try { arrived: now, retries_left, gone: false, ticket: None, number });
        self.queue.push_back(place);
        if self.scenario.clients.timeout.is_finite() {
            let at = Tick::from_micros(now.get() + micros(self.scenario.clients.timeout));
            self.timers.push(Reverse((at, Timer::GiveUp(place, number))));
        }
    }

    fn refuse(&mut self, now: Tick, retries_left: u8) {
        if 0 < retries_left {
            let wait = micros(self.scenario.clients.timeout / 10.0);
            let at = Tick::from_micros(now.get() + wait);
            self.timers.push(Reverse((at, Timer::Arrive(retries_left - 1))));
        }
    }

    fn give_up(&mut self, now: Tick, place: usize, number: u64) {
        let Some(one) = self.tries[place].as_mut().filter(|one| one.number == number) else {
            return;
        };
        one.gone = true;
        if 0 < one.retries_left {
            let again = Timer::Arrive(one.retries_left - 1);
            self.timers.push(Reverse((now, again)));
        }
    }

    /// Hands requests to the service while the guard lets them.
    fn dispatch(&mut self, now: Tick) {
        while let Some(&place) = self.queue.front() {
            let Some(one) = self.tries[place].as_mut() else { return };
            let waited = now.since(one.arrived);
            let expired = self.queued_max < waited && !matches!(self.guard, Guard::None);
            if one.gone || expired {
                let retries = if one.gone { 0 } else { one.retries_left };
                self.queue.pop_front();
                self.leave(place);
                self.refuse(now, retries);
                continue;
            }
            let Some(ticket) = self.guard.start(now, waited, self.in_flight) else { return };
            one.ticket = Some(ticket);
            self.in_flight += 1;
            self.queue.pop_front();
            self.service.take(place, now);
        }
    }

    fn answer(&mut self, place: usize, now: Tick) {
        let Some(one) = self.leave(place) else { return };
        let Some(ticket) = one.ticket else { return };
        self.in_flight -= 1;
        self.slice.ended += 1.0;
        self.slice.latency_sum += seconds(ticket.age(now));
        self.slice.good += f64::from(!one.gone);
        let outcome = if one.gone { Outcome::TimedOut } else { Outcome::Served };
        self.guard.finish(now, ticket, outcome);
    }

    fn leave(&mut self, place: usize) -> Option<Try> {
        self.free.push(place);
        self.tries[place].take()
    }

    fn close_slice(&mut self, now: Tick) {
        let in_flight = f64::from(self.in_flight);
        let limit = match self.guard {
            Guard::None => in_flight,
            _ => f64::from(self.guard.limit(now)),
        };
        self.run.samples.push(Sample { limit, in_flight, ..self.slice });
        self.slice = Sample::default();
    }
}
