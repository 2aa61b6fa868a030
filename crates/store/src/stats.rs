//! What a store holds, and what it has seen of servers elsewhere, in numbers: for metrics.

use tidegate_core::Span;

use crate::memory::MemoryStats;

/// What a store holds and has seen since it was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// What is kept in this process.
    pub memory: MemoryStats,
    /// What was seen of servers elsewhere; nothing where states are kept in this process only.
    pub remote: Option<RemoteStats>,
}

/// What was seen of servers elsewhere that keep states.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RemoteStats {
    /// How many decisions were made by what.
    pub decisions: DecisionCounts,
    /// Calls of scripts that were sent; many requests may travel in one.
    pub calls: u64,
    /// How long answers took.
    pub round_trips: RoundTrips,
    /// Requests that Redis did not answer, by the reason; refunds and renewals included.
    pub errors: ErrorCounts,
    /// Servers that are left alone just now, because they failed several times in a row: how many
    /// circuit breakers are open.
    pub resting: usize,
    /// How the connections are, and whether a server may evict our keys.
    pub health: Health,
}

/// How many decisions were made by what.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct DecisionCounts {
    /// By Redis.
    pub store: u64,
    /// Refused here, because Redis had refused it before and only time could change that.
    pub remembered: u64,
    /// By this node's share, without Redis.
    pub local: u64,
    /// Let through, without Redis.
    pub open: u64,
    /// Refused, without Redis.
    pub closed: u64,
    /// Of those without Redis: how many may have been charged there all the same.
    pub unanswered: u64,
    /// Cells that this node's share let through and that Redis will never be told of, because more
    /// keys owed something than are remembered.
    pub written_off: u64,
    /// Cells that were to be given back to Redis and perhaps never were: its answer did not come,
    /// it was restarted meanwhile, or more waited to be given back than are kept.
    pub not_returned: u64,
}

/// How long trips to Redis and back took, counted by how long that was.
///
/// A trip is one write of one or more calls, until all of them are answered or given up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RoundTrips {
    /// How many took no longer than each of [`RoundTrips::BOUNDS`], and longer than the one before;
    /// the last took longer than all of them.
    pub counts: [u64; RoundTrips::BOUNDS.len() + 1],
    /// How long all of them took together.
    pub total: Span,
}

impl RoundTrips {
    /// The longest that a trip of each count took.
    pub const BOUNDS: [Span; 13] = [
        Span::from_micros(100),
        Span::from_micros(250),
        Span::from_micros(500),
        Span::from_millis(1),
        Span::from_micros(2_500),
        Span::from_millis(5),
        Span::from_millis(10),
        Span::from_millis(25),
        Span::from_millis(50),
        Span::from_millis(100),
        Span::from_millis(250),
        Span::from_millis(500),
        Span::from_secs(1),
    ];

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How many requests Redis did not answer, by the reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ErrorCounts {
    /// Redis was left alone, because it had failed several times in a row.
    pub resting: u64,
    /// It certainly did nothing.
    pub refused: u64,
    /// It may have done what was asked, but did not say so in time.
    pub unanswered: u64,
    /// Too many requests were waiting for it.
    pub busy: u64,
    /// What it had was none of ours.
    pub damaged: u64,
}

impl ErrorCounts {
    /// Each reason by its name, and how often it was.
    pub fn each(&self) -> [(&'static str, u64); 5] {
        [
            ("resting", self.resting),
            ("refused", self.refused),
            ("unanswered", self.unanswered),
            ("busy", self.busy),
            ("damaged", self.damaged),
        ]
    }
}

/// How the connections to all servers are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// One for every server that keys are kept on.
    pub nodes: Vec<NodeHealth>,
}

/// How the connection to one server is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Host and port.
    pub address: String,
    /// Whether calls can be sent right now.
    pub connected: bool,
    /// What the server says it is, as `redis 7.2.4` or `valkey 8.0.1`.
    pub server: String,
    /// `master` or `slave`, in the server's own word.
    pub role: String,
    /// What to change if the server may evict our keys; an evicted key is a free reset.
    pub eviction_warning: Option<String>,
    /// Whether there was a connection at all, now or before.
    pub seen: bool,
    /// How often a connection was made anew after the first.
    pub reconnects: u64,
    /// Why the last connection ended, or the last try failed.
    pub last_error: Option<String>,
}

impl Health {
    /// Whether every server can be reached.
    pub fn is_connected(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.connected)
    }

    /// Whether any server was ever reached.
    pub fn is_seen(&self) -> bool {
        self.nodes.iter().any(|node| node.seen)
    }
}
