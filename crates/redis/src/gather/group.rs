//! Requests that are alike and wait together: one request, and a seat for everybody who asked it.
//!
//! One more of them costs a seat in a list and nothing else: no request of its own, no channel. A
//! party is answered in portions, as many seats as a call took along; a portion that nobody ever
//! answers says so itself when it is dropped.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::{SmallVec, smallvec};
use tidegate_core::Tick;

use super::{Answer, no_answer};
use crate::call::{Request, Run};
use crate::failure::StoreError;

/// The most seats of a party: then the next one begins, behind all who wait. As many as a call
/// takes along, so that who joins overtakes nobody for longer than that.
const SEATS_MAX: usize = 128;

/// As many seats are made ready when there is more than one guest.
const SEATS_SOON: usize = 31;

/// Requests that are alike, and who waits for them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) request: Request,
    /// How many of them one count may stand for.
    most: u32,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    seats: SmallVec<[Seat; 1]>,
    /// How many of them calls have taken along.
    taken: usize,
}

#[derive(Debug)]
enum Seat {
    Waiting {
        deadline: Tick,
        waker: Option<Waker>,
    },
    /// The caller that waited has gone away: what it is charged is given back.
    Left {
        deadline: Tick,
    },
    Answered(Answer),
    Empty,
}

/// Seats of a party that one call takes along.
#[derive(Debug)]
pub(super) struct Portion {
    party: Arc<Group>,
    from: usize,
    to: usize,
    /// How many of the seats somebody waits at.
    count: u32,
    /// The earliest of their deadlines.
    deadline: Tick,
    is_told: AtomicBool,
}

/// A place at a party: the answer, once it is there.
#[derive(Debug)]
pub(super) struct Waiter {
    party: Arc<Group>,
    seat: usize,
}

/// Who is to be woken, and answers that nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    wakers: Vec<Waker>,
    pub(super) unheard: Vec<(Arc<Group>, Answer)>,
}

impl Group {
    /// A party of one.
    pub(super) fn new(request: Request, deadline: Tick) -> (Arc<Group>, Waiter) {
        let most = request.most_alike();
        let seats = smallvec![Seat::Waiting { deadline, waker: None }];
        let party = Group { request, most, table: Mutex::new(Table { seats, taken: 0 }) };
        let party = Arc::new(party);
        (Arc::clone(&party), Waiter { party, seat: 0 })
    }

    /// One more who asks the same. Nothing if there is no seat left.
    pub(super) fn join(self: &Arc<Self>, deadline: Tick) -> Option<Waiter> {
        let mut table = self.lock();
        let seat = table.seats.len();
        if SEATS_MAX <= seat {
            return None;
        }
        // Where two ask the same, many do: room for all of them is made once.
        if seat == 1 {
            table.seats.reserve(SEATS_SOON);
        }
        table.seats.push(Seat::Waiting { deadline, waker: None });
        drop(table);
        Some(Waiter { party: Arc::clone(self), seat })
    }

    /// The next seats, at most so many, and whether they are the last. Who has waited for too long
    /// is refused. A question that nobody waits for is not asked; what is to be done is done.
    pub(super) fn take(
        self: &Arc<Self>,
        most: usize,
        now: Tick,
        outbox: &mut Outbox,
    ) -> (Portion, bool) {
        let mut table = self.lock();
        let from = table.taken;
        let most = most.min(usize::try_from(self.most).unwrap_or(usize::MAX));
        let to = table.seats.len().min(from + most);
        table.taken = to;
        let (mut count, mut earliest) = (0, Tick::MAX);
        let is_question = self.request.does.judges();
        for seat in &mut table.seats[from..to] {
            match seat {
                Seat::Left { .. } if is_question => *seat = Seat::Empty,
                Seat::Waiting { deadline, .. } | Seat::Left { deadline } if now < *deadline => {
                    count += 1;
                    earliest = earliest.min(*deadline);
                }
                _ => seat.answer(Err(late()), self, outbox),
            }
        }
        let is_last = to == table.seats.len();
        drop(table);
        let party = Arc::clone(self);
        let is_told = AtomicBool::new(false);
        (Portion { party, from, to, count, deadline: earliest, is_told }, is_last)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn answer(&mut self, answer: Answer, party: &Arc<Group>, outbox: &mut Outbox) {
        match std::mem::replace(self, Seat::Empty) {
            Seat::Waiting { waker, .. } => {
                *self = Seat::Answered(answer);
                outbox.wakers.extend(waker);
            }
            Seat::Left { .. } => outbox.unheard.push((Arc::clone(party), answer)),
            other => *self = other,
        }
    }
}

impl Portion {
    pub(super) fn request(&self) -> &Request {
        &self.party.request
    }

