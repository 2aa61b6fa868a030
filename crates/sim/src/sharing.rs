//! One noisy tenant among quiet ones, three ways: nothing, plain limits, a fair queue.
//!
//! A service answers a hundred requests a second, one after the other. Nine tenants ask for eight
//! a second each; a tenth asks for eight too, then for three hundred. Everybody gives up after a
//! second. For a while half of the quiet ones are asleep: what they leave is there for the taking.

use std::collections::VecDeque;

use tidegate_core::fair::{Class, Path, Queue, Request, Room, Settings, Turn, Weight};
use tidegate_core::{Policy, Quota, Span, State, Tick};

use crate::rng::Rng;

/// What stands before the service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Guard {
    /// First come, first served.
    Nothing,
    /// Every tenant has a tenth of the capacity as its limit.
    Limits,
    /// A fair queue: every tenant has a tenth while all want it, and more while they do not.
    FairQueue,
}

/// What happened with one guard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shared {
    /// What stood before the service.
    pub guard: Guard,
    /// Requests of quiet tenants that were answered, in every span of the grid.
    pub quiet: Vec<u32>,
    /// Requests of the noisy tenant that were answered, in every span of the grid.
    pub noisy: Vec<u32>,
    /// What quiet tenants asked for while the noisy one was noisy, and what of it was answered.
    pub quiet_asked: u32,
    /// Answers to quiet tenants during the noise.
    pub quiet_answered: u32,
    /// Answers to anybody during the noise.
    pub answered: u32,
    /// How long quiet requests that were answered had waited, all but one of a hundred.
    pub quiet_wait: Span,
}

/// All three, against the same requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sharing {
    /// What quiet tenants asked for, in every span of the grid.
    pub asked: Vec<u32>,
    /// The guards, the worst first.
    pub guards: [Shared; 3],
}

impl Sharing {
    /// Requests a second that the service answers.
    pub const CAPACITY: u32 = 100;
    /// How many tenants there are, the noisy one with them.
    pub const TENANTS: u32 = 10;
    /// What the noisy one asks for a second, when it is.
    pub const NOISE: u32 = 300;
    /// How long it all lasts, in seconds.
    pub const SECONDS: u32 = 40;
    /// From when to when one tenant is noisy.
    pub const NOISY: (u32, u32) = (8, 32);
    /// From when to when half of the others are asleep.
    pub const ASLEEP: (u32, u32) = (20, 32);
    /// Spans of the grid to a second.
    pub const SPANS: u32 = 4;

    const RATE: u32 = 8;
    const PATIENCE: u64 = 1_000_000;

    /// Runs all three. Another seed, other random arrivals.
    pub fn run(seed: u64) -> Sharing {
        let arrivals = arrivals(seed);
        let mut asked = grid();
        for (at, tenant) in &arrivals {
            if 0 < *tenant {
                asked[span_of(*at)] += 1;
            }
        }
        let guards = [Guard::Nothing, Guard::Limits, Guard::FairQueue];
        Sharing { asked, guards: guards.map(|guard| serve(guard, &arrivals)) }
    }
}

/// A wait in whole milliseconds, for people.
pub fn round(wait: Span) -> Span {
    Span::from_micros(wait.get() / 1_000 * 1_000)
}

fn grid() -> Vec<u32> {
    vec![0; (Sharing::SECONDS * Sharing::SPANS) as usize]
}

fn span_of(at: u64) -> usize {
    let span = at * u64::from(Sharing::SPANS) / 1_000_000;
    usize::try_from(span).unwrap_or(usize::MAX)
}

fn is_within(at: u64, (from, until): (u32, u32)) -> bool {
    (u64::from(from)..u64::from(until)).contains(&(at / 1_000_000))
}

/// When who asks. The noisy one is number zero.
fn arrivals(seed: u64) -> Vec<(u64, u32)> {
    let mut rng = Rng::new(seed);
    let mut arrivals = Vec::new();
    for milli in 0..u64::from(Sharing::SECONDS) * 1_000 {
        let at = milli * 1_000;
        for tenant in 0..Sharing::TENANTS {
            let is_asleep = 0 < tenant && tenant % 2 == 0 && is_within(at, Sharing::ASLEEP);
            let is_noisy = tenant == 0 && is_within(at, Sharing::NOISY);
            let rate = match (is_asleep, is_noisy) {
                (true, _) => 0,
                (_, true) => Sharing::NOISE,
                _ => Sharing::RATE,
            };
            if rng.below(1_000) < rate.into() {
                arrivals.push((at, tenant));
            }
        }
    }
    arrivals
}

