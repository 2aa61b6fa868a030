//! Requests that are in flight together travel together.
//!
//! Whoever asks puts its request into the queue of the server that holds its key. One task a server
//! takes all that wait, makes one call of them, and hands out the answers; meanwhile the next ones
//! gather. Nothing waits on purpose: a single request goes out at once, and under load calls grow by
//! themselves. Requests that are alike are decided by one count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use tidegate_core::{Span, Tick, Verdict};
use tidegate_store::{Clock, SystemClock};
use tokio::sync::oneshot;

use crate::breaker::{Breaker, Permission};
use crate::call::{self, Elsewhere, Outcome, Request, Run};
use crate::failure::StoreError;
use crate::plan::Does;
use crate::refusals::{Refusals, When};
use crate::script::DECIDE;
use crate::told::{self, Answers};
use crate::wire::{ScriptCall, Wire};

/// The most requests that wait for one server; the next is refused at once.
const WAITING_MAX: usize = 16_384;
/// The most requests in one call: a server is kept from others for half a millisecond at most.
const CALL_MAX: usize = 128;

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

type Answer = Result<Reply, StoreError>;

/// A request that waits, and who waits for it.
struct Job {
    request: Request,
    deadline: Tick,
    is_probe: bool,
    answer: oneshot::Sender<Answer>,
}

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

/// The queue of one server.
struct Lane {
    number: usize,
    state: Mutex<LaneState>,
}

struct LaneState {
    waiting: Vec<Job>,
    /// Whether a task is at work that will take what waits.
    flying: bool,
    breaker: Breaker,
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

    pub(crate) fn slack_millis(&self) -> u64 {
        self.slack_millis
    }

    /// Whether the server that holds `slot` is asked at all just now.
    pub(crate) fn is_asked(&self, slot: u16) -> bool {
        self.lane(self.wire.lane_of(slot)).lock().breaker.is_closed()
    }

    /// Has `request` decided, and waits for it for no longer than `within`.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request, within: Duration) -> Answer {
        self.submit(request, within)?.await
    }

    /// The same, to be waited for later.
    pub(crate) fn submit(
        self: &Arc<Self>,
        request: Request,
        within: Duration,
    ) -> Result<impl Future<Output = Answer> + use<>, StoreError> {
        let lane = self.lane(self.wire.lane_of(request.slot));
        let (answer, answered) = oneshot::channel();
        let now = self.clock.now();
        let deadline = now.after(Span::from(within));
        let start = {
            let mut state = lane.lock();
            let is_probe = match state.breaker.permit(now) {
                Permission::Ask => false,
                Permission::Probe => true,
                Permission::Refused { retry_after } => {
                    return Err(StoreError::Resting { retry_after });
                }
            };
            if WAITING_MAX <= state.waiting.len() {
                return Err(StoreError::Busy);
            }
            state.waiting.push(Job { request, deadline, is_probe, answer });
            !std::mem::replace(&mut state.flying, true)
        };
        if start {
            let flight = Flight { gather: Arc::clone(self), lane };
            tokio::spawn(flight.fly());
        }
        let ended = || Err(StoreError::Unknown("the task that asks has ended".into()));
        Ok(async move { answered.await.unwrap_or_else(|_| ended()) })
    }

    fn lane(&self, number: usize) -> Arc<Lane> {
        if let Some(lane) = read(&self.lanes).get(number) {
            return Arc::clone(lane);
        }
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        while lanes.len() <= number {
            let number = lanes.len();
            lanes.push(Arc::new(Lane::new(number)));
        }
        Arc::clone(&lanes[number])
    }
}

