//! Requests that are in flight together travel together.
//!
//! A caller that is alone sends its request itself, at once. While a call is under way, requests
//! queue for that server; one task makes one call of all that wait, and hands out the answers.
//! Nothing waits on purpose, and under load calls grow by themselves. One count decides all alike.

mod eager;
mod group;
mod round_trip;
mod shard_queue;
mod wanted;

use std::future::poll_fn;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Kind, Span, Tick, Verdict};
use tidegate_store::{Clock, SystemClock};
use tokio::runtime::Handle;

use self::group::Outbox;
use self::round_trip::RoundTrip;
use self::shard_queue::{Entry, ShardQueue, Start, Taken, Went};
use self::wanted::{Wanted, answer_within};
use crate::call::{Debits, Elsewhere, Renewed, Request};
use crate::failure::StoreError;
use crate::found::Answers;
use crate::plan::Does;
use crate::refusals::Refusals;
use crate::rule::FleetRule;
use crate::store::FleetCharge;
use crate::tally::Tally;
use crate::wire::{self, CallError, LANES_MAX, ScriptCall, Wire};

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Decided(Decided),
    /// Nothing was done: states are kept under former policies.
    Elsewhere {
        judged: Tick,
        kept: Vec<Elsewhere>,
    },
    Renewed(Renewed),
    Debited(Debits),
    /// Whether all of it was given back.
    Refunded(bool),
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
    /// Filled as they are needed, and never emptied: found without a lock.
    lanes: Box<[OnceLock<Arc<ShardQueue>>]>,
    clock: SystemClock,
    /// A clock by which scripts judge instead of asking their server's; for tests.
    judged_by: Option<Arc<dyn Clock>>,
    slack_millis: u64,
    refusals: Refusals,
    hasher: RandomState,
    /// By how many ticks the server's clock is ahead of ours.
    ahead: AtomicI64,
    tally: Tally,
    /// What its connections are on.
    pub(crate) runtime: Handle,
}

/// How a gather is set up.
pub(crate) struct Setup {
    pub(crate) judged_by: Option<Arc<dyn Clock>>,
    pub(crate) slack_millis: u64,
    pub(crate) runtime: Handle,
}

