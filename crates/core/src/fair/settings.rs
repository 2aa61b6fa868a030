//! How a queue is set up: its levels, its bounds, its floors, and what it does when it stands.

use crate::tick::Span;

use super::path::Class;

/// How a [`Queue`](super::Queue) is set up. The default is one level, no shedding, and bounds that
/// suit a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// How many names of a path are looked at: one to three.
    pub levels: u8,
    /// The most requests that wait, all together.
    pub requests_max: u32,
    /// The most requests that one flow has waiting.
    pub flow_requests_max: u32,
    /// What each class is served at least while it has requests, in thousandths of everything, the
    /// highest class first. Together they leave something over: more than 900 is cut to 900.
    pub floors: [u16; Class::ALL.len()],
    /// Sheds requests of flows that stand.
    pub shed: Option<Shed>,
    /// Serves the newest request of a flow first, once its oldest has waited for longer than this
    /// for as long again: those who have just come still get an answer in time.
    pub newest_first_after: Option<Span>,
}

/// When a flow stands, and how it is thinned out: `CoDel`.
///
/// Once every request of a flow has waited for longer than `target` for a whole `interval`, the
/// oldest is dropped, and more of them ever faster until one has waited less.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shed {
    /// A wait that is no reason to do anything.
    pub target: Span,
    /// How long it may be passed for.
    pub interval: Span,
}

impl Settings {
    /// The most that a queue can be set up for.
    pub const REQUESTS_MAX: u32 = 1 << 24;

    /// What is left for the highest class is at least a tenth.
    const FLOORS_MAX: u16 = 900;

    pub(super) fn checked(mut self) -> Settings {
        self.levels = self.levels.clamp(1, 3);
        self.requests_max = self.requests_max.clamp(1, Settings::REQUESTS_MAX);
        self.flow_requests_max = self.flow_requests_max.clamp(1, self.requests_max);
        let mut left = Settings::FLOORS_MAX;
        for floor in &mut self.floors {
            *floor = (*floor).min(left);
            left -= *floor;
        }
        self
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            levels: 1,
            requests_max: 10_000,
            flow_requests_max: 1_000,
            floors: [0, 100, 100, 50],
            shed: None,
            newest_first_after: None,
        }
    }
}

impl Default for Shed {
    /// Five milliseconds, for a hundred.
    fn default() -> Shed {
        Shed { target: Span::from_millis(5), interval: Span::from_millis(100) }
    }
}
