//! Refusals that are remembered: what only time can change need not be asked again.
//!
//! After a refusal the state that caused it is kept here, and the core is asked instead of Redis,
//! as long as nothing is left. That is exact, because then nobody can charge anything meanwhile but
//! what has happened already (a debit: then it is as good as asked before that);
//! where something is left, under whatever limit of the request, it is another number as soon as
//! anybody takes of it. Only a refund, a reset or a raise elsewhere makes it better: so nothing is
//! kept for longer than [`BOUND`], and what this process gives back itself is forgotten here at
//! once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};
use tidegate_core::{Span, Tick, Verdict};

use crate::call::{Limit, Request};
use crate::found::{Answers, Found, Told};
use crate::plan::charges_refusals;
use crate::rule::FleetRule;
use crate::store::FleetCharge;

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
    /// How many of them were refused by several limits, at most.
    joint: AtomicUsize,
    /// How often something was given back.
    epoch: AtomicU64,
    /// The epoch in which that was last to a key, by a part of its hash. A refusal that was asked
    /// for before, and is heard of after that, is not remembered.
    given_back: Box<[AtomicU64]>,
}

/// Keys that share a place only forget more than they need to.
const GIVEN_BACK: usize = 4_096;

type Shard = HashMap<u64, Refused, RandomState>;

/// A request that was refused, and by what.
#[derive(Debug)]
struct Refused {
    request: Request,
    told: SmallVec<[Told; 1]>,
    when: When,
}

