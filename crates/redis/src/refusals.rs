//! Refusals that are remembered: what only time can change need not be asked again.
//!
//! After a refusal the state that caused it is kept here, and the core is asked instead of Redis,
//! as long as it refuses. That is exact, because whatever else is charged meanwhile only makes it
//! worse. Only a refund, a reset or a raise elsewhere makes it better: so nothing is kept for longer
//! than [`BOUND`], and what this process gives back itself is forgotten here at once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use tidegate_core::{Span, Tick, Verdict};

use crate::call::{Limit, Request};
use crate::told::{self, Answers, Found, Told};

/// How long after a refund, a reset or a raise elsewhere a key may still be refused here.
pub(crate) const BOUND: Span = Span::from_millis(250);

const SHARDS: usize = 16;
/// The most refusals that are remembered in a shard.
const SHARD_MAX: usize = 4_096;

/// What was refused lately.
#[derive(Debug)]
pub(crate) struct Refusals {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// How many are remembered, about: with none, nothing is locked.
    count: AtomicUsize,
}

type Shard = HashMap<u64, Refused, RandomState>;

/// A request that was refused, and by what.
#[derive(Debug)]
struct Refused {
    request: Request,
    told: Vec<Told>,
    when: When,
}

/// The tick at which a server judged, and the ticks here between which that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) judged: Tick,
    pub(crate) sent: Tick,
    pub(crate) received: Tick,
}

impl When {
    /// Whether the server judged by a clock of ours: then there is no doubt about the time.
    fn is_one_clock(self) -> bool {
        self.judged == self.sent && self.judged == self.received
    }

    /// The server's clock at our `now`: no later than this.
    fn latest(self, now: Tick) -> Tick {
        if self.is_one_clock() {
            return now;
        }
        // Clocks are not equally fast: a thousandth more is more than they ever differ by.
        let elapsed = now.since(self.sent).get();
        self.judged.after(Span::from_micros(elapsed + elapsed / 1_000 + 1))
    }

    /// The same: no earlier than this.
    fn earliest(self, now: Tick) -> Tick {
        if self.is_one_clock() {
            return now;
        }
        let elapsed = now.since(self.received).get();
        self.judged.after(Span::from_micros(elapsed - elapsed / 1_000))
    }
}

impl Refusals {
    pub(crate) fn new() -> Refusals {
        Refusals {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// The answer to `request` at our `now`, if it is one that is remembered.
    pub(crate) fn answer(&self, request: &Request, now: Tick) -> Option<(Verdict, Answers)> {
        if self.count.load(Ordering::Relaxed) == 0 || !remembers(request) {
            return None;
        }
        let hash = self.hash(request);
        let shard = self.shard(hash);
        let refused = shard.get(&hash)?;
        if BOUND <= now.since(refused.when.sent) || !refused.knows(request) {
            return None;
        }
        // Refused even at the latest that it can be there: then it is refused for certain.
        let when = refused.when;
        match told::peek(&mut refused.found(request), when.latest(now)).0 {
            Verdict::Never => {}
            Verdict::Deny { retry_after } if Span::ZERO < retry_after => {}
            _ => return None,
        }
        // What it is told is by the earliest: no promise is too early.
        Some(told::peek(&mut refused.found(request), when.earliest(now)))
    }

    /// Remembers that `request` was refused by what was found.
    pub(crate) fn remember(&self, request: &Request, found: &[Found<'_>], when: When) {
        if !remembers(request) {
            return;
        }
        let hash = self.hash(request);
        let mut shard = self.shard(hash);
        if SHARD_MAX <= shard.len() && !shard.contains_key(&hash) {
            self.make_room(&mut shard, when.received);
        }
        let told = found.iter().map(|found| found.told.clone()).collect();
        let refused = Refused { request: request.clone(), told, when };
        if shard.insert(hash, refused).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets what was refused by any limit of `request`: something was given back.
    pub(crate) fn forget(&self, request: &Request) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let before = shard.len();
            shard.retain(|_, refused| !refused.request.shares_a_place(request));
            self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
    }

    /// Drops what is too old to be used; all of it, if that is not enough.
    fn make_room(&self, shard: &mut Shard, now: Tick) {
        let before = shard.len();
        shard.retain(|_, refused| now.since(refused.when.sent) < BOUND);
        if SHARD_MAX <= shard.len() {
            shard.clear();
        }
        self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
    }

    fn hash(&self, request: &Request) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        request.limits.iter().for_each(|limit| limit.place.name.hash(&mut hasher));
        hasher.finish()
    }

    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, Shard> {
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refused {
    /// Whether `request` is judged by the same limits, at costs that this can tell of.
    fn knows(&self, request: &Request) -> bool {
        let limits = self.request.limits.iter().zip(&self.told).zip(&request.limits);
        let knows = |((limit, told), asked): ((&Limit, &Told), &Limit)| {
            let cost = limit.cost == asked.cost || matches!(told, Told::State(_));
            cost && limit.place == asked.place && limit.rule.is(&asked.rule)
        };
        self.request.limits.len() == request.limits.len() && { limits }.all(knows)
    }

    fn found<'a>(&self, request: &'a Request) -> Vec<Found<'a>> {
        let limits = request.limits.iter().zip(&self.told);
        let found = limits.map(|(limit, told)| Found {
            policy: limit.rule.policy(),
            cost: limit.cost,
            told: told.clone(),
        });
        found.collect()
    }
}

fn remembers(request: &Request) -> bool {
    request.limits.iter().all(|limit| limit.rule.remembers_refusals())
}
