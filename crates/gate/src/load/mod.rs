//! How much of its limits a gate gives out: less under load, all of it again afterwards.
//!
//! A service that knows better says how loaded it is ([`Gate::load`]); an application that lets its
//! requests in here ([`Gate::let_in`]) is judged by what comes of them. A controller makes a factor
//! of it, and rules marked `adaptive` are scaled by that as if the policy had been reloaded.
//!
//! No task runs for it. Requests, words and the watch of a policy let it go on.

mod flight;
mod pressure;
mod sources;
mod state;
mod steps;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::adapt::{Fraction, Reading, Settings, SettingsError};
use tidegate_core::{Span, Tick};
use tidegate_store::StoreFailure;

pub use self::flight::InFlight;
pub use self::pressure::Pressure;
use self::state::{Around, State, Step};
use crate::gate::Gate;

/// What a service says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Who says it. A later word from the same source replaces this one.
    pub source: &'a str,
    /// How loaded it is: the whole is as much as it wants, more is too much.
    pub load: Fraction,
    /// For how long this counts unless it is said again; see [`Load::TTL_MAX`].
    pub ttl: Span,
}

impl Load<'_> {
    /// The longest that a word counts. Who is not heard of for so long may be gone.
    pub const TTL_MAX: Span = Span::from_secs(10);

    /// How many sources are kept. Who comes after that takes the place of the one that was heard
    /// of the longest ago.
    pub const SOURCES_MAX: usize = 1_024;

    /// The longest name of a source, in bytes.
    pub const SOURCE_BYTES_MAX: usize = 256;
}

/// Why a word about load was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LoadRefused {
    /// The source has no name.
    NoSource,
    /// Its name is longer than [`Load::SOURCE_BYTES_MAX`].
    SourceTooLong,
    /// It counts for no time, or for longer than [`Load::TTL_MAX`].
    Ttl,
}

/// How much is given out now, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LoadReading {
    /// What is left of rules marked `adaptive`, in sixteenths: in force now.
    pub factor: Fraction,
    /// The smallest that a fleet's nodes told each other lately; the whole without one.
    pub fleet: Fraction,
    /// The highest load that counts, if a service has said one.
    pub load: Option<Fraction>,
    /// How many sources it was said by.
    pub sources: usize,
    /// What this node's controller has come to.
    pub controller: Reading,
}

/// What a gate knows about load.
#[derive(Debug)]
pub(crate) struct Adapt {
    /// The tick from which on there is something to do. Never, for most gates: then this is all
    /// that a request pays for it.
    due: AtomicU64,
    /// The factor in force, in millionths.
    factor: AtomicU32,
    /// Tells the nodes apart that share the store.
    node: u64,
    state: Mutex<State>,
}

impl Adapt {
    pub(crate) fn new(settings: Settings, now: Tick) -> Result<Adapt, SettingsError> {
        let factor = AtomicU32::new(Fraction::WHOLE.get());
        let state = Mutex::new(State::new(settings, now)?);
        Ok(Adapt {
            due: AtomicU64::new(u64::MAX),
            factor,
            // A number that no other node has.
            node: RandomState::new().hash_one("node"),
            state,
        })
    }

