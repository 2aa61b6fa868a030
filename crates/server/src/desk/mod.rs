//! What all doors ask: one gate, one guard, and what is held for callers.

mod held;
mod id;
mod named;
mod ration;
mod turns;

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_gate::{Gate, Reloaded, Watch};
use tidegate_store::ManualClock;

use crate::auth::{Guard, Role, Visitor};
use crate::body::Budget;
use crate::caller::Caller;
use crate::limits;
use crate::metrics::Metrics;
use crate::room::{Room, Rooms, Sizes};
use crate::settings::Bounds;
use crate::trace::Traces;

pub(crate) use self::held::{Entry, Held, HeldFor};
pub(crate) use self::id::Id;
pub(crate) use self::named::{NamedLimit, NamedLimits, NoLimit};
pub(crate) use self::ration::NoRoom;
pub(crate) use self::turns::{Newcomers, Turn, Turns};

/// What all doors ask.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) gate: Gate,
    pub(crate) guard: Guard,
    pub(crate) held: Held,
    pub(crate) named: NamedLimits,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    /// The clock that somebody else moves, in tests.
    pub(crate) manual: Option<Arc<ManualClock>>,
    /// Where the policy is, if it is in a file.
    pub(crate) policy: Option<PathBuf>,
    pub(crate) bounds: Bounds,
    /// What bodies of requests take until they are read.
    pub(crate) bodies: Budget,
    /// What requests under way and their replies take until they are taken.
    pub(crate) rooms: Rooms,
    /// How long the answer to a check gets, and to a byte of Envoy's request.
    pub(crate) check_sizes: Sizes,
    pub(crate) rls_sizes: Sizes,
    /// And the page of metrics.
    pub(crate) page_sizes: Sizes,
    /// Of connections that go on without a pause, and of those that have just come.
    pub(crate) turns: Turns,
    pub(crate) newcomers: Newcomers,
    /// Hashes the keys that distinguish callers behind proxies.
    keys: RandomState,
    is_ready: AtomicBool,
}

impl Desk {
    pub(crate) fn new(
        gate: Gate,
        guard: Guard,
        manual: Option<Arc<ManualClock>>,
        policy: Option<PathBuf>,
        bounds: Bounds,
    ) -> Desk {
        let (held, named) = (Held::default(), NamedLimits::default());
        let (metrics, bodies) = (Metrics::default(), Budget::default());
        let keys = RandomState::new();
        let (traces, is_ready) = (Traces::default(), AtomicBool::new(false));
        Desk {
            gate,
            guard,
            held,
            named,
            metrics,
            traces,
            manual,
            policy,
            bounds,
            bodies,
            rooms: Rooms::default(),
            check_sizes: Sizes::at_least(limits::CHECK_BYTES_LEAST),
            rls_sizes: Sizes::at_least(limits::RLS_BYTES_LEAST),
            page_sizes: Sizes::at_least(limits::PAGE_BYTES_LEAST),
            turns: Turns::default(),
            newcomers: Newcomers::default(),
            keys,
            is_ready,
        }
    }

    /// The caller that something is held for: `caller` itself, unless that is a proxy that asks for
    /// others. Then it is the client that has this key.
    pub(crate) fn holds_for(&self, caller: Caller, peer: IpAddr, key: impl Hash) -> Caller {
        match caller {
            Caller::Address(_) if self.gate.rules().trusts(peer) => {
                Caller::Key(self.keys.hash_one(key))
            }
            caller => caller,
        }
    }

    /// Room for the requests and replies of a connection. Behind a proxy there are many peers, and
    /// an administrator is none that has to be bounded.
    pub(crate) fn room(&self, visitor: Visitor) -> Arc<Room> {
        let is_one =
            visitor.certified != Some(Role::Admin) && !self.gate.rules().trusts(visitor.peer);
        self.rooms.connection(is_one.then(|| Caller::at(visitor.peer)), self.bounds.reply_time)
    }

    /// Lets go of what is held for too long.
    pub(crate) fn let_go(&self) {
        self.held.let_go(self.gate.now());
        self.named.let_go(&self.gate);
    }

    /// Whether traffic should be sent here.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Notes what came of a reload.
    pub(crate) fn reloaded(&self, reloaded: &Reloaded) {
        let is_done = matches!(reloaded, Reloaded::Done { .. });
        self.metrics.reloaded(is_done);
        if is_done {
            self.warn_of_responses();
        }
    }

    /// Logs which rules of the policy need the response: no door receives it.
    pub(crate) fn warn_of_responses(&self) {
        let rules = self.gate.rules();
        let all = rules.needs_response();
        if all.is_empty() {
            return;
        }
        let names = all[..all.len().min(limits::NAMES_IN_WARNING_MAX)].join(", ");
        let more = match all.len() - all.len().min(limits::NAMES_IN_WARNING_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        tracing::warn!(
            "warning[needs-response]: {names}{more}: the response settles this, and no door is \
             told it; `counts_when` counts every request, and a cost stays its `default` \
             (`tidegate explain needs-response`)"
        );
    }

    /// Puts the policy's file in force as it is now; nothing, if it is not in a file. Reading a
    /// pipe again would mean waiting for its writer.
    pub(crate) fn reload(&self) -> Option<Reloaded> {
        let policy = self.policy.as_deref().filter(|it| !it.exists() || Watch::can_be_of(it))?;
        let reloaded = self.gate.reload(policy);
        self.reloaded(&reloaded);
        Some(reloaded)
    }
}
