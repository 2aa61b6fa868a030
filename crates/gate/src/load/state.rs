//! What the factor is made of: the controller, who said what, and what the fleet says.

use tidegate_core::adapt::{Controller, Fraction, Outcome, Settings, SettingsError, Started};
use tidegate_core::{Span, Tick};

use super::sources::Sources;
use super::steps::step_of;
use super::{Load, LoadReading, LoadRefused};

/// How often the controller is let go on.
const BEAT: Span = Span::from_millis(100);

/// How often limits change at most. A word is used up no sooner either: it tells of the limits
/// that were in force when it was said.
const PACE: Span = Span::from_secs(1);

/// Each beat gives back a twentieth, as each calm beat of the controller does.
const CLIMB: u32 = 20;

#[derive(Debug)]
pub(super) struct State {
    controller: Controller,
    sources: Sources,
    paced_at: Option<Tick>,
    told_at: Option<Tick>,
    /// The fleet's factor, and until when it counts.
    fleet: Option<(Fraction, Tick)>,
    /// What of it is followed: down at once, and back as slowly as the controller.
    followed: Fraction,
    climbed_at: Tick,
}

/// What a step has to know of the rest of the gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Whether there is a fleet to tell.
    pub(super) tells: bool,
    /// The smallest factor of queues that find their capacity, if there are any.
    pub(super) queues: Option<Fraction>,
}

/// What came of a step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) factor: Fraction,
    /// When to look again; nothing if nothing will have changed by itself.
    pub(super) due: Option<Tick>,
    /// Whether to tell the fleet.
    pub(super) tells: bool,
    /// This node's own factor, if it knows anything.
    pub(super) own: Option<Fraction>,
    /// A word about load that counts from now on, for the others that go by it.
    pub(super) load: Option<Fraction>,
}

impl State {
    pub(super) fn new(settings: Settings, now: Tick) -> Result<State, SettingsError> {
        let controller = Controller::new(settings, now)?;
        let sources = Sources::default();
        let (paced_at, told_at, fleet) = (None, None, None);
        let (followed, climbed_at) = (Fraction::WHOLE, now);
        Ok(State { controller, sources, paced_at, told_at, fleet, followed, climbed_at })
    }

    pub(super) fn hear(&mut self, load: &Load<'_>, now: Tick) -> Result<(), LoadRefused> {
        self.sources.hear(load, now)
    }

    pub(super) fn start(&mut self, now: Tick, waited: Span) -> Option<Started> {
        self.controller.start(now, waited)
    }

    pub(super) fn finish(&mut self, now: Tick, started: Started, outcome: Outcome) {
        self.controller.finish(now, started, outcome);
    }

    /// Hears for which share of the time something on the host waited.
    pub(super) fn feel(&mut self, now: Tick, waiting: Fraction) {
        self.controller.pressure(now, waiting);
    }

    /// What the fleet said, which counts for `lease`.
    pub(super) fn fleet_said(&mut self, factor: Fraction, until: Tick) {
        self.fleet = Some((factor, until));
    }

    /// Lets time pass. `present` is the factor in force.
    pub(super) fn step(&mut self, present: Fraction, now: Tick, around: Around) -> Step {
        let is_due = |last: Option<Tick>| last.is_none_or(|last| PACE <= now.since(last));
        let somebody_left = self.sources.forget(now);
        // Nobody says anything any more.
        let silent = somebody_left && self.sources.len() == 0;
        let mut load = silent.then_some(Fraction::NONE);
        let is_paced = is_due(self.paced_at);
        if is_paced {
            load = self.sources.news().or(load);
        }
        if let Some(load) = load {
            self.controller.load(now, load);
        }
        self.controller.advance(now);
        self.follow(now);
        let queues = around.queues.unwrap_or(Fraction::WHOLE);
        let mut factor = present;
        if is_paced {
            factor = step_of(self.controller.factor().min(queues).min(self.followed));
            if factor != present {
                self.paced_at = Some(now);
            }
        }
        let own = self.own(around.queues);
        let tells = around.tells && is_due(self.told_at);
        if tells {
            self.told_at = Some(now);
        }
        let is_calm = own.is_none()
            && factor == Fraction::WHOLE
            && self.followed == Fraction::WHOLE
            && self.fleet.is_none();
        let pause = if is_calm { PACE } else { BEAT };
        let due = (!is_calm || around.tells).then(|| now.after(pause));
        Step { factor, due, tells, own, load }
    }

    /// This node's own factor, if it knows anything.
    fn own(&self, queues: Option<Fraction>) -> Option<Fraction> {
        let factor = self.controller.factor();
        let is_calm = factor == Fraction::WHOLE
            && self.sources.len() == 0
            && self.controller.in_flight() == 0;
        (!is_calm || queues.is_some()).then(|| factor.min(queues.unwrap_or(Fraction::WHOLE)))
    }

    /// Follows the fleet's factor. The node that lowered it may have died of the load that it heard
    /// of; so all comes back no faster than it does where one node is alone.
    fn follow(&mut self, now: Tick) {
        let said = self.of_fleet(now);
        if said <= self.followed {
            (self.followed, self.climbed_at) = (said, now);
        } else if BEAT <= now.since(self.climbed_at) {
            let left = self.followed.get();
            self.followed = Fraction::from_millionths(left + left / CLIMB + 1).min(said);
            self.climbed_at = now;
        }
    }

    /// What the fleet's nodes said lately.
    fn of_fleet(&mut self, now: Tick) -> Fraction {
        self.fleet = self.fleet.filter(|(_, until)| now < *until);
        self.fleet.map_or(Fraction::WHOLE, |(factor, _)| factor)
    }

    pub(super) fn reading(&mut self, factor: Fraction, now: Tick) -> LoadReading {
        LoadReading {
            factor,
            fleet: self.of_fleet(now),
            load: self.sources.worst(),
            sources: self.sources.len(),
            controller: self.controller.reading(),
        }
    }
}
