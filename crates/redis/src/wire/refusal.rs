//! Why a call has no answer, and whether it may have run.
//!
//! The difference decides what a caller may do: what was refused may be asked again, what was lost
//! may have been charged already.

use std::fmt;
use std::sync::Arc;

/// Why a call has no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CallError {
    /// It certainly was not executed.
    NotRun(Refusal),
    /// It may have been executed, and is never sent again.
    Unknown(Lost),
}

/// Why a call was not executed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// The server reads its data from disk.
    Loading,
    /// The server is a replica, and its primary was not found in time.
    ReadOnly,
    /// The server is full, and is configured not to evict.
    OutOfMemory,
    /// A script of somebody runs for too long.
    Busy,
    /// There was no connection in time; why the last one ended.
    NotConnected(Arc<str>),
    /// The cluster has no owner for the slot.
    ClusterDown,
    /// The slot moves, and some of the call's keys are here and others there.
    SlotMoves,
    /// Servers send us round in circles.
    TooManyRedirects,
    /// The user may not run it; what the server said.
    NoPermission(Arc<str>),
    /// The script itself failed: it did not finish, and may have written before.
    Script(Arc<str>),
    /// What it is about was charged before the server was restarted, or another took its place.
    OtherRun,
    /// Whatever else the server said.
    Other(Arc<str>),
}

/// Why nobody knows whether a call was executed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Lost {
    /// No answer came in time.
    TimedOut,
    /// The connection ended between call and answer.
    Disconnected(Arc<str>),
}

impl CallError {
    /// Whether the server is in no state to answer anybody, and better left alone for a while.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            CallError::Unknown(_) => true,
            CallError::NotRun(refusal) => matches!(
                refusal,
                Refusal::Loading
                    | Refusal::ReadOnly
                    | Refusal::Busy
                    | Refusal::NotConnected(_)
                    | Refusal::ClusterDown
                    | Refusal::TooManyRedirects
            ),
        }
    }

    /// Whether the server took nothing because it is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, CallError::NotRun(Refusal::OutOfMemory))
    }

    /// Whether the call certainly did nothing.
    pub(crate) fn is_certain(&self) -> bool {
        !matches!(self, CallError::Unknown(_) | CallError::NotRun(Refusal::Script(_)))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NotRun(refusal) => refusal.fmt(f),
            CallError::Unknown(lost) => lost.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Loading => {
                f.write_str("the server is reading its data from disk; wait for it")
            }
            Refusal::ReadOnly => f.write_str(
                "the server is a replica and no primary was found in time; check the fail-over",
            ),
            Refusal::OutOfMemory => {
                f.write_str("the server is full; raise its `maxmemory` or give us one of our own")
            }
            Refusal::Busy => f.write_str(
                "a script keeps the server busy; find it with SLOWLOG, end it with SCRIPT KILL",
            ),
            Refusal::NotConnected(why) => {
                write!(f, "not connected ({why}); check that the server runs and can be reached")
            }
            Refusal::ClusterDown => {
                f.write_str("no server of the cluster owns the slot; check `CLUSTER INFO`")
            }
            Refusal::SlotMoves => f.write_str(
                "the slot moves to another server, and the keys are not yet together there",
            ),
            Refusal::TooManyRedirects => f.write_str(
                "the cluster's servers disagree on who owns the slot; run `redis-cli \
                             --cluster check`",
            ),
            Refusal::NoPermission(why) => {
                write!(f, "the user may not run our scripts ({why}); extend its ACL")
            }
            Refusal::Script(why) => write!(f, "the script failed ({why}); please report this"),
            Refusal::OtherRun => f.write_str(
                "the server was restarted, or another took its place, since that was charged; \
                 nothing is given back",
            ),
            Refusal::Other(why) => write!(f, "the server refused the call ({why})"),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::TimedOut => {
                f.write_str("no answer in time; check the server's load and the network")
            }
            Lost::Disconnected(why) => {
                write!(f, "the connection ended before the answer ({why}); check the server's log")
            }
        }
    }
}

impl std::error::Error for CallError {}
