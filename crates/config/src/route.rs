//! Which rules are for a route: remembered by each thread, for routes that come again and again.
//!
//! Only of policies whose rules are chosen by method and path, and only where all that are chosen
//! are steady: what is remembered is what would be found. A route that comes once is not remembered
//! unless it is looked at twice, and costs a hash.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use foldhash::fast::FixedState;

use crate::attribute::Attribute;
use crate::index::RuleNumber;
use crate::matcher::{Condition, Matcher};
use crate::rule::Rule;

/// Rules that are for a route, in order.
pub(crate) type Chosen = ArrayVec<RuleNumber, 8>;

/// Tells policies apart whose rules are chosen by route, those of earlier ones included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ByRoute(u64);

/// What is known of a request's route.
#[derive(Debug)]
pub(crate) enum Route {
    /// Nothing, and nothing is to be remembered of it.
    Any,
    /// Its rules. Its path is plain.
    Known(Chosen),
    /// Nothing yet.
    New { of: ByRoute, hash: u64 },
}

/// A route that a thread remembers.
#[derive(Default)]
struct Slot {
    of: Option<ByRoute>,
    hash: u64,
    /// That of the route that came last and was not this one.
    other: u64,
    method: Box<str>,
    path: Box<str>,
    chosen: Chosen,
}

thread_local! {
    static SLOTS: RefCell<Box<[Slot]>> = RefCell::default();
}

/// How many routes a thread remembers at most, each with so many bytes.
pub(crate) const SLOTS_MAX: usize = 64;
const BYTES_MAX: usize = 256;

impl ByRoute {
    /// For these rules, if they are chosen by method and path alone, and there is something to
    /// remember.
    pub(crate) fn of(rules: &[Rule]) -> Option<ByRoute> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let is_of_use = rules.iter().any(|rule| rule.steady.is_some());
        let is_by_route = is_of_use && rules.iter().all(|rule| is_by_route(&rule.matcher));
        is_by_route.then(|| ByRoute(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// What this thread knows of a route.
    pub(crate) fn find(self, method: &str, path: &str) -> Route {
        if BYTES_MAX < method.len() + path.len() {
            return Route::Any;
        }
        let hash = FixedState::default().hash_one((self.0, method, path));
        let known = SLOTS.try_with(|slots| {
            let slots = slots.borrow();
            let slot = slots.get(place(hash))?;
            let is_it = slot.hash == hash && slot.is(self, method, path);
            is_it.then(|| Route::Known(slot.chosen.clone()))
        });
        // A thread that is about to end knows nothing any more.
        known.ok().flatten().unwrap_or(Route::New { of: self, hash })
    }

    /// Remembers the rules of a route that was new, if it was the last that was: one that comes
    /// once should not take the place of one that comes often.
    #[cold]
    pub(crate) fn learn(self, hash: u64, (method, path): (&str, &str), chosen: &Chosen) {
        let _ = SLOTS.try_with(|slots| {
            let slots = &mut *slots.borrow_mut();
            if slots.is_empty() {
                *slots = std::iter::repeat_with(Slot::default).take(SLOTS_MAX).collect();
            }
            let slot = &mut slots[place(hash)];
            if slot.is(self, method, path) {
                return;
            }
            if slot.other != hash {
                slot.other = hash;
                return;
            }
            let (method, path) = (method.into(), path.into());
            *slot = Slot { of: Some(self), hash, other: 0, method, path, chosen: chosen.clone() };
        });
    }
}

impl Slot {
    fn is(&self, of: ByRoute, method: &str, path: &str) -> bool {
        self.of == Some(of) && *self.method == *method && *self.path == *path
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash % SLOTS_MAX as u64).unwrap_or(0)
}

fn is_by_route(matcher: &Matcher) -> bool {
    let conditions = || matcher.any.iter().flat_map(|all| &all.conditions);
    conditions().all(|condition| match condition {
        Condition::Not(inner) => is_by_route(inner),
        Condition::Path(_) => true,
        Condition::Value { attribute, .. } => {
            matches!(attribute, Attribute::Method | Attribute::Path | Attribute::Segment(_))
        }
        Condition::Network(_) | Condition::Tier(_) => false,
    })
}
