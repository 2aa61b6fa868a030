//! What goes into a queue and what comes of it.

use core::fmt;

use crate::tick::{Span, Tick};

use super::path::{Class, Path};
use super::slab::Handle;

/// What a request is, besides what its owner attaches to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Whose it is.
    pub path: Path,
    /// How much it matters.
    pub class: Class,
    /// What it takes, in cells; at least one. An estimate will do: see
    /// [`Queue::complete`](super::Queue::complete).
    pub cost: u32,
    /// The last tick at which it may start.
    pub deadline: Tick,
}

/// A request has been taken in.
#[derive(Debug)]
pub struct Enqueued<T> {
    /// Names it until it starts, is refused or is cancelled.
    pub handle: Handle,
    /// Who had to leave for it: the queue was full, and this one's flow had the most by weight.
    pub pushed_out: Option<Refused<T>>,
}

/// A request that will not be served.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused<T> {
    /// What its owner attached to it.
    pub item: T,
    /// Why.
    pub reason: Reason,
    /// When the same request is likely to be taken and served in time; nothing if the queue has
    /// not been told how fast it is served.
    pub retry_after: Option<Span>,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The queue is full, and its flow has as much in it as anybody, by weight.
    Full,
    /// Its flow has as many requests waiting as one flow may have.
    FlowFull,
    /// It would not start before its deadline.
    TooLate,
    /// The queue was full, its flow had the most in it, and somebody with less came.
    PushedOut,
    /// Its deadline passed while it waited.
    Expired,
    /// Its flow stood for too long.
    Shed,
    /// It costs more than there could ever be at once. For owners of a queue: the queue itself
    /// gives everything to a request that wants more than everything.
    TooWide,
}

impl Reason {
    /// One word, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::FlowFull => "flow-full",
            Reason::TooLate => "too-late",
            Reason::PushedOut => "pushed-out",
            Reason::Expired => "expired",
            Reason::Shed => "shed",
            Reason::TooWide => "too-wide",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Full => "the queue is full",
            Reason::FlowFull => "too many requests of this tenant are waiting",
            Reason::TooLate => "it would not start before its deadline",
            Reason::PushedOut => "the queue is full, and this tenant has the most in it",
            Reason::Expired => "its deadline passed while it waited",
            Reason::Shed => "this tenant's requests have waited for too long",
            Reason::TooWide => "it costs more than there could ever be at once",
        })
    }
}

/// What is free of what there is, in cells: permits, or what a bucket holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// What may start now.
    pub free: u32,
    /// What could start if nothing were taken. A request of more takes all of it.
    pub whole: u32,
}

/// What a queue has to say when there is room.
#[derive(Debug)]
pub enum Turn<T> {
    /// This one is next.
    Start(Started<T>),
    /// This one was next and is not served: its deadline has passed, or its flow stands.
    Drop(Refused<T>),
}

/// A request whose turn it is.
#[derive(Debug)]
pub struct Started<T> {
    /// What its owner attached to it.
    pub item: T,
    /// The name it had while it waited.
    pub handle: Handle,
    /// What it takes of the room.
    pub cost: u32,
    /// How long it waited.
    pub waited: Span,
    /// To be handed back when it is complete.
    pub ticket: Ticket,
}

/// Stands for a request that has started, until [`Queue::complete`](super::Queue::complete).
///
/// A flow with a ticket out is remembered until it comes back: hand back every one, to the queue
/// that it is of.
#[derive(Debug)]
#[must_use = "hand it to `complete`, or its flow is remembered for ever"]
pub struct Ticket {
    pub(super) flow: u32,
    pub(super) estimate: u32,
}

impl Ticket {
    /// What was charged for it.
    pub fn estimate(&self) -> u32 {
        self.estimate
    }
}