fn read(lanes: &RwLock<Vec<Arc<Lane>>>) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Lane>>> {
    lanes.read().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    fn new(number: usize) -> Lane {
        let state = LaneState { waiting: Vec::new(), flying: false, breaker: Breaker::new() };
        Lane { number, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that takes what waits for one server, call after call.
struct Flight {
    gather: Arc<Gather>,
    lane: Arc<Lane>,
}

impl Flight {
    async fn fly(self) {
        // Should it ever panic, whoever comes next starts another.
        let landing = Landing { lane: &self.lane };
        loop {
            // Everybody who is ready to ask does so first, and travels along.
            tokio::task::yield_now().await;
            let jobs = {
                let mut state = self.lane.lock();
                if state.waiting.is_empty() {
                    state.flying = false;
                    break;
                }
                take(&mut state.waiting)
            };
            self.call(jobs).await;
        }
        std::mem::forget(landing);
    }

    async fn call(&self, jobs: Vec<Job>) {
        let (started, sent) = (self.gather.clock.now(), self.gather.now());
        let in_time = |job| in_time(job, started);
        let mut jobs: Vec<Job> = jobs.into_iter().filter_map(in_time).collect();
        let Some(deadline) = jobs.iter().map(|job| job.deadline).min() else { return };
        let groups = self.group(&jobs);
        let calls: Vec<Call> = self.calls(&jobs, groups);
        let scripts = calls.iter().map(|call| self.script(&jobs, call)).collect();
        let within = Duration::from(deadline.since(started));
        let results = self.gather.wire.run(self.lane.number, scripts, within).await;
        let received = self.gather.now();
        let mut answers: Vec<Option<Answer>> = jobs.iter().map(|_| None).collect();
        let mut failed = false;
        for (call, result) in calls.iter().zip(&results) {
            match result {
                Ok(reply) => self.read(&jobs, call, reply, (sent, received), &mut answers),
                Err(error) => {
                    failed = true;
                    let error = StoreError::from(error);
                    call.jobs().for_each(|job| answers[job] = Some(Err(error.clone())));
                }
            }
        }
        self.note(failed, self.gather.clock.now());
        for (job, answer) in jobs.drain(..).zip(answers) {
            let answer = answer.unwrap_or(Err(StoreError::Unknown("no answer".into())));
            if let Err(unheard) = job.answer.send(answer) {
                self.give_back(job.request, unheard);
            }
        }
    }

    /// Tells the breaker; whoever fails too often is connected to anew.
    fn note(&self, failed: bool, now: Tick) {
        let mut state = self.lane.lock();
        if failed {
            let opened = state.breaker.failed(now, self.gather.hasher.hash_one(now));
            drop(state);
            if opened {
                self.gather.wire.reconnect(self.lane.number);
            }
        } else {
            state.breaker.succeeded();
        }
    }

    /// Takes back what was charged to a request that nobody waits for any more.
    fn give_back(&self, request: Request, unheard: Answer) {
        let Ok(Reply::Decided(decided)) = unheard else { return };
        let receipts = decided.answers.into_iter().map(|one| one.receipt);
        for (limit, receipt) in request.limits.into_iter().zip(receipts) {
            let Some(receipt) = receipt.filter(|receipt| 0 < receipt.cost()) else { continue };
            let does = Does::Refund { at: receipt.at() };
            let limits = std::iter::once(limit).collect();
            let refund = Request { does, slot: request.slot, limits };
            let gather = Arc::clone(&self.gather);
            tokio::spawn(async move { gather.ask(refund, GIVE_BACK_WITHIN).await.map(drop) });
        }
    }

    /// Jobs that are alike, by their place in the list; in the order in which the first of each came.
    fn group(&self, jobs: &[Job]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::with_capacity(jobs.len());
        let mut known: HashMap<u64, usize, RandomState> =
            HashMap::with_capacity_and_hasher(jobs.len(), self.gather.hasher.clone());
        for (index, job) in jobs.iter().enumerate() {
            let hash = self.gather.hasher.hash_one(Alike(&job.request));
            let group = known.get(&hash).copied().filter(|&group| {
                let first = &jobs[groups[group][0]].request;
                groups[group].len() < first.most_alike() as usize && first.is_like(&job.request)
            });
            if let Some(group) = group {
                groups[group].push(index);
            } else {
                known.insert(hash, groups.len());
                groups.push(vec![index]);
            }
        }
        groups
    }

    /// In a cluster one call for each slot; otherwise one for all.
    fn calls(&self, jobs: &[Job], groups: Vec<Vec<usize>>) -> Vec<Call> {
        if !self.gather.wire.is_cluster() {
            return vec![Call { slot: 0, groups }];
        }
        let mut calls: Vec<Call> = Vec::new();
        let mut by_slot: HashMap<u16, usize, RandomState> =
            HashMap::with_hasher(self.gather.hasher.clone());
        for group in groups {
            let slot = jobs[group[0]].request.slot;
            let call = *by_slot.entry(slot).or_insert_with(|| {
                calls.push(Call { slot, groups: Vec::new() });
                calls.len() - 1
            });
            calls[call].groups.push(group);
        }
        calls
    }

    fn script(&self, jobs: &[Job], call: &Call) -> ScriptCall {
        let now = self.gather.judged_by.as_ref().map(|clock| clock.now());
        let written = call::write(&call.runs(jobs), now, self.gather.slack_millis);
        let script = DECIDE.script(written.form);
        ScriptCall::of(script, call.slot, &written.keys, &written.args)
    }

    fn read(
        &self,
        jobs: &[Job],
        call: &Call,
        reply: &redis::Value,
        (sent, received): (Tick, Tick),
        answers: &mut [Option<Answer>],
    ) {
        let Ok((judged, outcomes)) = call::read(&call.runs(jobs), reply) else {
            let error = StoreError::Unknown("the answer cannot be understood".into());
            call.jobs().for_each(|job| answers[job] = Some(Err(error.clone())));
            return;
        };
        let when = When { judged, sent, received };
        for (group, outcome) in call.groups.iter().zip(outcomes) {
            let request = &jobs[group[0]].request;
            let mut tell = |place: usize, answer| answers[group[place]] = Some(answer);
            match outcome {
                Outcome::Unreadable(why) => {
                    let why: Arc<str> = why.into();
                    let error = || Err(StoreError::Damaged(Arc::clone(&why)));
                    (0..group.len()).for_each(|place| tell(place, error()));
                }
                // One of them carries the states over; the others find them when they ask again.
                Outcome::Elsewhere(kept) => {
                    let mut kept = Some(kept);
                    for place in 0..group.len() {
                        let kept = kept.take().unwrap_or_default();
                        tell(place, Ok(Reply::Elsewhere { judged, kept }));
                    }
                }
                Outcome::Decided { passed, mut found } => {
                    let mut is_remembered = false;
                    for place in 0..group.len() {
                        let (verdict, one) = if request.does == Does::Decide {
                            told::decide(&mut found, judged)
                        } else {
                            told::peek(&mut found, judged)
                        };
                        let agreed =
                            !request.does.judges() || verdict.passes() == (place < passed as usize);
                        if !agreed {
                            let why = "script and core do not agree on it".into();
                            tell(place, Err(StoreError::Damaged(why)));
                            continue;
                        }
                        if !verdict.passes() && !is_remembered {
                            is_remembered = true;
                            self.gather.refusals.remember(request, &found, when);
                        }
                        let decided = Decided { verdict, answers: one };
                        tell(place, Ok(Reply::Decided(decided)));
                    }
                }
            }
        }
    }
}

const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);

/// One call of the script: groups of jobs that are alike.
struct Call {
    slot: u16,
    groups: Vec<Vec<usize>>,
}

impl Call {
    fn runs<'a>(&self, jobs: &'a [Job]) -> Vec<Run<'a>> {
        let run = |group: &Vec<usize>| Run {
            request: &jobs[group[0]].request,
            count: u32::try_from(group.len()).unwrap_or(u32::MAX),
        };
        self.groups.iter().map(run).collect()
    }

    fn jobs(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().flatten().copied()
    }
}

/// What the next call takes of those that wait: a probe goes alone.
fn take(waiting: &mut Vec<Job>) -> Vec<Job> {
    let probe = waiting.iter().position(|job| job.is_probe);
    match probe {
        Some(index) => vec![waiting.swap_remove(index)],
        None if CALL_MAX < waiting.len() => waiting.drain(..CALL_MAX).collect(),
        None => std::mem::take(waiting),
    }
}

/// Refuses a job that has waited for too long; it was never sent.
fn in_time(job: Job, now: Tick) -> Option<Job> {
    if now < job.deadline {
        return Some(job);
    }
    let late = StoreError::NotCharged("it was not sent within its deadline".into());
    let _ = job.answer.send(Err(late));
    None
}

/// Lets another task start after this one ended in a panic.
struct Landing<'a> {
    lane: &'a Lane,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.lane.lock().flying = false;
    }
}

/// Hashes what makes requests alike.
struct Alike<'a>(&'a Request);

impl Hash for Alike<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.does.hash(state);
        for limit in &self.0.limits {
            limit.place.name.hash(state);
            limit.cost.hash(state);
        }
    }
}