    /// How many wait here.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// How many have waited here, with those who did not wait for long enough, or for too long.
    pub(super) fn seats(&self) -> usize {
        self.to - self.from
    }

    pub(super) fn deadline(&self) -> Tick {
        self.deadline
    }

    pub(super) fn run(&self) -> Run<'_> {
        Run { request: &self.party.request, count: self.count }
    }

    /// Tells everybody who waits the next of the answers.
    pub(super) fn tell(&self, outbox: &mut Outbox, mut next: impl FnMut() -> Answer) {
        if self.is_told.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.party.lock();
        for seat in &mut table.seats[self.from..self.to] {
            if let Seat::Waiting { .. } | Seat::Left { .. } = seat {
                seat.answer(next(), &self.party, outbox);
            }
        }
        // Not before: should it panic on the way, those who are left hear that there is no answer.
        self.is_told.store(true, Ordering::Relaxed);
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.tell(&mut Outbox::default(), no_answer);
    }
}

impl Outbox {
    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Waiter {
    pub(super) fn request(&self) -> &Request {
        &self.party.request
    }

    /// Goes away; says what was answered meanwhile.
    pub(super) fn leave(&self) -> Option<Answer> {
        let mut table = self.party.lock();
        let seat = &mut table.seats[self.seat];
        match std::mem::replace(seat, Seat::Empty) {
            Seat::Answered(answer) => Some(answer),
            Seat::Waiting { deadline, .. } => {
                *seat = Seat::Left { deadline };
                None
            }
            Seat::Left { .. } | Seat::Empty => None,
        }
    }
}

impl Future for Waiter {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut table = self.party.lock();
        let seat = &mut table.seats[self.seat];
        if let Seat::Waiting { waker, .. } = seat {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(seat, Seat::Empty) {
            Seat::Answered(answer) => Poll::Ready(answer),
            _ => Poll::Ready(no_answer()),
        }
    }
}

fn late() -> StoreError {
    StoreError::NotCharged("it was not sent within its deadline".into())
}

#[cfg(test)]
pub(super) mod tests {
    use tidegate_core::{Policy, Quota, Receipt};

    use super::*;
    use crate::call::Limit;
    use crate::plan::Does;
    use crate::rule::FleetRule;
    use tidegate_store::TextKey as FleetKey;

    /// A request of which many may be decided by one count.
    pub(in crate::gather) fn sample() -> Request {
        let policy = Policy::token_bucket(Quota::per_hour(10)).unwrap();
        let rule = FleetRule::new("client", policy);
        let place = rule.place("t:", &FleetKey::new("ada").unwrap());
        let limits = smallvec![Limit { rule, place, cost: 1, formers: 0 }];
        Request { does: Does::Decide, slot: 0, limits }
    }

    fn at(micros: u64) -> Tick {
        Tick::from_micros(micros)
    }

    fn party(guests: usize) -> (Arc<Group>, Vec<Waiter>) {
        let (party, first) = Group::new(sample(), at(20));
        let mut waiters = vec![first];
        waiters.extend((1..guests).map(|_| party.join(at(20)).unwrap()));
        (party, waiters)
    }