impl Gather {
    pub(crate) fn new(wire: Wire, setup: Setup) -> Gather {
        let lanes_max = if wire.is_cluster() { LANES_MAX } else { 1 };
        Gather {
            wire,
            lanes: (0..lanes_max).map(|_| OnceLock::new()).collect(),
            clock: SystemClock::new(),
            judged_by: setup.judged_by,
            slack_millis: setup.slack_millis,
            refusals: Refusals::new(),
            hasher: RandomState::default(),
            ahead: AtomicI64::new(0),
            tally: Tally::default(),
            runtime: setup.runtime,
        }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many servers are left alone just now.
    pub(crate) fn resting(&self) -> usize {
        self.lanes.iter().filter_map(OnceLock::get).filter(|lane| !lane.is_asked()).count()
    }

    /// Sends a call, and counts how long that takes.
    pub(crate) async fn run(
        &self,
        lane: usize,
        call: ScriptCall,
        deadline: Tick,
    ) -> Result<wire::Reply, CallError> {
        let sent = self.clock.now();
        let result = self.wire.run_one(lane, call, deadline).await;
        self.tally.travels(1, self.clock.now().since(sent));
        result
    }

    /// As `run`, for several calls in one write.
    async fn run_all(
        &self,
        lane: usize,
        calls: Vec<ScriptCall>,
        deadline: Tick,
    ) -> Vec<Result<wire::Reply, CallError>> {
        let (count, sent) = (calls.len(), self.clock.now());
        let results = self.wire.run(lane, calls, Duration::from(deadline.since(sent))).await;
        self.tally.travels(count, self.clock.now().since(sent));
        results
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The clock by which refusals are remembered: our own, or the one that scripts judge by.
    pub(crate) fn now(&self) -> Tick {
        self.judged_by.as_ref().map_or_else(|| self.clock.now(), |clock| clock.now())
    }

    pub(crate) fn slack_millis(&self) -> u64 {
        self.slack_millis
    }

    /// Whether the server that holds `slot` is asked at all just now.
    pub(crate) fn is_asked(&self, slot: u16) -> bool {
        self.lane(self.wire.lane_of(slot)).is_asked()
    }

    /// The server's clock, as far as it is known here.
    pub(crate) fn server_now(&self) -> Tick {
        let now = self.now();
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Span::from_micros(ahead.unsigned_abs());
        if ahead < 0 {
            Tick::from_micros(now.get().saturating_sub(by.get()))
        } else {
            now.after(by)
        }
    }

    /// The tick, by our own clock, by which something is to be done that may take so long.
    pub(crate) fn deadline(&self, within: Span) -> Tick {
        self.clock.now().after(within)
    }

    /// How long there is until then.
    pub(crate) fn left(&self, deadline: Tick) -> Duration {
        Duration::from(deadline.since(self.clock.now()))
    }

    /// Has `request` decided before `deadline`.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request, deadline: Tick) -> Answer {
        let lane = self.lane(self.wire.lane_of(request.slot));
        // A caller that gives up while alone leaves its charge behind; a permit must come back.
        if !lends(&request) && lane.enter_alone(deadline, || self.clock.now())? {
            let turn = Turn::alone(Arc::clone(self), Arc::clone(lane));
            // Large: those who wait need not carry it along.
            return Box::pin(round_trip::alone(self, &turn.lane, &request, deadline)).await;
        }
        self.queue(lane, request, deadline)?.await
    }

    /// Has `request` decided as `ask` does; the answer is waited for later.
    pub(crate) fn submit(
        self: &Arc<Self>,
        request: Request,
        deadline: Tick,
    ) -> Result<impl Future<Output = Answer> + use<>, StoreError> {
        self.queue(self.lane(self.wire.lane_of(request.slot)), request, deadline)
    }

    /// Has somebody else's request answer this one too, if one waits that asks just the same.
    pub(crate) fn join(
        self: &Arc<Self>,
        does: Does,
        charges: &[FleetCharge<'_>],
        deadline: Tick,
    ) -> Option<impl Future<Output = Answer> + use<>> {
        let is_settled = |charge: &FleetCharge<'_>| charge.rule.formers().is_empty();
        if self.wire.is_cluster() || !charges.iter().all(is_settled) {
            return None;
        }
        let lane = self.lane(self.wire.lane_of(0));
        let asked = charges.iter().map(|it| (it.rule, it.key.bytes(), it.cost));
        let hash = self.hash(does, asked);
        let entry = lane.join(hash, deadline, |request| request.asks(does, charges))?;
        Some(self.wanted(lane, entry, deadline))
    }

    /// Puts a request into the queue of its server, and sees to it that somebody takes it.
    fn queue(
        self: &Arc<Self>,
        lane: &Arc<ShardQueue>,
        request: Request,
        deadline: Tick,
    ) -> Result<impl Future<Output = Answer> + use<>, StoreError> {
        let asked = request.limits.iter().map(|it| (&it.rule, it.place.key(), it.cost));
        let hash = self.hash(request.does, asked);
        let entry = lane.enter(hash, request, deadline, || self.clock.now())?;
        Ok(self.wanted(lane, entry, deadline))
    }

    /// The answer to a caller that has entered. A permit is given back if that caller has gone away
    /// meanwhile.
    fn wanted(
        self: &Arc<Self>,
        lane: &Arc<ShardQueue>,
        entry: Entry,
        deadline: Tick,
    ) -> impl Future<Output = Answer> + use<> {
        self.start(lane, entry.start);
        // Calls in front are over by their own deadlines; only if those are later is ours watched.
        let within = entry.behind_slower.then(|| self.left(deadline));
        let gather = lends(entry.waiter.request()).then(|| Arc::clone(self));
        answer_within(Wanted::new(entry.waiter, gather), within)
    }

    /// Hashes what makes requests alike.
    fn hash<'a>(
        &self,
        does: Does,
        limits: impl Iterator<Item = (&'a FleetRule, (&'a [u8], &'a [u8]), u32)>,
    ) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        does.hash(&mut hasher);
        for (rule, (tag, text), cost) in limits {
            hasher.write_usize(rule.address());
            hasher.write(tag);
            hasher.write(text);
            hasher.write_u32(cost);
        }
        hasher.finish()
    }

    /// Starts somebody who takes what waits, if that is needed.
    fn start(self: &Arc<Self>, lane: &Arc<ShardQueue>, start: Start) {
        if start == Start::NotNeeded {
            return;
        }
        let turn = Turn::new(Arc::clone(self), Arc::clone(lane));
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(fly(turn))),
            // Nobody could be started: the turn ends here, and refuses all who wait.
            Err(_) => drop(turn),
        }
    }

    fn lane(&self, number: usize) -> &Arc<ShardQueue> {
        // The wire has no more lanes than there are here.
        self.lanes[number].get_or_init(|| Arc::new(ShardQueue::new(number)))
    }

    /// Learns by how much the server's clock is ahead of ours.
    fn learn(&self, judged: Tick, received: Tick) {
        let signed = |tick: Tick| i64::try_from(tick.get()).unwrap_or(i64::MAX);
        self.ahead.store(signed(judged) - signed(received), Ordering::Relaxed);
    }

    /// Tells the breaker of a server how a call went; who fails too often is connected to anew.
    fn note(&self, lane: &ShardQueue, failed: bool, sent: Tick) {
        let went = if failed { Went::Badly { sent, now: self.clock.now() } } else { Went::Well };
        if lane.note(went, self.hasher.hash_one(sent)) {
            self.wire.reconnect(lane.number());
        }
    }

    /// Takes back what was charged to a request that nobody waits for any more.
    fn give_back(self: &Arc<Self>, request: Request, unheard: Answer) {
        let Ok(Reply::Decided(decided)) = unheard else { return };
        let receipts = decided.answers.into_iter().map(|one| one.receipt);
        for (limit, receipt) in request.limits.into_iter().zip(receipts) {
            let Some(receipt) = receipt.filter(|receipt| 0 < receipt.cost()) else { continue };
            let does = Does::refund(&receipt);
            let limits = std::iter::once(limit).collect();
            let refund = Request { does, slot: request.slot, limits };
            // Whatever becomes of it: it is done once.
            drop(self.submit(refund, self.deadline(GIVE_BACK_WITHIN)));
        }
    }
}

