//! Admissions that are held for callers: permits until they are released, receipts for a refund.
//!
//! What a caller forgets is let go when its lease is over; how much is held at a time is bounded,
//! for each caller and for all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Tick;
use tidegate_gate::Admission;

use super::Id;
use super::ration::{NoRoom, Ration};
use crate::caller::Caller;
use crate::limits;

/// What is held for callers.
#[derive(Debug)]
pub(crate) struct Held(Mutex<Shelf>);

/// What something is held for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HeldFor {
    Permit,
    Refund,
}

#[derive(Debug)]
struct Shelf {
    ration: Ration,
    admissions: HashMap<Id, Entry>,
    by_end: BTreeSet<(Tick, Id)>,
}

impl Shelf {
    fn put(&mut self, id: Id, entry: Entry) {
        self.by_end.insert((entry.until, id));
        self.ration.take(entry.caller);
        self.admissions.insert(id, entry);
    }
}

/// Something that is held.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) admission: Admission,
    pub(crate) held_for: HeldFor,
    pub(crate) caller: Caller,
    pub(crate) until: Tick,
}

impl Held {
    /// Keeps an admission under a name until then; hands it back if there is no room for it.
    pub(crate) fn keep(&self, id: Id, entry: Entry) -> Result<(), (NoRoom, Box<Admission>)> {
        let mut kept = self.lock();
        match kept.ration.room(entry.caller) {
            Ok(()) => kept.put(id, entry),
            Err(why) => return Err((why, Box::new(entry.admission))),
        }
        Ok(())
    }

    /// Keeps what was taken out a moment ago: there was room for it, so there is.
    pub(crate) fn keep_on(&self, id: Id, entry: Entry) {
        self.lock().put(id, entry);
    }

    /// Hands out what is held under a name; nothing if it is not, or not for this, or not any more.
    pub(crate) fn take(&self, id: Id, held_for: HeldFor, now: Tick) -> Option<Entry> {
        self.let_go(now);
        let mut kept = self.lock();
        if kept.admissions.get(&id)?.held_for != held_for {
            return None;
        }
        let entry = kept.admissions.remove(&id)?;
        kept.by_end.remove(&(entry.until, id));
        kept.ration.give_back(entry.caller);
        Some(entry)
    }

    /// Lets go of everything whose time is over.
    pub(crate) fn let_go(&self, now: Tick) {
        let mut over = Vec::new();
        let mut kept = self.lock();
        while let Some(&(until, id)) = kept.by_end.first()
            && until <= now
        {
            kept.by_end.pop_first();
            let entry = kept.admissions.remove(&id);
            if let Some(entry) = entry {
                kept.ration.give_back(entry.caller);
                over.push(entry);
            }
        }
        drop(kept);
        // Dropped without the lock: permits are given back then.
        drop(over);
    }

    /// The callers that the most is held for, and how much is held for all others.
    pub(crate) fn most(&self, count: usize) -> (Vec<(Caller, usize)>, usize) {
        self.lock().ration.most(count)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Held {
    fn default() -> Held {
        let ration = Ration::new(limits::HELD_EACH_MAX, limits::HELD_MAX);
        let (admissions, by_end) = (HashMap::new(), BTreeSet::new());
        Held(Mutex::new(Shelf { ration, admissions, by_end }))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_gate::{Gate, Sample};

    use super::*;

    fn tick(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn gate() -> Gate {
        let policy =
            "rules: [{ name: slots, algorithm: concurrency, limit: 1 in flight, lease: 1h }]";
        Gate::from_text(policy).expect("a good policy")
    }

    fn admitted(gate: &Gate) -> Admission {
        gate.decide(&Sample::new("GET /"))
    }

    fn entry(admission: Admission, caller: u32) -> Entry {
        let caller = Caller::Token(caller);
        Entry { admission, held_for: HeldFor::Permit, caller, until: tick(60) }
    }

    fn kept_by(held: &Held, admission: Admission) -> Id {
        let id = Id::random();
        held.keep(id, entry(admission, 1)).expect("there is room");
        id
    }

    #[test]
    fn what_is_held_can_be_taken_once() {
        let (gate, held) = (gate(), Held::default());
        let id = kept_by(&held, admitted(&gate));
        assert!(!admitted(&gate).verdict().passes(), "the permit is held");
        assert!(held.take(id, HeldFor::Refund, tick(1)).is_none(), "it is not for that");
        assert!(held.take(id, HeldFor::Permit, tick(1)).is_some());
        assert!(held.take(id, HeldFor::Permit, tick(1)).is_none());
        assert!(admitted(&gate).verdict().passes(), "it was given back when it was dropped");
    }

    #[test]
    fn what_is_forgotten_is_let_go() {
        let (gate, held) = (gate(), Held::default());
        let id = kept_by(&held, admitted(&gate));
        held.let_go(tick(59));
        assert!(!admitted(&gate).verdict().passes(), "it is held until its time is over");
        assert!(held.take(id, HeldFor::Permit, tick(60)).is_none());
        assert!(admitted(&gate).verdict().passes());
    }

    #[test]
    fn there_is_room_for_so_many_of_each() {
        let gate =
            Gate::from_text("rules: [{ name: all, limit: 4000000000/s }]").expect("a good policy");
        let held = Held::default();
        let mut ids = Vec::new();
        for _ in 0..limits::HELD_EACH_MAX {
            ids.push(kept_by(&held, admitted(&gate)));
        }
        let refused = held.keep(Id::random(), entry(admitted(&gate), 1));
        let (why, handed_back) = refused.expect_err("it has as much as one may");
        assert!(handed_back.verdict().passes() && why == NoRoom::Yours);
        held.keep(Id::random(), entry(admitted(&gate), 2)).expect("another has nothing yet");
        let renewed = held.take(ids[0], HeldFor::Permit, tick(1)).expect("it is held");
        kept_by(&held, admitted(&gate));
        held.keep_on(ids[0], renewed);
        assert!(held.take(ids[0], HeldFor::Permit, tick(1)).is_some(), "it keeps its place");
        held.let_go(tick(60));
        kept_by(&held, admitted(&gate));
        assert_eq!(held.most(1), (vec![(Caller::Token(1), 1)], 0));
    }
}
