//! Calls of the script: many requests in, an answer to each out.

mod read;

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use tidegate_core::{Shape, Tick};

pub(crate) use self::read::{Debits, Elsewhere, Outcome, Renewed, read};
use crate::flat::{Flat, Sink};
use crate::plan::{self, Does};
use crate::rule::{FleetRule, Former, Place};
use crate::script::{self, DECIDE, Form};
use crate::store::FleetCharge;
use crate::wire::ScriptCall;

/// One limit of a request: which key it counts, where, and how many cells.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) rule: FleetRule,
    pub(crate) place: Place,
    pub(crate) cost: u32,
    /// How many former policies may still have left a state.
    pub(crate) formers: usize,
}

impl Limit {
    /// The former policies that may still have left a state, latest first.
    pub(crate) fn formers(&self) -> &[Former] {
        &self.rule.formers()[..self.formers]
    }
}

/// The limits of a request: mostly one.
pub(crate) type Limits = SmallVec<[Limit; 1]>;

/// A request, judged by all its limits or by none.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) does: Does,
    /// Where in a cluster all its keys are.
    pub(crate) slot: u16,
    pub(crate) limits: Limits,
}

/// A request, and how many like it are decided together.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) request: &'a Request,
    pub(crate) count: u32,
}

impl Request {
    /// Whether both ask for the same thing on the same keys.
    pub(crate) fn is_like(&self, other: &Request) -> bool {
        let alike = |(a, b): (&Limit, &Limit)| {
            a.cost == b.cost && a.formers == b.formers && a.place == b.place && a.rule.is(&b.rule)
        };
        self.does == other.does
            && self.limits.len() == other.limits.len()
            && self.limits.iter().zip(&other.limits).all(alike)
    }

    /// Whether it asks just this, by rules that never had another policy.
    pub(crate) fn asks(&self, does: Does, charges: &[FleetCharge<'_>]) -> bool {
        let alike = |(limit, charge): (&Limit, &FleetCharge<'_>)| {
            limit.cost == charge.cost
                && limit.formers == 0
                && limit.rule.is(charge.rule)
                && limit.place.is_of(charge.key)
        };
        self.does == does
            && self.limits.len() == charges.len()
            && self.limits.iter().zip(charges).all(alike)
    }

    /// Whether both are judged by one and the same key.
    pub(crate) fn shares_a_place(&self, other: &Request) -> bool {
        let is_of = |place: &Place| other.limits.iter().any(|limit| limit.place == *place);
        self.limits.iter().any(|limit| is_of(&limit.place))
    }

    /// Whether two of its limits are the same key: a script would charge only one of them.
    pub(crate) fn names_one_twice(&self) -> bool {
        let is_before = |(index, limit): (usize, &Limit)| {
            self.limits[..index].iter().any(|before| before.place == limit.place)
        };
        self.limits.iter().enumerate().any(is_before)
    }

    /// How many alike one count may stand for.
    pub(crate) fn most_alike(&self) -> u32 {
        let most = |limit: &Limit| plan::most_alike(limit.rule.policy(), limit.cost);
        if let Does::Decide | Does::Peek = self.does {
            self.limits.iter().map(most).min().unwrap_or(1)
        } else {
            1
        }
    }
}

/// The call that decides `runs`, whose keys all live in `slot`.
///
/// `now` is for tests that bring their own clock.
pub(crate) fn write(
    runs: &[Run<'_>],
    slot: u16,
    now: Option<Tick>,
    slack_millis: u64,
) -> ScriptCall {
    let limits = || runs.iter().flat_map(|run| &run.request.limits);
    let keys = limits().map(|limit| 1 + limit.formers).sum();
    let bytes = limits().map(|limit| (1 + limit.formers) * limit.place.name.len()).sum();
    let simple = simple(runs);
    let plans = if simple.is_none() { Some(Plans::of(runs)) } else { None };
    let form = match (&plans, simple) {
        (None, Some(limit)) => simple_form(limit.rule.policy().shape(), runs),
        (Some(plans), _) => plans.form(),
        (None, None) => Form::Mixed,
    };
    // Of several runs the earlier is over: then nothing of the call is sent.
    let run = runs.iter().filter_map(|run| run.request.does.run()).min();
    let mut call = ScriptCall::new(DECIDE.script(form), slot, keys, bytes).only_in(run);
    for limit in limits() {
        call.push(&limit.place.name);
        for former in limit.formers() {
            call.push(&limit.place.former(former));
        }
    }
    if let (Form::WholeLine, Some(limit)) = (form, simple) {
        write_whole(&mut call, limit, runs, now.map(|now| (now, slack_millis)));
        return call;
    }
    match now {
        Some(now) => call.number(now.get()),
        None => call.push(b""),
    }
    call.number(slack_millis);
    if let Some(limit) = simple {
        write_simple(&mut call, limit, runs);
    }
    if let Some(plans) = plans {
        plans.write(&mut call);
    }
    call
}

/// The limit by which all requests are decided, if they differ in their keys only.
fn simple<'a>(runs: &[Run<'a>]) -> Option<&'a Limit> {
    let first = runs.first()?.request.limits.first()?;
    let is_simple = |run: &Run<'_>| {
        let [limit] = &run.request.limits[..] else { return false };
        run.request.does == Does::Decide
            && limit.cost == first.cost
            && limit.rule.is(&first.rule)
            && limit.formers == 0
    };
    let is_plain = 0 < first.cost && !plan::charges_refusals(first.rule.policy());
    (is_plain && runs.iter().all(is_simple)).then_some(first)
}