/// The requests that wait, and which is next.
enum Line {
    Plain(VecDeque<(u64, u32)>),
    Fair(Box<Queue<u32>>),
}

impl Line {
    fn add(&mut self, at: u64, tenant: u32) {
        match self {
            Line::Plain(line) => line.push_back((at, tenant)),
            Line::Fair(queue) => {
                let path = Path::of(tenant.into(), Weight::ONE);
                let deadline = Tick::from_micros(at + Sharing::PATIENCE);
                let request = Request { path, class: Class::Normal, cost: 1, deadline };
                // Who is refused or pushed out has not been served, which is all that counts.
                let _ = queue.enqueue(Tick::from_micros(at), request, tenant);
            }
        }
    }

    /// The next one that has not given up, and how long it waited.
    fn next(&mut self, now: u64) -> Option<(u32, u64)> {
        match self {
            Line::Plain(line) => {
                while line.front().is_some_and(|(at, _)| at + Sharing::PATIENCE < now) {
                    line.pop_front();
                }
                line.pop_front().map(|(at, tenant)| (tenant, now - at))
            }
            Line::Fair(queue) => loop {
                match queue.dispatch(Tick::from_micros(now), Room { free: 1, whole: 1 })? {
                    Turn::Drop(_) => {}
                    Turn::Start(started) => {
                        queue.complete(started.ticket, 1);
                        return Some((started.item, started.waited.get()));
                    }
                }
            },
        }
    }
}

fn serve(guard: Guard, arrivals: &[(u64, u32)]) -> Shared {
    let mut line = match guard {
        Guard::Nothing | Guard::Limits => Line::Plain(VecDeque::new()),
        Guard::FairQueue => Line::Fair(Box::new(Queue::new(Settings::default()))),
    };
    let quota = Quota::per_second(Sharing::CAPACITY / Sharing::TENANTS);
    let limit = Policy::token_bucket(quota).expect("ten a second can be counted");
    let mut states: Vec<State> = (0..Sharing::TENANTS).map(|_| limit.fresh()).collect();
    let (mut quiet, mut noisy) = (grid(), grid());
    let (mut quiet_asked, mut quiet_answered, mut answered) = (0, 0, 0);
    let mut waits = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    let step = u64::from(1_000_000 / Sharing::CAPACITY);
    for now in (0..u64::from(Sharing::SECONDS * Sharing::CAPACITY)).map(|turn| turn * step) {
        while let Some((at, tenant)) = arrivals.next_if(|(at, _)| *at <= now) {
            quiet_asked += u32::from(0 < *tenant && is_within(*at, Sharing::NOISY));
            let state = &mut states[*tenant as usize];
            let tick = Tick::from_micros(*at);
            if guard != Guard::Limits || limit.decide(state, tick, 1).verdict.passes() {
                line.add(*at, *tenant);
            }
        }
        let Some((tenant, waited)) = line.next(now) else { continue };
        let is_noise = is_within(now, Sharing::NOISY);
        answered += u32::from(is_noise);
        if tenant == 0 {
            noisy[span_of(now)] += 1;
        } else {
            quiet[span_of(now)] += 1;
            quiet_answered += u32::from(is_noise);
            waits.push(waited);
        }
    }
    waits.sort_unstable();
    let wait = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    let quiet_wait = Span::from_micros(wait);
    Shared { guard, quiet, noisy, quiet_asked, quiet_answered, answered, quiet_wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all() {
        assert_eq!(Sharing::run(7), Sharing::run(7));
        assert_ne!(Sharing::run(7), Sharing::run(8));
    }

    #[test]
    fn only_the_fair_queue_serves_the_quiet_and_wastes_nothing() {
        for seed in 0..5 {
            let [nothing, limits, fair] = Sharing::run(seed).guards;
            let percent = |shared: &Shared| 100 * shared.quiet_answered / shared.quiet_asked;
            let (from, until) = Sharing::NOISY;
            let used = |shared: &Shared| shared.answered / (until - from);
            assert!(percent(&nothing) < 50, "{}", percent(&nothing));
            assert!(95 < percent(&limits) && used(&limits) < 75, "{}", used(&limits));
            assert!(98 <= percent(&fair), "{}", percent(&fair));
            assert!(99 <= used(&fair), "{}", used(&fair));
            assert!(fair.quiet_wait < Span::from_millis(250), "{}", fair.quiet_wait);
        }
    }
}
