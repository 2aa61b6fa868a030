//! Requests that are in flight together travel together.
//!
//! Whoever asks while nobody else does sends its request itself, at once. Whoever comes while a
//! call is under way puts its request into the queue of that server; one task takes all that wait,
//! makes one call of them, and hands out the answers, while the next ones gather. Nothing ever waits
//! on purpose, and under load calls grow by themselves. Requests that are alike are decided by one
//! count.

mod lane;
mod trip;

use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Kind, Span, Tick, Verdict};
use tidegate_store::{Clock, SystemClock};
use tokio::sync::oneshot;

use self::lane::{Job, Lane, Start};
use self::trip::Trip;
use crate::call::{Elsewhere, Request};
use crate::failure::StoreError;
use crate::plan::Does;
use crate::refusals::Refusals;
use crate::told::Answers;
use crate::wire::Wire;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Decided(Decided),
    /// Nothing was done: states are kept under former policies.
    Elsewhere {
        judged: Tick,
        kept: Vec<Elsewhere>,
    },
}

/// What all limits said of a request.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) verdict: Verdict,
    pub(crate) answers: Answers,
}

pub(crate) type Answer = Result<Reply, StoreError>;

/// The queues of all servers.
pub(crate) struct Gather {
    wire: Wire,
    lanes: RwLock<Vec<Arc<Lane>>>,
    clock: SystemClock,
    /// A clock that scripts are told instead of asking their server's; for tests.
    judged_by: Option<Arc<dyn Clock>>,
    slack_millis: u64,
    refusals: Refusals,
    hasher: RandomState,
}

/// How a gather is set up.
pub(crate) struct Setup {
    pub(crate) judged_by: Option<Arc<dyn Clock>>,
    pub(crate) slack_millis: u64,
}

impl Gather {
    pub(crate) fn new(wire: Wire, setup: Setup) -> Gather {
        Gather {
            wire,
            lanes: RwLock::default(),
            clock: SystemClock::new(),
            judged_by: setup.judged_by,
            slack_millis: setup.slack_millis,
            refusals: Refusals::new(),
            hasher: RandomState::default(),
        }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The clock by which refusals are remembered: our own, or that which scripts are told.
    pub(crate) fn now(&self) -> Tick {
        self.judged_by.as_ref().map_or_else(|| self.clock.now(), |clock| clock.now())
    }

    /// The clock by which deadlines are kept.
    pub(crate) fn real_now(&self) -> Tick {
        self.clock.now()
    }

    pub(crate) fn slack_millis(&self) -> u64 {
        self.slack_millis
    }

    /// Whether the server that holds `slot` is asked at all just now.
    pub(crate) fn is_asked(&self, slot: u16) -> bool {
        self.lane(self.wire.lane_of(slot)).is_asked()
    }

    /// Has `request` decided, and waits for it for no longer than `within`.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request, within: Duration) -> Answer {
        let lane = self.lane(self.wire.lane_of(request.slot));
        let now = self.clock.now();
        let deadline = now.after(Span::from(within));
        // Whoever gives up while it is alone leaves its charge behind; a permit must come back.
        if !lends(&request) && lane.enter_alone(now)? {
            let turn = Turn { gather: self, lane: &lane, away: 1 };
            let trip = Trip { gather: self, lane: &lane };
            let mut answers = trip.take(std::slice::from_ref(&request), deadline).await;
            drop(turn);
            return answers.pop().unwrap_or_else(no_answer);
        }
        self.queue(&lane, request, (now, deadline))?.await.unwrap_or_else(|_| no_answer())
    }

    /// The same, to be waited for later.
    pub(crate) fn submit(
        self: &Arc<Self>,
        request: Request,
        within: Duration,
    ) -> Result<impl Future<Output = Answer> + use<>, StoreError> {
        let lane = self.lane(self.wire.lane_of(request.slot));
        let now = self.clock.now();
        let deadline = now.after(Span::from(within));
        let answered = self.queue(&lane, request, (now, deadline))?;
        Ok(async move { answered.await.unwrap_or_else(|_| no_answer()) })
    }

    /// Puts a request into the queue of its server, and sees to it that somebody takes it.
    fn queue(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        request: Request,
        (now, deadline): (Tick, Tick),
    ) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let start = lane.enter(Job::new(request, deadline, answer), now)?;
        self.start(lane, start);
        Ok(answered)
    }

    /// Starts somebody who takes what waits, if that is needed.
    fn start(self: &Arc<Self>, lane: &Arc<Lane>, start: Start) {
        if start == Start::Needed {
            tokio::spawn(fly(Arc::clone(self), Arc::clone(lane)));
        }
    }

    fn lane(&self, number: usize) -> Arc<Lane> {
        if let Some(lane) = self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(number) {
            return Arc::clone(lane);
        }
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        while lanes.len() <= number {
            let number = lanes.len();
            lanes.push(Arc::new(Lane::new(number)));
        }
        Arc::clone(&lanes[number])
    }

    /// Tells the breaker of a server how a call went; who fails too often is connected to anew.
    fn note(&self, lane: &Lane, failed: bool) {
        let now = self.clock.now();
        if lane.note(failed, now, self.hasher.hash_one(now)) {
            self.wire.reconnect(lane.number());
        }
    }

    /// Takes back what was charged to a request that nobody waits for any more.
    fn give_back(self: &Arc<Self>, request: Request, unheard: Answer) {
        let Ok(Reply::Decided(decided)) = unheard else { return };
        let receipts = decided.answers.into_iter().map(|one| one.receipt);
        for (limit, receipt) in request.limits.into_iter().zip(receipts) {
            let Some(receipt) = receipt.filter(|receipt| 0 < receipt.cost()) else { continue };
            let does = Does::Refund { at: receipt.at() };
            let limits = std::iter::once(limit).collect();
            let refund = Request { does, slot: request.slot, limits };
            // Whatever becomes of it: it is done once.
            drop(self.submit(refund, GIVE_BACK_WITHIN));
        }
    }
}

const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);

fn no_answer() -> Answer {
    Err(StoreError::Unknown("the task that asked has ended".into()))
}

fn lends(request: &Request) -> bool {
    request.limits.iter().any(|limit| limit.rule.policy().kind() == Kind::Concurrency)
}

/// A turn at a server. Whatever becomes of it, those who wait are taken over by another.
struct Turn<'a> {
    gather: &'a Arc<Gather>,
    lane: &'a Arc<Lane>,
    /// How many requests are under way in this turn.
    away: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gather.start(self.lane, self.lane.leave(self.away));
    }
}

/// Takes what waits for a server, call after call, until nothing does.
async fn fly(gather: Arc<Gather>, lane: Arc<Lane>) {
    let mut turn = Turn { gather: &gather, lane: &lane, away: 0 };
    loop {
        // Everybody who is ready to ask does so first, and travels along.
        tokio::task::yield_now().await;
        let (jobs, start) = lane.take_waiting(turn.away, gather.clock.now());
        turn.away = jobs.len();
        gather.start(&lane, start);
        if jobs.is_empty() {
            break;
        }
        let deadline = jobs.iter().map(|job| job.deadline).min().unwrap_or_default();
        let (requests, waiting): (Vec<Request>, Vec<oneshot::Sender<Answer>>) =
            jobs.into_iter().map(|job| (job.request, job.answer)).unzip();
        let answers = Trip { gather: &gather, lane: &lane }.take(&requests, deadline).await;
        for ((request, waiting), answer) in requests.into_iter().zip(waiting).zip(answers) {
            if let Err(unheard) = waiting.send(answer) {
                gather.give_back(request, unheard);
            }
        }
    }
}
