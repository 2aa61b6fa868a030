//! The connections of a door: so many in all, and so many of each address.
//!
//! When there is no room for another, the one that has been idle for longest makes some. That is
//! not looked up by time: all stand in a row, one that was used since it stood in front goes to the
//! end again, and the first that was not has to leave.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Busy, Trusts};
use crate::caller::Caller;
use crate::limits;

/// The connections of a door.
pub(super) struct Seats {
    max: usize,
    each_max: usize,
    trusts: Trusts,
    row: Mutex<Row>,
}

/// Those that are there, in the order in which they are looked at.
#[derive(Default)]
struct Row {
    all: BTreeMap<u64, Arc<Place>>,
    each: HashMap<Caller, BTreeSet<u64>>,
    next: u64,
}

/// Where a connection stands.
struct Place {
    /// Changed only while the row is locked.
    number: AtomicU64,
    /// Nothing for a proxy, which is not counted.
    of: Option<Caller>,
    busy: Busy,
}

/// A connection that is counted until this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    place: Arc<Place>,
}

impl Seats {
    pub(super) fn new(max: usize, trusts: Trusts) -> Seats {
        let each_max = (max / limits::CONNECTIONS_EACH_PART).max(1);
        Seats { max, each_max, trusts, row: Mutex::default() }
    }

    /// Takes a seat for somebody, if there is one or an idle connection gives up its own.
    pub(super) fn take(self: &Arc<Seats>, peer: IpAddr) -> Option<Seat> {
        let of = self.counted(peer);
        let mut row = self.lock();
        let has_room = match () {
            () if self.is_full_of(&row, of) => row.make_room(of),
            () if self.max <= row.all.len() => row.make_room(None),
            () => true,
        };
        if !has_room {
            return None;
        }
        let place = Place { number: AtomicU64::new(0), of, busy: Busy::default() };
        let place = Arc::new(place);
        row.add(Arc::clone(&place));
        drop(row);
        Some(Seat { seats: Arc::clone(self), place })
    }

    /// Whether somebody finds a seat without anybody giving up another.
    pub(super) fn has_room(&self, peer: IpAddr) -> bool {
        let (of, row) = (self.counted(peer), self.lock());
        row.all.len() < self.max && !self.is_full_of(&row, of)
    }

    fn is_full_of(&self, row: &Row, of: Option<Caller>) -> bool {
        of.is_some() && self.each_max <= row.count(of)
    }

    /// The caller that a peer is counted as, unless it is a proxy.
    pub(super) fn counted(&self, peer: IpAddr) -> Option<Caller> {
        (!(self.trusts)(peer)).then(|| Caller::at(peer))
    }

