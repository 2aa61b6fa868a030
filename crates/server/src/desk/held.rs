//! Admissions that are held for callers: permits until they are released, receipts for a refund.
//!
//! What a caller forgets is let go when its lease is over; how much is held at a time is bounded.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Tick;
use tidegate_gate::Admission;

use super::Id;
use crate::limits;

/// What is held for callers.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<Shelf>);

/// What something is held for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HeldFor {
    Permit,
    Refund,
}

#[derive(Debug, Default)]
struct Shelf {
    admissions: HashMap<Id, Entry>,
    by_end: BTreeSet<(Tick, Id)>,
}

impl Shelf {
    fn put(&mut self, id: Id, entry: Entry) {
        self.by_end.insert((entry.until, id));
        self.admissions.insert(id, entry);
    }
}

#[derive(Debug)]
struct Entry {
    admission: Admission,
    held_for: HeldFor,
    until: Tick,
}

impl Held {
    /// Keeps an admission under a name until then; hands it back if there is no room for it.
    pub(crate) fn keep(
        &self,
        id: Id,
        admission: Admission,
        held_for: HeldFor,
        until: Tick,
    ) -> Result<(), Box<Admission>> {
        let mut kept = self.lock();
        if limits::HELD_MAX <= kept.admissions.len() {
            return Err(Box::new(admission));
        }
        kept.put(id, Entry { admission, held_for, until });
        Ok(())
    }

    /// Keeps what was taken out a moment ago: there was room for it, so there is.
    pub(crate) fn keep_on(&self, id: Id, admission: Admission, held_for: HeldFor, until: Tick) {
        self.lock().put(id, Entry { admission, held_for, until });
    }

    /// Hands out what is held under a name; nothing if it is not, or not for this, or not any more.
    pub(crate) fn take(&self, id: Id, held_for: HeldFor, now: Tick) -> Option<Admission> {
        self.let_go(now);
        let mut kept = self.lock();
        if kept.admissions.get(&id)?.held_for != held_for {
            return None;
        }
        let entry = kept.admissions.remove(&id)?;
        kept.by_end.remove(&(entry.until, id));
        Some(entry.admission)
    }

    /// Lets go of everything whose time is over.
    pub(crate) fn let_go(&self, now: Tick) {
        let mut over = Vec::new();
        let mut kept = self.lock();
        while let Some(&(until, id)) = kept.by_end.first()
            && until <= now
        {
            kept.by_end.pop_first();
            over.extend(kept.admissions.remove(&id));
        }
        drop(kept);
        // Dropped without the lock: permits are given back then.
        drop(over);
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn kept_by(held: &Held, admission: Admission) -> Id {
        let id = Id::random();
        held.keep(id, admission, HeldFor::Permit, tick(60)).expect("there is room");
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
    fn there_is_room_for_so_many() {
        let gate =
            Gate::from_text("rules: [{ name: all, limit: 4000000000/s }]").expect("a good policy");
        let held = Held::default();
        for _ in 0..limits::HELD_MAX {
            kept_by(&held, admitted(&gate));
        }
        let handed_back = held.keep(Id::random(), admitted(&gate), HeldFor::Refund, tick(1));
        assert!(handed_back.expect_err("it is full").verdict().passes());
        let id = *held.lock().admissions.keys().next().expect("there are many");
        let renewed = held.take(id, HeldFor::Permit, tick(1)).expect("it is held");
        kept_by(&held, admitted(&gate));
        held.keep_on(id, renewed, HeldFor::Permit, tick(60));
        assert!(held.take(id, HeldFor::Permit, tick(1)).is_some(), "who was there keeps the place");
        held.let_go(tick(60));
        kept_by(&held, admitted(&gate));
    }
}