    /// What is left of rules marked `adaptive`.
    pub(crate) fn factor(&self) -> Fraction {
        Fraction::from_millionths(self.factor.load(Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has somebody look no later than at `at`.
    pub(crate) fn look_at(&self, at: Tick) {
        self.due.fetch_min(at.get(), Ordering::Relaxed);
    }
}

impl Gate {
    /// Hears from a service how loaded it is, and says what is given out now.
    ///
    /// Each word moves the factor once, by what it says: a service at 125% is let 80% of what it
    /// was let before. Say it again every few seconds, measured since; a source that is silent for
    /// its `ttl` is forgotten, and without any the factor comes back within seconds.
    pub fn load(&self, load: &Load<'_>) -> Result<LoadReading, LoadRefused> {
        let now = self.0.clock.now();
        self.0.adapt.state().hear(load, now)?;
        self.0.adapt.look_at(now);
        self.advance();
        Ok(self.load_reading())
    }

    /// How much is given out now, and why.
    pub fn load_reading(&self) -> LoadReading {
        self.advance();
        self.0.adapt.state().reading(self.0.adapt.factor(), self.0.clock.now())
    }

    /// Lets time pass for the factor. Requests do that as well; call it where there are none.
    pub fn advance(&self) {
        if self.0.adapt.due.load(Ordering::Relaxed) != u64::MAX {
            self.advance_to(self.0.clock.now());
        }
    }

    /// As [`Gate::advance`], at a tick that has been read already.
    #[inline]
    pub(crate) fn advance_to(&self, now: Tick) {
        if self.0.adapt.due.load(Ordering::Relaxed) <= now.get() {
            self.step(now);
        }
    }

    #[cold]
    fn step(&self, now: Tick) {
        let adapt = &self.0.adapt;
        // A second caller goes on: the first is seeing to it.
        let Ok(mut state) = adapt.state.try_lock() else { return };
        let in_force = self.0.in_force();
        let around = Around {
            tells: self.tells_factor(),
            queues: in_force.shares.factor().filter(|_| self.rules().are_adaptive()),
        };
        let Step { factor, due, tells, own, load } = state.step(adapt.factor(), now, around);
        adapt.due.store(due.map_or(u64::MAX, Tick::get), Ordering::Relaxed);
        if factor != adapt.factor() {
            self.set_factor(factor);
        }
        drop(state);
        if let Some(load) = load {
            in_force.shares.hear(|queue| queue.load(load));
        }
        if tells {
            self.tell_fleet(own);
        }
    }

    /// Puts the same rules in force with another factor.
    fn set_factor(&self, factor: Fraction) {
        let before = self.0.adapt.factor.swap(factor.get(), Ordering::Relaxed);
        let before = Fraction::from_millionths(before);
        tracing::info!(%factor, %before, "limits follow the load");
        if !self.rules().are_adaptive() {
            return;
        }
        if let Err(error) = self.scale() {
            tracing::error!(%error, "limits cannot follow the load");
        }
    }

    /// Whether others that share the store hear of the factor.
    fn tells_factor(&self) -> bool {
        self.0.store.is_shared() && self.rules().are_adaptive()
    }

    /// Tells the nodes that share the store what is given out here, and hears from them: beside the
    /// requests, which do not wait for it.
    ///
    /// They guard one service, so the smallest factor counts: a node that sees it overloaded has
    /// seen something, and nodes that have not are no evidence against it. Those that know nothing
    /// say nothing. A node that is gone is forgotten with its lease; a rule's floor bounds what one
    /// that is wrong can do.
    fn tell_fleet(&self, own: Option<Fraction>) {
        let gate = Arc::downgrade(&self.0);
        let heard = move |said: Result<Fraction, StoreFailure>| {
            let Some(gate) = gate.upgrade() else { return };
            match said {
                Ok(factor) => {
                    let now = gate.clock.now();
                    gate.adapt.state().fleet_said(factor, now.after(FACTOR_LEASE));
                    gate.adapt.look_at(now);
                }
                // What was heard last counts until its lease is over; then its own does.
                Err(error) => tracing::debug!(%error, "the fleet's factor is not known"),
            }
        };
        self.0.store.share_factor(self.0.adapt.node, own, FACTOR_LEASE, Box::new(heard));
    }
}

/// How long a node's factor counts unless the node shares it again: a few of the seconds in which
/// it does.
const FACTOR_LEASE: Span = Span::from_secs(5);

impl std::fmt::Display for LoadRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadRefused::NoSource => f.write_str("a source has no name: give it one of its own"),
            LoadRefused::SourceTooLong => {
                write!(f, "the source's name is longer than {} bytes", Load::SOURCE_BYTES_MAX)
            }
            LoadRefused::Ttl => {
                let most = Load::TTL_MAX;
                write!(f, "a load counts for a time above nothing and at most {most}: renew it")
            }
        }
    }
}

impl std::error::Error for LoadRefused {}
