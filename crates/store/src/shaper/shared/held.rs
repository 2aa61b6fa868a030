//! A slot that has not come yet: dropped, it is given back as far as that is possible.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::{Decision, Span, Tick};

use super::Inner;
use crate::by::By;
use crate::later::Later;
use crate::store::{Charged, Judgment, StoreKey};

/// A slot that is asked for. Dropped meanwhile, it is given back when the store has answered.
pub(super) struct Asking {
    shaper: Arc<Inner>,
    key: StoreKey,
    /// Nothing once there is an answer.
    judging: Option<Later<Judgment>>,
}

/// A slot that is ours.
pub(super) struct Held {
    shaper: Arc<Inner>,
    key: StoreKey,
    /// When it comes. The end of time until that is known: given back, then.
    until: Tick,
    charged: Charged,
    by: By,
}

impl Asking {
    pub(super) fn new(shaper: Arc<Inner>, key: StoreKey, judging: Later<Judgment>) -> Asking {
        Asking { shaper, key, judging: Some(judging) }
    }
}

impl Future for Asking {
    type Output = (Decision, Held);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Decision, Held)> {
        let judging = self.judging.as_mut().expect("not polled after it was done");
        let judgment = std::task::ready!(Pin::new(judging).poll(context));
        self.judging = None;
        Poll::Ready(Held::new(Arc::clone(&self.shaper), self.key.clone(), judgment))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(judging) = self.judging.take() {
            let (shaper, key) = (Arc::clone(&self.shaper), self.key.clone());
            let give_back = async move { drop(Held::new(shaper, key, judging.await)) };
            self.shaper.store.finish(Box::pin(give_back));
        }
    }
}

impl Held {
    /// What a store said of a slot, and what it charged for it.
    fn new(shaper: Arc<Inner>, key: StoreKey, judgment: Judgment) -> (Decision, Held) {
        let (decision, by) = (judgment.decision(), judgment.by);
        let charged = judgment.limits.into_iter().next().map(|(_, charged)| charged);
        let charged = charged.unwrap_or_default();
        (decision, Held { shaper, key, until: Tick::MAX, charged, by })
    }

    pub(super) fn by(&self) -> By {
        self.by
    }

    pub(super) fn until_after(mut self, now: Tick, by: Span) -> Held {
        self.until = now.after(by);
        self
    }

    pub(super) fn until(&self) -> Tick {
        self.until
    }

    /// It has come, and is used. By what it was decided.
    pub(super) fn start(mut self) -> By {
        std::mem::take(&mut self.charged).stand();
        self.by
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut charged = std::mem::take(&mut self.charged);
        if matches!(charged, Charged::Nothing) {
            return;
        }
        // What has come is used up.
        if self.shaper.now() < self.until {
            let Inner { store, clock, .. } = &*self.shaper;
            drop(store.give_up(&mut [(self.shaper.place(&self.key), &mut charged)], clock));
        } else {
            charged.stand();
        }
    }
}
