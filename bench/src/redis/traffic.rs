//! The traffic that both sides are asked to decide.

use std::time::Duration;

use crate::setting::{Effort, Quota};

/// One column of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traffic {
    pub(super) name: &'static str,
    /// A sentence for the report.
    pub(super) about: &'static str,
    /// How many decisions are in flight at a time.
    pub(super) tasks: u32,
    /// The least that our decisions per second may be of the published script's.
    pub(super) target: f64,
}

/// Traffic that shares its clients: all were asked about before the timer starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    pub(super) clients: u32,
    pub(super) quota: Quota,
    pub(super) expects: Expects,
    pub(super) traffic: &'static [Traffic],
}

/// What becomes of the traffic of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expects {
    AllPass,
    NonePass,
}

pub(super) fn scenes(effort: Effort) -> [Scene; 3] {
    let many = u32::try_from(effort.of(MANY)).expect("fewer than 2^32 clients");
    [
        Scene { clients: many, quota: SLOW, expects: Expects::AllPass, traffic: &SPREAD },
        Scene { clients: 1, quota: Quota::HOT, expects: Expects::AllPass, traffic: &[HOT] },
        Scene {
            clients: EXHAUSTED,
            quota: Quota::REFUSING,
            expects: Expects::NonePass,
            traffic: &[FLOOD],
        },
    ]
}

impl Scene {
    /// How often every client is asked about before the timer starts.
    pub(super) fn passes(&self) -> u64 {
        match self.expects {
            Expects::AllPass => 1,
            Expects::NonePass => u64::from(self.quota.burst) + 1,
        }
    }

    /// How many of the requests of that pass are admitted.
    pub(super) fn admits(&self, pass: u64) -> u64 {
        if pass < u64::from(self.quota.burst) { self.clients.into() } else { 0 }
    }
}

const SPREAD: [Traffic; 2] = [
    Traffic {
        name: "alone",
        about: "a million keys, all admitted, one decision in flight at a time",
        tasks: 1,
        target: 1.0,
    },
    Traffic {
        name: "million",
        about: "a million keys, all admitted, 64 in flight",
        tasks: 64,
        target: 2.0,
    },
];

const HOT: Traffic =
    Traffic { name: "hot", about: "one key, all admitted, 64 in flight", tasks: 64, target: 10.0 };

const FLOOD: Traffic = Traffic {
    name: "flood",
    about: "a thousand keys, all refused, 64 in flight",
    tasks: 64,
    target: 50.0,
};

/// Admits all, and keeps a key live for ten minutes after a single decision. A full burst takes
/// less than 35 years to refill, as in any quota that is in use: beyond that our store needs a
/// wider state and a slower script.
const SLOW: Quota = Quota { per: Duration::from_mins(10), burst: 1_000_000 };
const MANY: u64 = 1_000_000;
const EXHAUSTED: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_clients_are_refused_by_their_last_pass() {
        for scene in scenes(Effort::Quick) {
            let last = scene.admits(scene.passes() - 1);
            match scene.expects {
                Expects::AllPass => assert_eq!(last, u64::from(scene.clients)),
                Expects::NonePass => assert_eq!(last, 0),
            }
        }
    }
}
