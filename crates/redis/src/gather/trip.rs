//! One trip to a server and back: requests become calls, replies become answers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::RandomState;
use tidegate_core::Tick;

use super::eager::eagerly;
use super::lane::Lane;
use super::{Answer, Decided, Gather, Reply};
use crate::call::{self, Outcome, Request, Run};
use crate::failure::StoreError;
use crate::plan::Does;
use crate::refusals::When;
use crate::told;
use crate::wire::{CallError, ScriptCall};

/// A trip to one server.
pub(super) struct Trip<'a> {
    pub(super) gather: &'a Gather,
    pub(super) lane: &'a Lane,
}

/// One call of a script: requests that are alike are one group.
struct Call {
    slot: u16,
    groups: Vec<Group>,
    /// The requests, by their places: each with its group.
    members: Vec<(usize, usize)>,
}

/// Requests that are alike: the place of the first, and how many they are.
struct Group {
    first: usize,
    count: u32,
    /// How many one count may stand for.
    most: u32,
}

impl Trip<'_> {
    /// Has `requests` decided before `deadline`, and answers each.
    pub(super) async fn take(&self, requests: &[Request], deadline: Tick) -> Vec<Answer> {
        if let [request] = requests {
            return vec![self.take_one(request, deadline).await];
        }
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let mut calls = self.calls(requests);
        let mut is_out = false;
        while !calls.is_empty() {
            let (results, sent, received) = self.run(requests, &calls, deadline).await;
            let mut again = Vec::new();
            for (call, result) in calls.into_iter().zip(results) {
                match result {
                    Ok(reply) => self.read(requests, &call, (&reply, sent, received), &mut answers),
                    // A full server takes no charge, but still refuses: each is asked by itself.
                    Err(error) if error.is_full() && 1 < call.groups.len() => {
                        again.extend(call.apart(requests));
                    }
                    Err(error) => {
                        is_out |= error.is_outage();
                        call.refuse(&StoreError::from(&error), &mut answers);
                    }
                }
            }
            calls = again;
        }
        self.gather.note(self.lane, is_out);
        answers.into_iter().map(|answer| answer.unwrap_or_else(super::no_answer)).collect()
    }

    /// The same for one request: the way of whoever asks alone, without a list of anything.
    async fn take_one(&self, request: &Request, deadline: Tick) -> Answer {
        let gather = self.gather;
        let runs = [Run { request, count: 1 }];
        let now = gather.judged_by.as_ref().map(|clock| clock.now());
        let call = call::write(&runs, request.slot, now, gather.slack_millis);
        let sent = gather.now();
        let result = gather.run(self.lane.number(), vec![call], deadline).await.pop();
        let received = gather.now();
        let is_outage = matches!(&result, Some(Err(error)) if error.is_outage());
        gather.note(self.lane, is_outage);
        let reply = match result {
            None => return super::no_answer(),
            Some(Err(error)) => return Err(StoreError::from(&error)),
            Some(Ok(reply)) => reply,
        };
        let Ok((judged, mut outcomes)) = call::read(&runs, &reply) else { return garbled() };
        let Some(outcome) = outcomes.pop() else { return garbled() };
        gather.learn(judged, received);
        Teller { outcome, told: 0 }.next(gather, request, When { judged, sent, received })
    }

    /// Sends all calls in one write; the replies, and the ticks between which they were made.
    async fn run(
        &self,
        requests: &[Request],
        calls: &[Call],
        deadline: Tick,
    ) -> (Vec<Result<redis::Value, CallError>>, Tick, Tick) {
        let gather = self.gather;
        let scripts = calls.iter().map(|call| self.script(requests, call)).collect();
        let sent = gather.now();
        let run = gather.run(self.lane.number(), scripts, deadline);
        let (results, waited) =
            eagerly(run, requests.len(), self.lane.eagerness(), gather.clock).await;
        self.lane.learn(waited, are_alike(calls, requests.len()));
        (results, sent, gather.now())
    }

    fn script(&self, requests: &[Request], call: &Call) -> ScriptCall {
        let now = self.gather.judged_by.as_ref().map(|clock| clock.now());
        call::write(&call.runs(requests), call.slot, now, self.gather.slack_millis)
    }

    /// One call for all; in a cluster one for each group, because a call with several keys cannot
    /// be answered while their slot moves.
    fn calls(&self, requests: &[Request]) -> Vec<Call> {
        let call = self.grouped(requests);
        if self.gather.wire.is_cluster() { call.apart(requests) } else { vec![call] }
    }

    /// One call of all requests: what is alike is one group.
    fn grouped(&self, requests: &[Request]) -> Call {
        let members = Vec::with_capacity(requests.len());
        let mut call = Call { slot: 0, groups: Vec::new(), members };
        let hasher = &self.gather.hasher;
        let mut known: HashMap<u64, usize, RandomState> =
            HashMap::with_capacity_and_hasher(requests.len(), hasher.clone());
        for (place, request) in requests.iter().enumerate() {
            let hash = hasher.hash_one(Alike(request));
            let group = known.get(&hash).copied().filter(|&group| {
                let Group { first, count, most } = call.groups[group];
                count < most && requests[first].is_like(request)
            });
            let group = group.unwrap_or_else(|| {
                known.insert(hash, call.groups.len());
                call.groups.push(Group { first: place, count: 0, most: request.most_alike() });
                call.groups.len() - 1
            });
            call.groups[group].count += 1;
            call.members.push((place, group));
        }
        call
    }

    /// Tells every request of a call what its reply means.
    fn read(
        &self,
        requests: &[Request],
        call: &Call,
        (reply, sent, received): (&redis::Value, Tick, Tick),
        answers: &mut [Option<Answer>],
    ) {
        let Ok((judged, outcomes)) = call::read(&call.runs(requests), reply) else {
            for &(place, _) in &call.members {
                answers[place] = Some(garbled());
            }
            return;
        };
        self.gather.learn(judged, received);
        let when = When { judged, sent, received };
        let mut tellers: Vec<Teller<'_>> =
            outcomes.into_iter().map(|outcome| Teller { outcome, told: 0 }).collect();
        for &(place, group) in &call.members {
            answers[place] = Some(tellers[group].next(self.gather, &requests[place], when));
        }
    }
}