fn simple_form(shape: Shape, runs: &[Run<'_>]) -> Form {
    match shape {
        Shape::Line(grains) if script::is_narrow(shape) => {
            if script::is_whole(&grains) && are_distinct(runs) {
                Form::WholeLine
            } else {
                Form::NarrowLine
            }
        }
        _ => Form::Simple(shape),
    }
}

/// Whether no key is asked about by two of them. `whole_line.lua` reads all states before it writes
/// the first.
fn are_distinct(runs: &[Run<'_>]) -> bool {
    if runs.len() < 2 {
        return true;
    }
    let names = runs.iter().flat_map(|run| &run.request.limits).map(|limit| &limit.place.name);
    // Two that are alike have one hash; two that have one hash may as well count as alike.
    let state = FixedState::default();
    let mut hashes: SmallVec<[u64; 64]> = names.map(|name| state.hash_one(&**name)).collect();
    hashes.sort_unstable();
    hashes.windows(2).all(|pair| pair[0] != pair[1])
}

/// What `whole_line.lua` reads; the clock and the slack only where a test tells them.
fn write_whole(call: &mut ScriptCall, limit: &Limit, runs: &[Run<'_>], told: Option<(Tick, u64)>) {
    if let Shape::Line(grains) = limit.rule.policy().shape() {
        plan::write_whole(call, &grains, limit.cost);
    }
    if told.is_some() || runs.iter().any(|run| run.count != 1) {
        for run in runs {
            call.number(run.count.into());
        }
    }
    if let Some((now, slack_millis)) = told {
        call.number(now.get());
        call.number(slack_millis);
    }
}

/// What `simple.lua` and `narrow_line.lua` read.
fn write_simple(call: &mut ScriptCall, limit: &Limit, runs: &[Run<'_>]) {
    match limit.rule.policy().shape() {
        shape @ Shape::Line(grains) if script::is_narrow(shape) => {
            plan::write_narrow(call, &grains, limit.cost);
        }
        shape => {
            call.number(limit.cost.into());
            plan::write_shape(call, shape, Does::Decide, limit.cost);
        }
    }
    if runs.iter().any(|run| run.count != 1) {
        for run in runs {
            call.number(run.count.into());
        }
    }
}

/// What `decide.lua` reads: the distinct plans, and the requests by their plans' places.
#[derive(Default)]
struct Plans<'a> {
    known: Vec<(&'a FleetRule, Does, u32, usize)>,
    fields: Flat,
    requests: Flat,
}

impl<'a> Plans<'a> {
    fn of(runs: &[Run<'a>]) -> Plans<'a> {
        let mut plans = Plans::default();
        for Run { request, count } in runs {
            plans.requests.number((*count).into());
            plans.requests.number(request.limits.len() as u64);
            for limit in &request.limits {
                let place = plans.place(request.does, limit);
                plans.requests.number(place as u64);
            }
        }
        plans
    }

    /// The place of a limit's plan, from one.
    fn place(&mut self, does: Does, limit: &'a Limit) -> usize {
        let Limit { rule, cost, formers, .. } = limit;
        let is_it = |(known, did, had, found): &(&FleetRule, Does, u32, usize)| {
            known.is(rule) && *did == does && had == cost && found == formers
        };
        if let Some(place) = self.known.iter().position(is_it) {
            return place + 1;
        }
        plan::write(&mut self.fields, rule.policy(), does, *cost, *formers);
        self.known.push((rule, does, *cost, *formers));
        self.known.len()
    }

    fn form(&self) -> Form {
        let mut shapes = self.known.iter().map(|(rule, ..)| rule.policy().shape());
        let Some(first) = shapes.next() else { return Form::Mixed };
        let is_one = shapes.all(|shape| script::number(shape) == script::number(first));
        if is_one { Form::Of(first) } else { Form::Mixed }
    }

    fn write(&self, call: &mut ScriptCall) {
        call.number(self.known.len() as u64);
        self.fields.iter().chain(self.requests.iter()).for_each(|field| call.push(field));
    }
}