const GIVE_BACK_WITHIN: Span = Span::from_secs(1);

fn no_answer() -> Answer {
    Err(StoreError::Unknown("the task that asked has ended".into()))
}

fn lends(request: &Request) -> bool {
    request.limits.iter().any(|limit| limit.rule.policy().kind() == Kind::Concurrency)
}

/// A turn at a server. Whatever becomes of it, those who wait are taken over by another.
struct Turn {
    gather: Arc<Gather>,
    lane: Arc<ShardQueue>,
    /// How many requests are under way in this turn.
    away: usize,
    /// Whether it ever ran. One that did not will not do so in the hands of another.
    has_begun: bool,
    /// Whether it is that of a caller, not of a task.
    is_alone: bool,
}

impl Turn {
    fn new(gather: Arc<Gather>, lane: Arc<ShardQueue>) -> Turn {
        Turn { gather, lane, away: 0, has_begun: false, is_alone: false }
    }

    /// That of a caller who sends its request itself.
    fn alone(gather: Arc<Gather>, lane: Arc<ShardQueue>) -> Turn {
        Turn { gather, lane, away: 1, has_begun: true, is_alone: true }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.has_begun {
            self.lane.refuse_waiting();
        }
        if self.is_alone {
            self.lane.alone_is_over();
        }
        self.gather.start(&self.lane, self.lane.leave(self.away));
    }
}

/// Waits until all tasks have run that are ready now, on this thread. Unlike Tokio's own way to
/// yield it does not look at the sockets first: nothing that comes in is of use before the next
/// call is sent.
async fn behind_others() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Takes what waits for a server, call after call, until nothing does.
async fn fly(mut turn: Turn) {
    turn.has_begun = true;
    let (gather, lane) = (Arc::clone(&turn.gather), Arc::clone(&turn.lane));
    let mut trip = RoundTrip::begin(&gather, &lane).await;
    let mut outbox = Outbox::default();
    loop {
        // Everybody who is ready to ask does so first, and travels along.
        behind_others().await;
        let Taken { portions, start } =
            lane.take_waiting(turn.away, gather.clock.now(), &mut outbox);
        turn.away = shard_queue::count(&portions);
        gather.start(&lane, start);
        // Callers that are late have waited for long enough, and do not wait for what travels now.
        outbox.wake();
        if portions.is_empty() {
            break;
        }
        trip.take(&portions, &mut outbox).await;
        drop(portions);
        outbox.wake();
        for (party, unheard) in outbox.unheard.drain(..) {
            gather.give_back(party.request.clone(), unheard);
        }
    }
}
