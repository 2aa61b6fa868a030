//! What stands before the service and says how many may be in flight: ours, a baseline, nothing,
//! or one that knows everything.

use tidegate_core::adapt::{Controller, Outcome, Settings, Started};
use tidegate_core::{Span, Tick};

use super::baseline::{Aimd, Baseline, Envoy, Gradient2, Vegas};
use super::plant::now_seconds;
use super::scenario::Scenario;

/// Something that limits what is in flight.
#[derive(Debug)]
pub enum Guard {
    /// Ours.
    Tidegate(Box<Controller>),
    /// Somebody else's law.
    Baseline(Box<dyn Baseline>),
    /// As many as there are workers, always.
    Oracle(Scenario),
    /// No limit at all.
    None,
}

/// A request that a guard has let through.
#[derive(Debug)]
pub struct Ticket {
    at: Tick,
    in_flight: u32,
    started: Option<Started>,
}

impl Ticket {
    /// How long ago it was let through.
    pub(super) fn age(&self, now: Tick) -> Span {
        now.since(self.at)
    }
}

impl Guard {
    /// The names of all guards, ours first.
    pub const NAMES: [&str; 7] =
        ["tidegate", "vegas", "gradient2", "aimd", "envoy", "none", "oracle"];

    /// The guard called `name`, with the same bounds for all: 1 to 2,000, starting at 20.
    ///
    /// # Panics
    ///
    /// If there is none of that name.
    pub fn named(name: &str, scenario: &Scenario) -> Guard {
        match name {
            "tidegate" => {
                let settings = Settings { limit_max: 2_000, ..Settings::default() };
                let controller = Controller::new(settings, Tick::from_micros(0));
                Guard::Tidegate(Box::new(controller.expect("the settings are in order")))
            }
            "vegas" => Guard::Baseline(Box::new(Vegas::new(scenario.seed))),
            "gradient2" => Guard::Baseline(Box::new(Gradient2::new())),
            "aimd" => Guard::Baseline(Box::new(Aimd::new())),
            "envoy" => Guard::Baseline(Box::new(Envoy::new(scenario.seed))),
            "none" => Guard::None,
            "oracle" => Guard::Oracle(*scenario),
            _ => panic!("no guard is called {name}"),
        }
    }

    /// How many may be in flight at `now`.
    pub fn limit(&self, now: Tick) -> u32 {
        match self {
            Guard::Tidegate(controller) => controller.limit(),
            Guard::Baseline(baseline) => baseline.limit(),
            Guard::Oracle(scenario) => scenario.workers_at(now_seconds(now)).max(1),
            Guard::None => u32::MAX,
        }
    }

    /// Lets a request through if there is room.
    pub(super) fn start(&mut self, now: Tick, waited: Span, in_flight: u32) -> Option<Ticket> {
        let started = match self {
            Guard::Tidegate(controller) => Some(controller.start(now, waited)?),
            _ if self.limit(now) <= in_flight => return None,
            _ => None,
        };
        Some(Ticket { at: now, in_flight, started })
    }

    /// Tells the guard what came of a request.
    pub(super) fn finish(&mut self, now: Tick, ticket: Ticket, outcome: Outcome) {
        let latency = ticket.age(now);
        match self {
            Guard::Tidegate(controller) => {
                if let Some(started) = ticket.started {
                    controller.finish(now, started, outcome);
                }
            }
            Guard::Baseline(baseline) => {
                let dropped = outcome == Outcome::TimedOut;
                baseline.sample(now, latency, ticket.in_flight + 1, dropped);
            }
            Guard::Oracle(_) | Guard::None => {}
        }
    }
}
