//! One trip to a server and back: requests become calls, replies become answers.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::Poll;

use smallvec::{SmallVec, smallvec};
use tidegate_core::Tick;
use tidegate_store::Clock as _;
use tokio::sync::MutexGuard;

use super::eager::{Waited, eagerly};
use super::group::{Outbox, Portion};
use super::shard_queue::{ShardQueue, count};
use super::{Answer, Decided, Gather, Reply};
use crate::call::{self, Outcome, Request, Run};
use crate::failure::StoreError;
use crate::found;
use crate::plan::Does;
use crate::refusals::When;
use crate::wire::{self, CallError, ScriptCall};

/// What became of each call of a trip: mostly one.
type Results = SmallVec<[Result<wire::Reply, CallError>; 1]>;

/// Trips to one server, one after another.
pub(super) struct RoundTrip<'a> {
    gather: &'a Gather,
    lane: &'a ShardQueue,
    /// Held from when an answer is there until the next call is sent.
    ///
    /// Two calls that were answered together would otherwise be sent together, and so be answered
    /// together again: the server would wait for us, and we for it, ever after. This way the server
    /// has the one while the other's answers are handed out.
    hand: Option<MutexGuard<'a, ()>>,
}

/// One call of a script: these portions.
struct Call {
    slot: u16,
    portions: Range<usize>,
}

/// The reply to a call, and the ticks here between which it was made.
struct Heard<'a> {
    reply: &'a wire::Reply,
    sent: Tick,
    received: Tick,
    /// As in [`When`].
    epoch: u64,
}

impl<'a> RoundTrip<'a> {
    /// Begins when nobody else hands out answers.
    pub(super) async fn begin(gather: &'a Gather, lane: &'a ShardQueue) -> RoundTrip<'a> {
        RoundTrip { gather, lane, hand: lane.hand().await }
    }

    /// Has all requests decided before the earliest deadline, and answers each.
    pub(super) async fn take(&mut self, portions: &[Portion], outbox: &mut Outbox) {
        let deadline = portions.iter().map(Portion::deadline).min().unwrap_or_default();
        let mut calls = self.calls(portions);
        let mut is_out = false;
        let began = self.gather.clock.now();
        while !calls.is_empty() {
            let epoch = self.gather.refusals.epoch();
            let (results, sent, received) = self.run(portions, &calls, deadline).await;
            let mut again = Vec::new();
            for (call, result) in calls.into_iter().zip(results) {
                let portions = &portions[call.portions.clone()];
                match result {
                    Ok(reply) => {
                        let heard = Heard { reply: &reply, sent, received, epoch };
                        self.read(portions, &heard, outbox);
                    }
                    // A full server takes no charge, but still refuses: each is asked by itself.
                    Err(error) if error.is_full() && 1 < portions.len() => {
                        again.extend(call.apart());
                    }
                    Err(error) => {
                        is_out |= error.is_outage();
                        refuse(portions, &StoreError::from(&error), outbox);
                    }
                }
            }
            calls = again;
        }
        self.gather.note(self.lane, is_out, began);
    }

    /// Sends all calls in one write; the replies, and the ticks between which they were made.
    async fn run(
        &mut self,
        portions: &[Portion],
        calls: &[Call],
        deadline: Tick,
    ) -> (Results, Tick, Tick) {
        let (gather, lane) = (self.gather, self.lane);
        let mut scripts: Vec<_> = calls.iter().map(|call| self.script(portions, call)).collect();
        let sent = gather.now();
        let mut run = pin!(async {
            match scripts.pop() {
                Some(last) if scripts.is_empty() => {
                    smallvec![gather.run(lane.number(), last, deadline).await]
                }
                last => {
                    scripts.extend(last);
                    // Large, and only in a cluster: all others need not carry it along.
                    Box::pin(gather.run_all(lane.number(), scripts, deadline)).await.into()
                }
            }
        });
        let begun = poll_once(run.as_mut()).await;
        // They are with the connection now.
        self.hand = None;
        let (results, waited) = match begun {
            Poll::Ready(results) => (results, Waited::Asleep),
            Poll::Pending => eagerly(run, count(portions), lane.eagerness(), gather.clock).await,
        };
        let received = gather.now();
        lane.learn(waited, are_alike(portions));
        self.hand = lane.hand().await;
        (results, sent, received)
    }

    fn script(&self, portions: &[Portion], call: &Call) -> ScriptCall {
        let now = self.gather.judged_by.as_ref().map(|clock| clock.now());
        let runs = runs(&portions[call.portions.clone()]);
        call::write(&runs, call.slot, now, self.gather.slack_millis)
    }

    /// One call for all; in a cluster one for each portion, because a call with several keys cannot
    /// be answered while their slot moves.
    fn calls(&self, portions: &[Portion]) -> Vec<Call> {
        if !self.gather.wire.is_cluster() {
            return vec![Call { slot: 0, portions: 0..portions.len() }];
        }
        let alone = |(place, portion): (usize, &Portion)| Call {
            slot: portion.request().slot,
            portions: place..place + 1,
        };
        portions.iter().enumerate().map(alone).collect()
    }

    /// Tells every request of a call what its reply means.
    fn read(&self, portions: &[Portion], heard: &Heard<'_>, outbox: &mut Outbox) {
        let Ok((judged, outcomes)) = call::read(&runs(portions), heard.reply) else {
            for portion in portions {
                portion.tell(outbox, garbled);
            }
            return;
        };
        self.gather.learn(judged, heard.received);
        let Heard { sent, received, epoch, .. } = *heard;
        let when = When { judged, sent, received, epoch };
        for (portion, outcome) in portions.iter().zip(outcomes) {
            let mut teller = Teller { outcome, told: 0 };
            portion.tell(outbox, || teller.next(self.gather, portion.request(), when));
        }
    }
}

