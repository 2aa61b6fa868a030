//! What every shaper must do, by a naive queue beside it, in virtual time.
//!
//! A shaper under test implements [`Shaped`]; [`check`] has calls come, wait, give up and be sent,
//! and compares every answer and the tick of every start. What was sent must be smooth, too,
//! whatever the naive queue says.

use std::collections::BTreeMap;

use tidegate_core::{Grains, Quota, Span};

use crate::rng::Rng;

/// A shaper, as far as the check can see it. Keys and calls are small numbers.
pub trait Shaped {
    /// Whether those behind move up when somebody leaves; otherwise only the last slot comes back.
    const MOVES_UP: bool;

    /// A call comes, and waits for at most `within`.
    fn ask(&mut self, call: u32, key: u64, cost: u32, within: Span) -> Asked;

    /// A call that waits gives up.
    fn leave(&mut self, call: u32);

    /// Time goes on; the calls that were sent at the new tick.
    fn advance(&mut self, by: Span) -> Vec<u32>;
}

/// What became of a call at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// It costs too much.
    Never,
    /// It is to come back.
    Refused {
        /// After so long.
        retry_after: Span,
    },
    /// It goes out.
    Sent,
    /// It waits for its slot.
    Waits,
}

/// The queue of a key, in grains since the start.
#[derive(Default)]
struct Queue {
    zero: u128,
    waiting: Vec<Waits>,
    sent: Vec<(u64, u32)>,
}

struct Waits {
    call: u32,
    start: u128,
    cost: u32,
}

struct Model {
    grains: Grains,
    queues: BTreeMap<u64, Queue>,
    now: u64,
}

/// Walks `subject`, which has the quota `quota`, through `steps` random steps from `seed`.
///
/// # Panics
///
/// At the first answer or start that differs from the naive queue's, naming the seed.
pub fn check<S: Shaped>(subject: &mut S, quota: Quota, seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let grains = Grains::of(quota).expect("a possible quota");
    let mut model = Model { grains, queues: BTreeMap::new(), now: 0 };
    let cell = grains.cell().div_ceil(grains.tick());
    for call in 0..steps {
        let context = || format!("{quota}, seed {seed}, step {call}");
        let key = rng.below(2);
        match rng.below(8) {
            0 => {
                if let Some(call) = model.leave(key, S::MOVES_UP, &mut rng) {
                    subject.leave(call);
                }
            }
            1..5 => {
                let span = if rng.one_in(8) { 8 * cell } else { cell };
                let span = Span::from_micros(rng.below(1 + span));
                let mut sent = subject.advance(span);
                sent.sort_unstable();
                assert_eq!(sent, model.advance(span), "{}", context());
            }
            _ => {
                let cost = rng.below_u32(grains.burst().min(4) + 2);
                let within = if rng.one_in(3) { rng.below(1 + 6 * cell) } else { u64::MAX };
                let within = Span::from_micros(within);
                let asked = subject.ask(call, key, cost, within);
                assert_eq!(asked, model.ask(call, key, cost, within), "{}", context());
            }
        }
    }
    model.queues.values().for_each(|queue| queue.is_smooth(&grains));
}

impl Model {
    fn ask(&mut self, call: u32, key: u64, cost: u32, within: Span) -> Asked {
        let (weight, tick) = (u128::from(self.grains.cell()), u128::from(self.grains.tick()));
        let here = u128::from(self.now) * tick;
        let queue = self.queues.entry(key).or_default();
        let start = queue.zero.max(here);
        let wait = (start - here).div_ceil(tick);
        let over = start - here + u128::from(cost) * weight;
        let over = over.saturating_sub(u128::from(self.grains.burst()) * weight).div_ceil(tick);
        let late = wait.saturating_sub(u128::from(within.get()));
        if cost == 0 {
            return Asked::Sent;
        }
        if self.grains.burst() < cost {
            return Asked::Never;
        }
        if 0 < over.max(late) {
            let retry_after = u64::try_from(over.max(late)).unwrap_or(u64::MAX);
            return Asked::Refused { retry_after: Span::from_micros(retry_after) };
        }
        queue.zero = start + u128::from(cost) * weight;
        if wait == 0 {
            queue.sent.push((self.now, cost));
            return Asked::Sent;
        }
        queue.waiting.push(Waits { call, start, cost });
        Asked::Waits
    }

    /// Somebody who waits gives up.
    fn leave(&mut self, key: u64, moves_up: bool, rng: &mut Rng) -> Option<u32> {
        let cell = u128::from(self.grains.cell());
        let queue = self.queues.get_mut(&key)?;
        let index = usize::try_from(rng.below(queue.waiting.len().max(1) as u64)).unwrap_or(0);
        if queue.waiting.len() <= index {
            return None;
        }
        let left = queue.waiting.remove(index);
        let is_last = left.start + u128::from(left.cost) * cell == queue.zero;
        if moves_up {
            let cells = u128::from(left.cost) * cell;
            queue.waiting[index..].iter_mut().for_each(|behind| behind.start -= cells);
            queue.zero -= cells;
        } else if is_last {
            queue.zero = left.start;
        }
        Some(left.call)
    }

    /// The calls that go out by the new tick, sorted.
    fn advance(&mut self, by: Span) -> Vec<u32> {
        self.now += by.get();
        let here = u128::from(self.now) * u128::from(self.grains.tick());
        let mut sent = Vec::new();
        for key in 0..2 {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let due = queue.waiting.partition_point(|waits| waits.start <= here);
            for waits in queue.waiting.drain(..due) {
                let at = waits.start.div_ceil(u128::from(self.grains.tick()));
                queue.sent.push((u64::try_from(at).unwrap_or(u64::MAX), waits.cost));
                sent.push(waits.call);
            }
        }
        sent.sort_unstable();
        sent
    }
}

impl Queue {
    /// Between any two starts there is time for all that was sent from the first on; a start is in
    /// whole ticks, rounded up, and that is the tick to spare.
    fn is_smooth(&self, grains: &Grains) {
        for (first, (from, _)) in self.sent.iter().enumerate() {
            let mut before = 0_u128;
            for (at, cost) in &self.sent[first..] {
                let paid = u128::from(at - from + 1) * u128::from(grains.tick());
                assert!(before == 0 || before < paid, "too many from {from} to {at}");
                before += u128::from(*cost) * u128::from(grains.cell());
            }
        }
    }
}