    fn lock(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// Has an idle connection leave, of an address if one is said; whether there is one.
    fn make_room(&mut self, of: Option<Caller>) -> bool {
        let mut used = None;
        for _ in 0..self.count(of).min(limits::CONNECTIONS_LOOKED_AT_MAX) {
            let Some(place) = self.first(of) else { break };
            let was_used = place.busy.was_used();
            if !was_used && self.leaves(&place) {
                return true;
            }
            self.remove(&place);
            self.add(Arc::clone(&place));
            if was_used && place.busy.is_idle() {
                used.get_or_insert(place);
            }
        }
        used.is_some_and(|place| self.leaves(&place))
    }

    fn count(&self, of: Option<Caller>) -> usize {
        match of {
            Some(of) => self.each.get(&of).map_or(0, BTreeSet::len),
            None => self.all.len(),
        }
    }

    fn first(&self, of: Option<Caller>) -> Option<Arc<Place>> {
        let first = match of {
            Some(of) => self.each.get(&of)?.first()?,
            None => self.all.keys().next()?,
        };
        self.all.get(first).cloned()
    }

    /// Has a connection leave unless it is busy; whether it will.
    fn leaves(&mut self, place: &Place) -> bool {
        let leaves = place.busy.leave();
        if leaves {
            self.remove(place);
        }
        leaves
    }

    /// Puts a connection at the end.
    fn add(&mut self, place: Arc<Place>) {
        let number = self.next;
        self.next += 1;
        place.number.store(number, Ordering::Relaxed);
        if let Some(of) = place.of {
            self.each.entry(of).or_default().insert(number);
        }
        self.all.insert(number, place);
    }

    fn remove(&mut self, place: &Place) {
        let number = place.number.load(Ordering::Relaxed);
        // One that had to leave was removed then.
        if self.all.remove(&number).is_none() {
            return;
        }
        if let Some(of) = place.of
            && let Some(each) = self.each.get_mut(&of)
        {
            each.remove(&number);
            if each.is_empty() {
                self.each.remove(&of);
            }
        }
    }
}

impl Seat {
    /// What counts the requests of the connection.
    pub(super) fn busy(&self) -> &Busy {
        &self.place.busy
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().remove(&self.place);
    }
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("max", &self.max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is no proxy.
    const ANY: u8 = 1;
    const PROXY: u8 = 99;

    fn seats(max: usize) -> Arc<Seats> {
        Arc::new(Seats::new(max, Arc::new(|address| address == at(PROXY))))
    }

    fn at(host: u8) -> IpAddr {
        [192, 0, 2, host].into()
    }

    /// Which of them have to leave.
    fn leaving(all: &[Seat]) -> Vec<usize> {
        let leaves = |seat: &Seat| seat.busy().begin().is_none();
        (0..all.len()).filter(|number| leaves(&all[*number])).collect()
    }

    #[test]
    fn the_one_that_was_idle_for_longest_makes_room() {
        let seats = seats(3);
        let all: Vec<Seat> = (0..3).map(|_| seats.take(at(PROXY)).unwrap()).collect();
        drop(all[0].busy().begin());
        let next = seats.take(at(PROXY)).unwrap();
        assert_eq!(leaving(&all), [1]);
        // To look is to use, so nobody is idle but the new one.
        assert!(seats.take(at(PROXY)).is_some());
        assert!(next.busy().begin().is_none());
    }

    #[test]
    fn where_all_were_used_the_first_of_them_makes_room() {
        let seats = seats(3);
        let all: Vec<Seat> = (0..3).map(|_| seats.take(at(PROXY)).unwrap()).collect();
        assert_eq!(leaving(&all), [0_usize; 0]);
        assert!(seats.take(at(PROXY)).is_some());
        assert_eq!(leaving(&all), [0]);
    }

    #[test]
    fn nobody_is_taken_away_in_the_middle_of_a_request() {
        let seats = seats(3);
        let all: Vec<Seat> = (0..3).map(|_| seats.take(at(PROXY)).unwrap()).collect();
        let answering: Vec<_> = all.iter().map(|seat| seat.busy().begin().unwrap()).collect();
        assert!(seats.take(at(PROXY)).is_none());
        drop(answering);
        assert!(seats.take(at(PROXY)).is_some());
    }

    #[test]
    fn an_address_makes_room_for_itself() {
        let seats = seats(6);
        let other = seats.take(at(ANY + 1)).unwrap();
        let all: Vec<Seat> = (0..3).map(|_| seats.take(at(ANY)).unwrap()).collect();
        let fourth = seats.take(at(ANY)).unwrap();
        assert_eq!(leaving(&all), [0]);
        assert!(other.busy().begin().is_some());
        let answering: Vec<_> =
            all.iter().chain([&fourth]).map(|seat| seat.busy().begin()).collect();
        assert!(seats.take(at(ANY)).is_none(), "half of all is the most for one address");
        assert!(seats.take(at(ANY + 1)).is_some());
        drop(answering);
    }

    #[test]
    fn nothing_is_kept_of_those_that_have_gone() {
        let seats = seats(4);
        for _ in 0..10 {
            let all: Vec<Seat> = (0..5).filter_map(|_| seats.take(at(ANY))).collect();
            assert_eq!(seats.lock().all.len(), 2);
            drop(all);
            let row = seats.lock();
            assert!(row.all.is_empty() && row.each.is_empty());
        }
    }
}