/// The tick at which a server judged, and the ticks here between which that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) judged: Tick,
    pub(crate) sent: Tick,
    pub(crate) received: Tick,
    /// How often something had been given back here when it was sent; see [`Refusals::epoch`].
    pub(crate) epoch: u64,
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

    /// The server's clock at our `now`: no earlier than this.
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
            joint: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
            given_back: std::iter::repeat_with(AtomicU64::default).take(GIVEN_BACK).collect(),
        }
    }

    /// The answer to a request, if it is one that is remembered.
    pub(crate) fn answer(
        &self,
        charges: &[FleetCharge<'_>],
        now: impl FnOnce() -> Tick,
    ) -> Option<(Verdict, Answers)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let hash = self.hash(charges.iter().map(|charge| charge.key.bytes()));
        let shard = self.shard(hash);
        let refused = shard.get(&hash)?;
        let now = now();
        if BOUND <= now.since(refused.when.sent) || !refused.knows(charges) {
            return None;
        }
        refused.answer(charges, now)
    }

    /// Remembers that `request` was refused with these answers, by what was found.
    pub(crate) fn remember(
        &self,
        request: &Request,
        (found, answers): (&[Found<'_>], &Answers),
        when: When,
    ) {
        // A log does not say what it will be like later, but for a single cell: still full.
        let is_vague = |found: &Found<'_>| found.cost != 1 && matches!(found.told, Told::Log(_));
        if !leaves_nothing(answers) || !remembers(request) || found.iter().any(is_vague) {
            return;
        }
        let is_over = |limit: &Limit| when.epoch < self.given_back(limit).load(Ordering::Relaxed);
        if request.limits.iter().any(is_over) {
            return;
        }
        let hash = self.hash(request.limits.iter().map(|limit| limit.place.key()));
        let mut shard = self.shard(hash);
        if SHARD_MAX <= shard.len() && !shard.contains_key(&hash) {
            self.make_room(&mut shard, when.received);
        }
        let told: SmallVec<_> = found.iter().map(|found| found.told.clone()).collect();
        let refused = Refused { request: request.clone(), told, when };
        if 1 < refused.told.len() {
            self.joint.fetch_add(1, Ordering::Relaxed);
        }
        if shard.insert(hash, refused).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets what was refused by any limit of `request`: something was given back.
    pub(crate) fn forget(&self, request: &Request, now: Tick) {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        for limit in &request.limits {
            self.given_back(limit).fetch_max(epoch, Ordering::Relaxed);
        }
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        if 0 < self.joint.load(Ordering::Relaxed) {
            return self.forget_everywhere(request, now);
        }
        let hash = self.hash(request.limits.iter().map(|limit| limit.place.key()));
        if self.shard(hash).remove(&hash).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// As `forget`, where some were refused by several limits: they are not found by one key.
    fn forget_everywhere(&self, request: &Request, now: Tick) {
        self.joint.store(0, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let before = shard.len();
            shard.retain(|_, refused| {
                now.since(refused.when.sent) < BOUND && !refused.request.shares_a_place(request)
            });
            let joint = shard.values().filter(|refused| 1 < refused.told.len()).count();
            self.joint.fetch_add(joint, Ordering::Relaxed);
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

    /// How often something was given back: to be noted before a call is sent.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    fn given_back(&self, limit: &Limit) -> &AtomicU64 {
        let hash = self.hash(std::iter::once(limit.place.key()));
        &self.given_back[usize::try_from(hash % GIVEN_BACK as u64).unwrap_or(0)]
    }

    /// Hashes what a request is about: tenants, and keys with their marks.
    fn hash<'a>(&self, keys: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for (tag, text) in keys {
            hasher.write(tag);
            hasher.write(text);
        }
        hasher.finish()
    }

    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, Shard> {
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refused {
    /// Whether these are the same limits, at costs that this can tell of.
    fn knows(&self, charges: &[FleetCharge<'_>]) -> bool {
        let limits = self.request.limits.iter().zip(&self.told).zip(charges);
        let knows = |((limit, told), asked): ((&Limit, &Told), &FleetCharge<'_>)| {
            let cost = limit.cost == asked.cost || !matches!(told, Told::Log(_));
            cost && limit.rule.is(asked.rule) && limit.place.is_of(asked.key)
        };
        self.request.limits.len() == charges.len() && { limits }.all(knows)
    }

    /// What the core says at our `now`, as long as that is a refusal.
    fn answer(&self, charges: &[FleetCharge<'_>], now: Tick) -> Option<(Verdict, Answers)> {
        // One line is the usual case, and needs no list.
        if let ([charge], [Told::Word(word)]) = (charges, &self.told[..]) {
            let policy = charge.rule.policy();
            let decide = |at| policy.decide_word(&mut { *word }, at, charge.cost);
            let latest = decide(self.when.latest(now));
            if latest.verdict.passes() || 0 < latest.remaining {
                return None;
            }
            let mut told = Told::Word(*word);
            let one = told.peek(policy, self.when.earliest(now), charge.cost);
            return Some((one.decision.verdict, smallvec![one]));
        }
        // What has left a log since is not known here.
        let latest = self.when.latest(now);
        if self.told.iter().any(|told| told.has_changed_by(latest)) {
            return None;
        }
        // Refused even at the latest that it can be there, and nothing left: then it is so for
        // certain.
        let (verdict, answers) = self.peek(charges, latest);
        match verdict {
            Verdict::Never => {}
            Verdict::Deny { retry_after } if Span::ZERO < retry_after => {}
            _ => return None,
        }
        if !leaves_nothing(&answers) {
            return None;
        }
        // The answer is by the earliest: no promise is too early.
        Some(self.peek(charges, self.when.earliest(now)))
    }

    fn peek(&self, charges: &[FleetCharge<'_>], at: Tick) -> (Verdict, Answers) {
        let mut together = Verdict::Allow;
        let mut answers = Answers::with_capacity(charges.len());
        for (charge, told) in charges.iter().zip(&self.told) {
            let one = told.clone().peek(charge.rule.policy(), at, charge.cost);
            together = together.and(one.decision.verdict);
            answers.push(one);
        }
        (together, answers)
    }
}

/// Whether nothing is left under any limit.
fn leaves_nothing(answers: &Answers) -> bool {
    answers.iter().all(|one| one.decision.remaining == 0)
}

/// A refusal that is charged for is asked for each time.
fn remembers(request: &Request) -> bool {
    let remembers =
        |rule: &FleetRule| rule.remembers_refusals() && !charges_refusals(rule.policy());
    request.limits.iter().all(|limit| remembers(&limit.rule))
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Policy, Quota};

    use super::*;
    use crate::plan::Does;
    use tidegate_store::TextKey as FleetKey;

    fn request(client: &str) -> Request {
        let policy = Policy::token_bucket(Quota::per_hour(10)).unwrap();
        let rule = FleetRule::new("client", policy);
        let place = rule.place("t:", &FleetKey::new(client).unwrap());
        let limits = smallvec![Limit { rule, place, cost: 1, formers: 0 }];
        Request { does: Does::Decide, slot: 0, limits }
    }

    /// A refusal that was asked for in this epoch is heard of.
    fn hear(refusals: &Refusals, request: &Request, epoch: u64) -> usize {
        let sent = Tick::from_micros(0);
        let policy = Policy::token_bucket(Quota::per_hour(10)).unwrap();
        let found = [Found { policy: &policy, cost: 1, told: Told::Word(1) }];
        let answers = Answers::new();
        refusals.remember(
            request,
            (&found, &answers),
            When { judged: sent, sent, received: sent, epoch },
        );
        refusals.count.load(Ordering::Relaxed)
    }

    #[test]
    fn what_was_asked_before_something_was_given_back_is_not_remembered_after_it() {
        let (refusals, ada) = (Refusals::new(), request("ada"));
        let before = refusals.epoch();
        assert_eq!(hear(&refusals, &ada, before), 1);
        refusals.forget(&ada, Tick::from_micros(0));
        assert_eq!(refusals.count.load(Ordering::Relaxed), 0);
        assert_eq!(hear(&refusals, &ada, before), 0);
        assert_eq!(hear(&refusals, &request("bob"), before), 1);
        assert_eq!(hear(&refusals, &ada, refusals.epoch()), 2);
    }
}
