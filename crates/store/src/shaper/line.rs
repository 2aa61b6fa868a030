//! The queues, key by key: who has which slot.
//!
//! A waiter remembers the state of the line before it, so that the line is the same without it:
//! from there on everybody behind it is given a slot anew, by the core. Nothing here calls a waker
//! or drops one; that is done without the lock.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use tidegate_core::{Policy, Span, State, Tick, Verdict};

use super::slot::NoSlot;
use crate::by::By;
use crate::key::Key;

/// All queues.
#[derive(Debug)]
pub(super) struct Lines {
    by_key: HashMap<Key, Line>,
    number: u64,
    waiting: usize,
    keys_max: usize,
    /// How many keys make it worth while to look for idle ones.
    sweep_at: usize,
    /// No key is done before this tick: nobody needs to look.
    full_until: Tick,
}

/// The queue of one key.
#[derive(Debug)]
struct Line {
    /// With everybody charged who waits.
    tail: State,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    cost: u32,
    slot: Tick,
    /// The line as it was before this one came.
    before: State,
    waker: Waker,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) slot: Tick,
}

impl Lines {
    const SWEEP_MIN: usize = 64;

    pub(super) fn new(keys_max: usize) -> Lines {
        Lines {
            by_key: HashMap::new(),
            number: 0,
            waiting: 0,
            keys_max,
            sweep_at: Lines::SWEEP_MIN,
            full_until: Tick::default(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How long a call waits that comes at `now`, or why it does not.
    pub(super) fn peek(
        &mut self,
        policy: &Policy,
        key: Key,
        now: Tick,
        (cost, within): (u32, Span),
    ) -> Result<Span, NoSlot> {
        let mut fresh = policy.fresh();
        let tail = self.by_key.get_mut(&key).map_or(&mut fresh, |line| &mut line.tail);
        NoSlot::judge(policy.peek(tail, now, cost), within, By::Store)
    }

    /// Takes a slot at the end of the queue: nothing if it has come already.
    pub(super) fn enter(
        &mut self,
        policy: &Policy,
        key: Key,
        now: Tick,
        (cost, within): (u32, Span),
        waker: &Waker,
    ) -> Result<Option<Place>, NoSlot> {
        let by = self.peek(policy, key, now, (cost, within))?;
        if cost == 0 {
            return Ok(None);
        }
        if !self.by_key.contains_key(&key) {
            self.make_room(policy, now)?;
        }
        let fresh = || Line { tail: policy.fresh(), waiters: VecDeque::new() };
        let line = self.by_key.entry(key).or_insert_with(fresh);
        let before = line.tail.clone();
        let _ = policy.decide(&mut line.tail, now, cost);
        if by == Span::ZERO {
            return Ok(None);
        }
        self.number += 1;
        self.waiting += 1;
        let (number, slot, waker) = (self.number, now.after(by), waker.clone());
        line.waiters.push_back(Waiter { number, cost, slot, before, waker });
        Ok(Some(Place { number, slot }))
    }

    /// The slot of a waiter, and its former waker, if another is to be woken instead.
    pub(super) fn look(
        &mut self,
        key: Key,
        number: u64,
        waker: &Waker,
    ) -> Option<(Tick, Option<Waker>)> {
        let waiter = self.by_key.get_mut(&key)?.waiter(number)?;
        let is_same = waiter.waker.will_wake(waker);
        let former = (!is_same).then(|| std::mem::replace(&mut waiter.waker, waker.clone()));
        Some((waiter.slot, former))
    }

    /// Takes out a waiter whose slot has come.
    pub(super) fn start(&mut self, key: Key, number: u64) -> Vec<Waker> {
        self.remove(key, number).map(|(_, waiter)| vec![waiter.waker]).unwrap_or_default()
    }

    /// Takes out a waiter that does not want its slot any more. If that has not come, everybody
    /// behind moves up, and is to be woken to see it.
    pub(super) fn leave(
        &mut self,
        policy: &Policy,
        key: Key,
        number: u64,
        now: Tick,
    ) -> (Vec<Waker>, Option<Waker>) {
        let Some((place, left)) = self.remove(key, number) else { return (Vec::new(), None) };
        let mut moved = Vec::new();
        // What has come is used up: others have been sent since, or may be just now.
        if now < left.slot
            && let Some(line) = self.by_key.get_mut(&key)
        {
            let mut state = left.before;
            for waiter in line.waiters.range_mut(place..) {
                waiter.before = state.clone();
                waiter.slot = slot_of(policy.decide(&mut state, now, waiter.cost).verdict, now);
                moved.push(waiter.waker.clone());
            }
            line.tail = state;
            self.full_until = Tick::default();
        }
        (moved, Some(left.waker))
    }

    fn remove(&mut self, key: Key, number: u64) -> Option<(usize, Waiter)> {
        let waiters = &mut self.by_key.get_mut(&key)?.waiters;
        let place = waiters.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        self.waiting -= 1;
        waiters.remove(place).map(|waiter| (place, waiter))
    }

    /// Room for one more key, or when there will be.
    fn make_room(&mut self, policy: &Policy, now: Tick) -> Result<(), NoSlot> {
        let count = self.by_key.len();
        let is_full = |count| self.keys_max.max(1) <= count;
        if count < self.sweep_at && !is_full(count) {
            return Ok(());
        }
        if self.full_until <= now {
            let is_busy =
                |line: &Line| !line.waiters.is_empty() || !policy.is_fresh(&line.tail, now);
            self.by_key.retain(|_, line| is_busy(line));
            self.sweep_at = Lines::SWEEP_MIN.max(2 * self.by_key.len());
        }
        if self.by_key.len() < self.keys_max.max(1) {
            return Ok(());
        }
        if self.full_until <= now {
            let done = self.by_key.values().map(|line| policy.forget_at(&line.tail)).min();
            self.full_until = done.unwrap_or(now).max(now.after(Span::from_micros(1)));
        }
        Err(NoSlot::Refused { retry_after: self.full_until.since(now), by: By::Store })
    }
}

impl Line {
    fn waiter(&mut self, number: u64) -> Option<&mut Waiter> {
        let place = self.waiters.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        self.waiters.get_mut(place)
    }
}

/// When a call starts that was let pass at `now`. It was let pass with more before it, so it is.
fn slot_of(verdict: Verdict, now: Tick) -> Tick {
    if let Verdict::Delay { by } = verdict { now.after(by) } else { now }
}