/// Has one request decided: the way of a caller that asks alone, without a list of anything.
pub(super) async fn alone(
    gather: &Gather,
    lane: &ShardQueue,
    request: &Request,
    deadline: Tick,
) -> Answer {
    let runs = [Run { request, count: 1 }];
    let now = gather.judged_by.as_ref().map(|clock| clock.now());
    let call = call::write(&runs, request.slot, now, gather.slack_millis);
    let (epoch, sent, began) = (gather.refusals.epoch(), gather.now(), gather.clock.now());
    let result = gather.run(lane.number(), call, deadline).await;
    let received = gather.now();
    gather.note(lane, matches!(&result, Err(error) if error.is_outage()), began);
    let reply = result.map_err(|error| StoreError::from(&error))?;
    let Ok((judged, mut outcomes)) = call::read(&runs, &reply) else { return garbled() };
    let Some(outcome) = outcomes.pop() else { return garbled() };
    gather.learn(judged, received);
    Teller { outcome, told: 0 }.next(gather, request, When { judged, sent, received, epoch })
}

/// Polls a future once, and says what came of it.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Whether a few keys are all that many requests ask about.
fn are_alike(portions: &[Portion]) -> bool {
    portions.len() * 4 <= count(portions)
}

fn runs(portions: &[Portion]) -> Vec<Run<'_>> {
    portions.iter().map(Portion::run).collect()
}

fn refuse(portions: &[Portion], error: &StoreError, outbox: &mut Outbox) {
    for portion in portions {
        portion.tell(outbox, || Err(error.clone()));
    }
}

fn garbled() -> Answer {
    Err(StoreError::Unknown("the answer cannot be understood".into()))
}

/// What became of a group, and how many of it have been told.
struct Teller<'a> {
    outcome: Outcome<'a>,
    told: u32,
}

impl Teller<'_> {
    /// What to tell the next request of the group.
    fn next(&mut self, gather: &Gather, request: &Request, when: When) -> Answer {
        let judged = when.judged;
        let place = self.told;
        self.told += 1;
        match &mut self.outcome {
            Outcome::Unreadable(why) => Err(StoreError::Damaged(why.as_str().into())),
            // The first carries the states over; the others find them when they ask again.
            Outcome::Elsewhere(kept) => Ok(Reply::Elsewhere { judged, kept: std::mem::take(kept) }),
            // No two renewals are decided by one count.
            Outcome::Renewed(receipts) => Ok(Reply::Renewed(std::mem::take(receipts))),
            // No two debits either.
            Outcome::Debited(debits) => Ok(Reply::Debited(std::mem::take(debits))),
            Outcome::Refunded(is_back) => Ok(Reply::Refunded(*is_back)),
            Outcome::Decided { passed, found } => {
                let (verdict, answers) = match request.does {
                    Does::Decide => found::decide(found, judged),
                    _ => found::peek(found, judged),
                };
                if request.does.judges() && verdict.passes() != (place < *passed) {
                    return Err(StoreError::Damaged("script and core do not agree on it".into()));
                }
                // The first that is refused will do for all that are alike.
                if !verdict.passes() && place == *passed {
                    gather.refusals.remember(request, (found, &answers), when);
                }
                Ok(Reply::Decided(Decided { verdict, answers }))
            }
        }
    }
}

impl Call {
    /// A call for each portion.
    fn apart(self) -> impl Iterator<Item = Call> {
        let slot = self.slot;
        self.portions.map(move |place| Call { slot, portions: place..place + 1 })
    }
}
