//! What happens to a service, and who asks it: everything that a run depends on, with its seed.

use tidegate_core::Span;

/// How much the service can do at a time of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// As much all along.
    Steady,
    /// Workers are multiplied by `by` at `at`.
    Step {
        /// When, in seconds.
        at: f64,
        /// The factor.
        by: f64,
    },
    /// Workers are multiplied by `by` between two times, evenly.
    Ramp {
        /// When it begins, in seconds.
        from: f64,
        /// When it ends, in seconds.
        to: f64,
        /// The factor at its end.
        by: f64,
    },
    /// Workers are multiplied by `by` between two times, and back again.
    Dip {
        /// When it begins, in seconds.
        from: f64,
        /// When it ends, in seconds.
        to: f64,
        /// The factor meanwhile.
        by: f64,
    },
    /// Halved and whole by turns, each for `every` seconds.
    Square {
        /// How long each turn is, in seconds.
        every: f64,
    },
    /// All requests take longer and longer between two times: `by` times as long at the end.
    Leak {
        /// When it begins, in seconds.
        from: f64,
        /// When it ends, in seconds.
        to: f64,
        /// The factor at its end.
        by: f64,
    },
    /// All requests take `by` times as long from `at` on, with as many workers.
    Slower {
        /// When, in seconds.
        at: f64,
        /// The factor.
        by: f64,
    },
    /// The service stands still for `lasts` seconds in every `every`.
    Pauses {
        /// From one to the next, in seconds.
        every: f64,
        /// How long, in seconds.
        lasts: f64,
    },
}

/// Who asks, and what they do if they get no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clients {
    /// Requests in a second, as a share of what the service can do at first.
    pub load: f64,
    /// A spike: from when to when, in seconds, and how many times the load.
    pub spike: Option<(f64, f64, f64)>,
    /// How long a client waits for its answer, in seconds, before it gives up; the service goes on
    /// working for nobody.
    pub timeout: f64,
    /// How often it tries again, at once after a timeout and after a tenth of it when refused.
    pub retries: u8,
}

/// A whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// How many requests the service works on at once.
    pub workers: u32,
    /// How long it takes for one, on average.
    pub service: Span,
    /// How service times are spread.
    pub spread: Spread,
    /// What happens to it.
    pub profile: Profile,
    /// Who asks.
    pub clients: Clients,
    /// How long the run is.
    pub length: Span,
    /// What is left out of the score at the beginning.
    pub warm_up: Span,
    /// Where chance starts.
    pub seed: u64,
}

/// How service times are spread around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// All the same.
    None,
    /// Evenly, up to this share of the mean to either side.
    Even(f64),
    /// Log-normal, with this deviation of the logarithm: many a little quicker, few much slower.
    LogNormal(f64),
    /// Exponential: the deviation is as large as the mean.
    Exponential,
    /// One in ten takes this many times as long as the others.
    Bimodal(f64),
}

impl Scenario {
    /// A service of `workers` that answers in `service`, asked for half as much again as it can.
    pub fn new(workers: u32, service: Span, seed: u64) -> Scenario {
        Scenario {
            workers,
            service,
            spread: Spread::Exponential,
            profile: Profile::Steady,
            clients: Clients { load: 1.5, spike: None, timeout: f64::INFINITY, retries: 0 },
            length: Span::from_secs(60),
            warm_up: Span::from_secs(20),
            seed,
        }
    }

    /// Requests in a second that the service can do at first.
    pub fn rate(&self) -> f64 {
        f64::from(self.workers) / seconds(self.service)
    }

    /// How many work at `at` seconds.
    pub fn workers_at(&self, at: f64) -> u32 {
        let factor = match self.profile {
            Profile::Step { at: from, by } if from <= at => by,
            Profile::Ramp { from, to, by } => 1.0 + (by - 1.0) * part(at, from, to),
            Profile::Dip { from, to, by } if from <= at && at < to => by,
            Profile::Square { every } if (at / every).rem_euclid(2.0) >= 1.0 => 0.5,
            Profile::Pauses { every, lasts } if at.rem_euclid(every) >= every - lasts => 0.0,
            _ => 1.0,
        };
        whole(f64::from(self.workers) * factor)
    }

    /// How many times as long as at first a request takes that starts at `at` seconds.
    pub fn slowness_at(&self, at: f64) -> f64 {
        match self.profile {
            Profile::Leak { from, to, by } => 1.0 + (by - 1.0) * part(at, from, to),
            Profile::Slower { at: from, by } if from <= at => by,
            _ => 1.0,
        }
    }

    /// How long a request that works from `at` for `takes` seconds stands still meanwhile.
    pub(super) fn pause_within(&self, at: f64, takes: f64) -> f64 {
        match self.profile {
            Profile::Pauses { every, lasts } if every - lasts <= at.rem_euclid(every) + takes => {
                lasts
            }
            _ => 0.0,
        }
    }

    /// Requests in a second that clients begin at `at` seconds.
    pub fn demand_at(&self, at: f64) -> f64 {
        let spike = self.clients.spike.filter(|(from, to, _)| *from <= at && at < *to);
        self.rate() * self.clients.load * spike.map_or(1.0, |(_, _, times)| times)
    }
}

fn part(at: f64, from: f64, to: f64) -> f64 {
    ((at - from) / (to - from)).clamp(0.0, 1.0)
}

/// A span in seconds.
#[expect(clippy::cast_precision_loss, reason = "spans of a run are far below 2^52 ticks")]
pub(super) fn seconds(span: Span) -> f64 {
    span.get() as f64 / 1e6
}

#[expect(clippy::cast_possible_truncation, reason = "a number of workers")]
#[expect(clippy::cast_sign_loss, reason = "factors are not negative")]
fn whole(number: f64) -> u32 {
    number.round() as u32
}