    /// What a waiter gets: the retry of a server that rests tells answers apart.
    fn heard(waiter: &mut Waiter) -> Option<StoreError> {
        match Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer.unwrap_err()),
            Poll::Pending => None,
        }
    }

    fn number(number: u64) -> StoreError {
        StoreError::Resting { retry_after: tidegate_core::Span::from_micros(number) }
    }

    fn numbered() -> impl FnMut() -> Answer {
        let mut told = 0;
        move || {
            told += 1;
            Err(number(told))
        }
    }

    #[test]
    fn guests_are_told_in_the_order_in_which_they_came_portion_by_portion() {
        let (party, mut waiters) = party(5);
        let mut outbox = Outbox::default();
        let (first, is_last) = party.take(3, at(0), &mut outbox);
        assert_eq!((first.count(), first.deadline(), is_last), (3, at(20), false));
        let (second, is_last) = party.take(3, at(0), &mut outbox);
        assert_eq!((second.count(), is_last), (2, true));
        assert!(waiters.iter_mut().all(|waiter| heard(waiter).is_none()));
        second.tell(&mut outbox, numbered());
        first.tell(&mut outbox, numbered());
        assert_eq!(outbox.wakers.len(), 5);
        let told: Vec<_> = waiters.iter_mut().map(|waiter| heard(waiter).unwrap()).collect();
        assert_eq!(told, [1, 2, 3, 1, 2].map(number));
    }

    #[test]
    fn whoever_leaves_in_time_is_not_sent_and_whoever_leaves_later_is_given_back() {
        let (party, waiters) = party(3);
        assert!(waiters[0].leave().is_none());
        let mut outbox = Outbox::default();
        let (portion, _) = party.take(9, at(0), &mut outbox);
        assert_eq!((portion.count(), portion.seats()), (2, 3));
        assert!(waiters[1].leave().is_none());
        portion.tell(&mut outbox, numbered());
        let unheard: Vec<_> = outbox.unheard.drain(..).map(|(_, it)| it.unwrap_err()).collect();
        assert_eq!(unheard, [number(1)]);
        // Answered, and not heard: the waiter that leaves takes the answer along.
        assert_eq!(waiters[2].leave().unwrap().unwrap_err(), number(2));
    }

    #[test]
    fn what_is_to_be_done_is_done_though_nobody_waits_for_it() {
        let refund = Request { does: Does::refund(&Receipt::new(at(1), 1)), ..sample() };
        let (party, waiter) = Group::new(refund, at(20));
        assert!(waiter.leave().is_none());
        let (portion, _) = party.take(9, at(0), &mut Outbox::default());
        assert_eq!((portion.count(), portion.deadline()), (1, at(20)));
    }

    #[test]
    fn whoever_is_late_is_told_so_and_not_sent() {
        let (party, mut waiters) = party(1);
        waiters.push(party.join(at(30)).unwrap());
        let mut outbox = Outbox::default();
        let (portion, _) = party.take(9, at(20), &mut outbox);
        assert_eq!((portion.count(), portion.deadline()), (1, at(30)));
        assert!(matches!(heard(&mut waiters[0]), Some(StoreError::NotCharged(_))));
        portion.tell(&mut outbox, numbered());
        assert_eq!(heard(&mut waiters[1]), Some(number(1)));
    }

    #[test]
    fn a_portion_that_is_dropped_leaves_nobody_waiting() {
        let (party, mut waiters) = party(2);
        assert!(heard(&mut waiters[0]).is_none());
        drop(party.take(9, at(0), &mut Outbox::default()));
        for waiter in &mut waiters {
            assert!(matches!(heard(waiter), Some(StoreError::Unknown(_))));
        }
    }

    #[test]
    fn a_party_has_an_end() {
        let (party, waiters) = party(SEATS_MAX);
        assert!(party.join(at(20)).is_none());
        assert_eq!(waiters.len(), SEATS_MAX);
    }
}