/// Whether a few keys are all that many requests ask about.
fn are_alike(calls: &[Call], requests: usize) -> bool {
    calls.iter().map(|call| call.groups.len()).sum::<usize>() * 4 <= requests
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
            Outcome::Decided { passed, found } => {
                let (verdict, answers) = match request.does {
                    Does::Decide => told::decide(found, judged),
                    _ => told::peek(found, judged),
                };
                if request.does.judges() && verdict.passes() != (place < *passed) {
                    return Err(StoreError::Damaged("script and core do not agree on it".into()));
                }
                // The first that is refused will do for all that are alike.
                if !verdict.passes() && place == *passed {
                    gather.refusals.remember(request, found, when);
                }
                Ok(Reply::Decided(Decided { verdict, answers }))
            }
        }
    }
}

impl Call {
    fn runs<'a>(&self, requests: &'a [Request]) -> Vec<Run<'a>> {
        let run = |group: &Group| Run { request: &requests[group.first], count: group.count };
        self.groups.iter().map(run).collect()
    }

    /// A call for each group.
    fn apart(self, requests: &[Request]) -> Vec<Call> {
        let alone = |group: Group| Call {
            slot: requests[group.first].slot,
            groups: vec![group],
            members: Vec::new(),
        };
        let mut calls: Vec<Call> = self.groups.into_iter().map(alone).collect();
        for (place, group) in self.members {
            calls[group].members.push((place, 0));
        }
        calls
    }

    fn refuse(&self, error: &StoreError, answers: &mut [Option<Answer>]) {
        for &(place, _) in &self.members {
            answers[place] = Some(Err(error.clone()));
        }
    }
}

/// Hashes what makes requests alike.
struct Alike<'a>(&'a Request);

impl Hash for Alike<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.does.hash(state);
        for limit in &self.0.limits {
            limit.place.name.hash(state);
            limit.cost.hash(state);
        }
    }
}
