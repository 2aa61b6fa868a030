//! The controller: counts what is in flight, cuts time into rounds and beats, and says the limit.

use super::brake::Brake;
use super::capacity::Capacity;
use super::round::{Plan, Round, span_of};
use super::signals::Signals;
use super::{Fraction, Outcome, Reading, Settings, SettingsError, Started};
use crate::tick::{Span, Tick};

/// Brakes are looked at this often, or once a latency if that is longer.
const BEAT: Span = Span::from_millis(100);

/// Finds how much a service can take, from what comes of the requests it is given.
///
/// It holds 400 bytes, allocates nothing and reads no clock: time comes with each call.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    capacity: Capacity,
    round: Round,
    depth: u32,
    in_flight: u32,
    signals: Signals,
    limit_brake: Brake,
    rate_brake: Brake,
    beat_at: Tick,
    /// A running mean of latencies, in ticks.
    latency: u64,
}

impl Controller {
    /// A controller that knows nothing yet.
    pub fn new(settings: Settings, now: Tick) -> Result<Controller, SettingsError> {
        settings.check()?;
        let Settings { limit_min, limit_max, limit_start, .. } = settings;
        Ok(Controller {
            settings,
            capacity: Capacity::new(limit_min, limit_max, limit_start),
            round: Round::new(now),
            depth: 1,
            in_flight: 0,
            signals: Signals::default(),
            limit_brake: Brake::new(settings.brake_floor),
            rate_brake: Brake::new(settings.factor_floor),
            beat_at: now.after(BEAT),
            latency: 0,
        })
    }

    /// Moves within other bounds from now on, and keeps what it has learned.
    pub fn set(&mut self, settings: Settings, now: Tick) -> Result<(), SettingsError> {
        settings.check()?;
        self.account(now);
        self.capacity.set_bounds(settings.limit_min, settings.limit_max);
        self.limit_brake.set_floor(settings.brake_floor);
        self.rate_brake.set_floor(settings.factor_floor);
        self.settings = settings;
        self.begin_round(now, 1);
        Ok(())
    }

    /// How many requests may be in flight.
    pub fn limit(&self) -> u32 {
        let learned = u64::from(self.capacity.limit());
        let left = self.limit_brake.left().of_amount(learned);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        left.clamp(self.settings.limit_min, self.settings.limit_max)
    }

    /// The share of its quota that a rate rule marked `adaptive` gives out.
    pub fn factor(&self) -> Fraction {
        self.rate_brake.left()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Everything that can be shown to an operator.
    pub fn reading(&self) -> Reading {
        Reading {
            limit: self.limit(),
            in_flight: self.in_flight,
            factor: self.factor(),
            brake: self.limit_brake.left(),
            latency: Span::from_micros(self.latency),
            latency_base: span_of(self.capacity.base()),
        }
    }

    /// Lets a request through to the service if the limit has room. `waited` is how long it stood
    /// in our own queue; zero if there is none.
    ///
    /// A request that does not pass leaves no trace here: what we refuse never moves the limit.
    pub fn start(&mut self, now: Tick, waited: Span) -> Option<Started> {
        self.advance(now);
        if self.limit() <= self.in_flight {
            return None;
        }
        self.in_flight += 1;
        self.signals.waited(waited);
        Some(Started { at: now })
    }

    /// Takes note that a request has left the service, and how.
    #[expect(clippy::needless_pass_by_value, reason = "what is handed over cannot finish twice")]
    pub fn finish(&mut self, now: Tick, started: Started, outcome: Outcome) {
        self.account(now);
        self.in_flight = self.in_flight.saturating_sub(1);
        let latency = now.since(started.at);
        self.round.end((outcome == Outcome::Served).then_some(latency));
        if outcome != Outcome::Abandoned {
            let failed = outcome != Outcome::Served;
            self.signals.ended(failed);
            self.note(latency);
        }
        self.judge(now);
        self.beat(now);
    }

    /// Hears which share of time something on the host waited for its resources, such as the
    /// `some` of Linux's pressure stall information. Counts for ten seconds.
    pub fn pressure(&mut self, now: Tick, waiting: Fraction) {
        self.signals.pressure(waiting, now);
        self.advance(now);
    }

    /// Hears from the service itself how loaded it is: the whole is as much as it wants. It is
    /// given that share of the present: once, for no word tells of what it changed itself. Counts
    /// for ten seconds.
    pub fn load(&mut self, now: Tick, load: Fraction) {
        self.signals.load(load, now);
        self.advance(now);
    }

    /// Lets time pass. Brakes come off by this alone, so call it now and then when idle.
    pub fn advance(&mut self, now: Tick) {
        self.account(now);
        if self.round.is_stale() {
            self.capacity.give_up();
            self.begin_round(now, 1);
        }
        self.beat(now);
    }

    fn account(&mut self, now: Tick) {
        let plan = Plan { base: self.capacity.base(), depth: self.depth };
        self.round.pass(now, self.in_flight, self.limit(), plan);
    }

    fn note(&mut self, latency: Span) {
        let latency = latency.get().min(Tick::MAX.get());
        self.latency = match self.latency {
            0 => latency,
            mean => mean - mean / 16 + latency / 16,
        };
    }

    /// Ends the round if it has found something. Only when something has come back: while a
    /// service stands still there is nothing to be learned about it.
    fn judge(&mut self, now: Tick) {
        let base_known = self.capacity.base() != 0;
        if let Some(found) = self.round.measured(self.limit(), base_known) {
            let held = self.limit_brake.left() < Fraction::WHOLE;
            let next = self.capacity.learn(found, now, held);
            self.begin_round(now.after(next.settle), next.depth);
        }
    }

    fn begin_round(&mut self, opens: Tick, depth: u32) {
        self.depth = depth;
        self.round = Round::new(opens);
    }

    fn beat(&mut self, now: Tick) {
        if now < self.beat_at {
            return;
        }
        let cut = self.signals.failures_cut(&self.settings);
        let words = self.signals.words(&self.settings, now);
        self.limit_brake.beat(cut, words);
        self.rate_brake.beat(cut.min(self.signals.queue_cut(&self.settings)), words);
        self.signals.clear();
        self.beat_at = now.after(BEAT.max(Span::from_micros(self.latency)));
    }
}
