//! Waiting for a slot.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::{Span, Tick};

use super::line::Place;
use super::{NoSlot, Shaper, Slot};
use crate::by::By;
use crate::clock::WakeId;
use crate::key::Key;
use crate::sync::lock;

/// Waits until it is time to send a call; made by [`Shaper::acquire`].
///
/// Dropped before that, it leaves the queue as if it had never been in it.
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct AcquireSlot<'a> {
    shaper: &'a Shaper,
    /// Nothing if it was too long.
    key: Option<Key>,
    cost: u32,
    within: Span,
    stage: Stage,
    alarm: Option<WakeId>,
}

#[derive(Debug)]
enum Stage {
    Asking,
    Waiting { key: Key, place: Place, asked: Tick },
    Done,
}

impl<'a> AcquireSlot<'a> {
    pub(super) fn new(
        shaper: &'a Shaper,
        key: Option<Key>,
        cost: u32,
        within: Span,
    ) -> AcquireSlot<'a> {
        AcquireSlot { shaper, key, cost, within, stage: Stage::Asking, alarm: None }
    }

    fn ask(&mut self, waker: &Waker) -> Poll<Result<Slot, NoSlot>> {
        self.stage = Stage::Done;
        let Some(key) = self.key else { return Poll::Ready(Err(NoSlot::Never)) };
        let shaper = self.shaper;
        let mut lines = lock(&shaper.lines);
        // Read under the lock: who is first in line came first.
        let now = shaper.now();
        let wanted = (self.cost, self.within);
        let entered = lines.enter(&shaper.policy, key, now, wanted, waker);
        drop(lines);
        match entered {
            Err(why) => Poll::Ready(Err(why)),
            Ok(None) => Poll::Ready(Ok(Slot::new(Span::ZERO, By::Store))),
            Ok(Some(place)) => {
                self.stage = Stage::Waiting { key, place, asked: now };
                self.set_alarm(place.slot, waker);
                Poll::Pending
            }
        }
    }

    fn wait(&mut self, waker: &Waker, key: Key, place: Place, asked: Tick) -> Poll<Slot> {
        let shaper = self.shaper;
        let mut lines = lock(&shaper.lines);
        let now = shaper.now();
        let (slot, former) = lines.look(key, place.number, waker).unwrap_or((now, None));
        if slot <= now {
            let left = lines.start(key, place.number);
            drop(lines);
            drop((left, former));
            self.stage = Stage::Done;
            self.stop_alarm();
            return Poll::Ready(Slot::new(now.since(asked), By::Store));
        }
        drop(lines);
        if slot != place.slot || former.is_some() {
            self.stage = Stage::Waiting { key, place: Place { slot, ..place }, asked };
            self.set_alarm(slot, waker);
        }
        Poll::Pending
    }

    fn set_alarm(&mut self, at: Tick, waker: &Waker) {
        self.stop_alarm();
        self.alarm = Some(self.shaper.clock.wake_at(at, waker.clone()));
    }

    fn stop_alarm(&mut self) {
        if let Some(id) = self.alarm.take() {
            self.shaper.clock.cancel(id);
        }
    }
}

impl Future for AcquireSlot<'_> {
    type Output = Result<Slot, NoSlot>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker();
        match self.stage {
            Stage::Asking => self.ask(waker),
            Stage::Waiting { key, place, asked } => self.wait(waker, key, place, asked).map(Ok),
            Stage::Done => Poll::Pending,
        }
    }
}

impl Drop for AcquireSlot<'_> {
    /// Leaves the queue; the calls behind it move up.
    fn drop(&mut self) {
        self.stop_alarm();
        if let Stage::Waiting { key, place, .. } = self.stage {
            let shaper = self.shaper;
            let mut lines = lock(&shaper.lines);
            let (moved, left) = lines.leave(&shaper.policy, key, place.number, shaper.now());
            drop(lines);
            drop(left);
            moved.into_iter().for_each(Waker::wake);
        }
    }
}
