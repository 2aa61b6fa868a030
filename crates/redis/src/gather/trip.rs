//! One trip to a server and back: requests become calls, replies become answers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::Tick;
use tidegate_store::Clock;

use super::lane::Lane;
use super::{Answer, Decided, Gather, Reply};
use crate::call::{self, Outcome, Request, Run};
use crate::failure::StoreError;
use crate::plan::Does;
use crate::refusals::When;
use crate::script::DECIDE;
use crate::told;
use crate::wire::ScriptCall;

/// A trip to one server.
pub(super) struct Trip<'a> {
    pub(super) gather: &'a Gather,
    pub(super) lane: &'a Lane,
}

/// One call of a script: the groups of requests that are alike, by their places.
struct Call {
    slot: u16,
    groups: Vec<Vec<usize>>,
}

impl Trip<'_> {
    /// Has `requests` decided before `deadline`, and answers each.
    pub(super) async fn take(&self, requests: &[Request], deadline: Tick) -> Vec<Answer> {
        let gather = self.gather;
        let calls = self.calls(requests);
        let scripts = calls.iter().map(|call| self.script(requests, call)).collect();
        let sent = gather.now();
        let within = Duration::from(deadline.since(gather.clock.now()));
        let results = gather.wire.run(self.lane.number(), scripts, within).await;
        let received = gather.now();
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let mut failed = false;
        for (call, result) in calls.iter().zip(&results) {
            match result {
                Ok(reply) => self.read(requests, call, (reply, sent, received), &mut answers),
                Err(error) => {
                    failed = true;
                    let error = StoreError::from(error);
                    call.places().for_each(|place| answers[place] = Some(Err(error.clone())));
                }
            }
        }
        gather.note(self.lane, failed);
        answers.into_iter().map(|answer| answer.unwrap_or_else(super::no_answer)).collect()
    }

    fn script(&self, requests: &[Request], call: &Call) -> ScriptCall {
        let now = self.gather.judged_by.as_ref().map(|clock| clock.now());
        let written = call::write(&call.runs(requests), now, self.gather.slack_millis);
        ScriptCall::of(DECIDE.script(written.form), call.slot, &written.keys, &written.args)
    }

    /// In a cluster one call for each slot; otherwise one for all.
    fn calls(&self, requests: &[Request]) -> Vec<Call> {
        let groups = self.groups(requests);
        if !self.gather.wire.is_cluster() {
            return vec![Call { slot: 0, groups }];
        }
        let mut calls: Vec<Call> = Vec::new();
        let mut by_slot: HashMap<u16, usize, RandomState> =
            HashMap::with_hasher(self.gather.hasher.clone());
        for group in groups {
            let slot = requests[group[0]].slot;
            let call = *by_slot.entry(slot).or_insert_with(|| {
                calls.push(Call { slot, groups: Vec::new() });
                calls.len() - 1
            });
            calls[call].groups.push(group);
        }
        calls
    }

    /// The places of requests that are alike, in the order in which the first of each came.
    fn groups(&self, requests: &[Request]) -> Vec<Vec<usize>> {
        if let [_] = requests {
            return vec![vec![0]];
        }
        let hasher = &self.gather.hasher;
        let mut groups: Vec<Vec<usize>> = Vec::with_capacity(requests.len());
        let mut known: HashMap<u64, usize, RandomState> =
            HashMap::with_capacity_and_hasher(requests.len(), hasher.clone());
        for (place, request) in requests.iter().enumerate() {
            let hash = hasher.hash_one(Alike(request));
            let group = known.get(&hash).copied().filter(|&group| {
                let first = &requests[groups[group][0]];
                groups[group].len() < first.most_alike() as usize && first.is_like(request)
            });
            if let Some(group) = group {
                groups[group].push(place);
            } else {
                known.insert(hash, groups.len());
                groups.push(vec![place]);
            }
        }
        groups
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
            let error = StoreError::Unknown("the answer cannot be understood".into());
            call.places().for_each(|place| answers[place] = Some(Err(error.clone())));
            return;
        };
        let when = When { judged, sent, received };
        for (group, outcome) in call.groups.iter().zip(outcomes) {
            let request = &requests[group[0]];
            let mut tell = self.teller(request, outcome, when);
            for (index, &place) in group.iter().enumerate() {
                answers[place] = Some(tell(index));
            }
        }
    }

    /// What to tell the first, the second and all other requests that are alike.
    fn teller<'a>(
        &'a self,
        request: &'a Request,
        outcome: Outcome<'a>,
        when: When,
    ) -> Box<dyn FnMut(usize) -> Answer + 'a> {
        let judged = when.judged;
        match outcome {
            Outcome::Unreadable(why) => {
                let why: Arc<str> = why.into();
                Box::new(move |_| Err(StoreError::Damaged(Arc::clone(&why))))
            }
            // One of them carries the states over; the others find them when they ask again.
            Outcome::Elsewhere(kept) => {
                let mut kept = Some(kept);
                Box::new(move |_| {
                    Ok(Reply::Elsewhere { judged, kept: kept.take().unwrap_or_default() })
                })
            }
            Outcome::Decided { passed, mut found } => {
                let mut is_remembered = false;
                Box::new(move |index| {
                    let (verdict, answers) = match request.does {
                        Does::Decide => told::decide(&mut found, judged),
                        _ => told::peek(&mut found, judged),
                    };
                    let by_script = index < passed as usize;
                    if request.does.judges() && verdict.passes() != by_script {
                        let why = "script and core do not agree on it".into();
                        return Err(StoreError::Damaged(why));
                    }
                    if !verdict.passes() && !is_remembered {
                        is_remembered = true;
                        self.gather.refusals.remember(request, &found, when);
                    }
                    Ok(Reply::Decided(Decided { verdict, answers }))
                })
            }
        }
    }
}

impl Call {
    fn runs<'a>(&self, requests: &'a [Request]) -> Vec<Run<'a>> {
        let run = |group: &Vec<usize>| Run {
            request: &requests[group[0]],
            count: u32::try_from(group.len()).unwrap_or(u32::MAX),
        };
        self.groups.iter().map(run).collect()
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().flatten().copied()
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
