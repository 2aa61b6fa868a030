//! The story of the picture: a busy service loses half of its workers for ten seconds.

use tidegate_core::Span;

use super::run::{Run, Sample, run};
use super::scenario::{Clients, Profile, Scenario, Spread};
use super::score::latency;

/// The story, with everybody who stood before the service.
#[derive(Clone, Debug)]
pub struct Dip {
    /// What happened.
    pub scenario: Scenario,
    /// With nothing, with a published law, with ours.
    pub guards: Vec<Guarded>,
}

/// The story behind one guard.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// The guard's name, see [`Guard::NAMES`](super::Guard::NAMES).
    pub name: &'static str,
    /// What came of it.
    pub run: Run,
}

impl Dip {
    /// Where the picture starts, in seconds: after everybody has learned.
    pub const START: f64 = 15.0;
    /// Where the workers go, in seconds.
    pub const FROM: f64 = 20.0;
    /// Where they come back, in seconds.
    pub const TO: f64 = 30.0;
    /// Where the picture ends, in seconds.
    pub const END: f64 = 40.0;
    /// How many there are at first.
    pub const WORKERS: u32 = 100;
    /// How long a request takes if nothing queues.
    pub const SERVICE: Span = Span::from_millis(10);

    /// Tells it, the same for the same seed.
    pub fn run(seed: u64) -> Dip {
        let scenario = Scenario {
            spread: Spread::Even(0.5),
            profile: Profile::Dip { from: Dip::FROM, to: Dip::TO, by: 0.5 },
            clients: Clients { load: 0.9, spike: None, timeout: f64::INFINITY, retries: 0 },
            length: Span::from_secs(40),
            ..Scenario::new(Dip::WORKERS, Dip::SERVICE, seed)
        };
        let guards = ["none", "envoy", "tidegate"];
        let guards = guards.map(|name| Guarded { name, run: run(&scenario, name) });
        Dip { scenario, guards: guards.into() }
    }
}

impl Guarded {
    /// The mean latency while workers are missing, in seconds; the first second is left out.
    pub fn latency_meanwhile(&self) -> f64 {
        latency(self.meanwhile())
    }

    /// The requests served in a second while workers are missing; the first second is left out.
    pub fn served_meanwhile(&self) -> f64 {
        let served: f64 = self.meanwhile().iter().map(|sample| sample.good).sum();
        served / (Dip::TO - Dip::FROM - 1.0)
    }

    /// The mean latency in the last five seconds, in seconds.
    pub fn latency_after(&self) -> f64 {
        latency(self.run.between(Dip::END - 5.0, Dip::END))
    }

    fn meanwhile(&self) -> &[Sample] {
        self.run.between(Dip::FROM + 1.0, Dip::TO)
    }
}
