//! Calls of the script: many requests in, an answer to each out.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Receipt, Shape, Tick};

use crate::flat::{Flat, Sink};
use crate::plan::{self, Does};
use crate::rule::{FleetRule, Former, Place};
use crate::script::{self, DECIDE, Form};
use crate::store::FleetCharge;
use crate::told::{Found, Told};
use crate::wire::ScriptCall;

/// One limit of a request: whom it counts, where, and how many cells.
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
    /// Whether both ask the same of the same keys.
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
        (None, Some(limit)) => simple_form(limit.rule.policy().shape()),
        (Some(plans), _) => plans.form(),
        (None, None) => Form::Mixed,
    };
    let mut call = ScriptCall::new(DECIDE.script(form), slot, keys, bytes);
    for limit in limits() {
        call.push(&limit.place.name);
        for former in limit.formers() {
            call.push(&limit.place.former(former));
        }
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
    let is_plain = 0 < first.cost;
    (is_plain && runs.iter().all(is_simple)).then_some(first)
}

fn simple_form(shape: Shape) -> Form {
    match shape {
        Shape::Line(grains) if script::is_narrow(shape) => {
            if script::is_whole(&grains) {
                Form::WholeLine
            } else {
                Form::NarrowLine
            }
        }
        _ => Form::Simple(shape),
    }
}

/// What `simple.lua`, `narrow_line.lua` and `whole_line.lua` read.
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

/// What became of one run.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// So many passed; what was found before, limit by limit.
    Decided { passed: u32, found: SmallVec<[Found<'a>; 1]> },
    /// Nothing was done: states are kept under former policies.
    Elsewhere(Vec<Elsewhere>),
    /// Permits were renewed: the receipt of each; nothing for one that has lapsed.
    Renewed(Renewed),
    /// Nothing was done: a state cannot be read.
    Unreadable(String),
}

/// The receipts of renewed permits, limit by limit; nothing for one that has lapsed.
pub(crate) type Renewed = SmallVec<[Option<Receipt>; 1]>;

/// A state that is kept under a former policy.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// Which limit's it is.
    pub(crate) limit: usize,
    /// Which of its former policies wrote it.
    pub(crate) former: usize,
    pub(crate) value: Vec<u8>,
}

/// The answer to a call that cannot be understood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Garbled;

/// Reads the reply to a call of `runs`: the tick at which it was judged, and each run's outcome.
pub(crate) fn read<'a>(
    runs: &[Run<'a>],
    reply: &Value,
) -> Result<(Tick, Vec<Outcome<'a>>), Garbled> {
    let Value::Array(items) = reply else { return Err(Garbled) };
    if let Some(Value::BulkString(_)) = items.first() {
        return read_short(runs, items);
    }
    let mut items = items.iter();
    let now = u64::try_from(number(items.next())?).map_err(|_| Garbled)?;
    let mut outcomes = Vec::with_capacity(runs.len());
    for run in runs {
        let passed = number(items.next())?;
        outcomes.push(outcome(run, passed, &mut items)?);
    }
    Ok((Tick::from_micros(now), outcomes))
}

/// The same of `whole_line.lua`: it says how many passed only if some did not.
fn read_short<'a>(runs: &[Run<'a>], items: &[Value]) -> Result<(Tick, Vec<Outcome<'a>>), Garbled> {
    let [seconds, ticks, items @ ..] = items else { return Err(Garbled) };
    let now = decimal(seconds)?
        .checked_mul(1_000_000)
        .and_then(|it| it.checked_add(decimal(ticks).ok()?));
    if items.len() != runs.len() {
        return Err(Garbled);
    }
    let mut outcomes = Vec::with_capacity(runs.len());
    for (run, item) in runs.iter().zip(items) {
        let (passed, found) = match item {
            Value::Array(pair) => match &pair[..] {
                [Value::Int(passed), found] => (*passed, found),
                _ => return Err(Garbled),
            },
            found => (run.count.into(), found),
        };
        outcomes.push(outcome(run, passed, &mut std::slice::from_ref(found).iter())?);
    }
    Ok((Tick::from_micros(now.ok_or(Garbled)?), outcomes))
}

/// What became of a run of which so many passed, limit by limit.
fn outcome<'a>(
    run: &Run<'a>,
    passed: i64,
    items: &mut std::slice::Iter<'_, Value>,
) -> Result<Outcome<'a>, Garbled> {
    let limits = &run.request.limits;
    if passed == -2 {
        let texts: Result<Vec<&[u8]>, Garbled> =
            limits.iter().map(|_| bytes(items.next())).collect();
        // Only those that cannot be read say why.
        let why = texts?.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        return Ok(Outcome::Unreadable(String::from_utf8_lossy(why).into_owned()));
    }
    if passed == -1 {
        let mut elsewhere = Vec::new();
        for limit in 0..limits.len() {
            elsewhere.extend(kept_elsewhere(limit, bytes(items.next())?)?);
        }
        return Ok(Outcome::Elsewhere(elsewhere));
    }
    if let Does::Renew { .. } = run.request.does {
        let renewed: Result<_, Garbled> =
            limits.iter().map(|_| renewed(bytes(items.next())?)).collect();
        return renewed.map(Outcome::Renewed);
    }
    let mut found = SmallVec::new();
    if !run.request.does.judges() {
        limits.iter().try_for_each(|_| bytes(items.next()).map(drop))?;
        return Ok(Outcome::Decided { passed: 0, found });
    }
    let mut is_readable = true;
    for limit in limits {
        let policy = limit.rule.policy();
        match Told::read(policy, bytes(items.next())?) {
            Some(told) => found.push(Found { policy, cost: limit.cost, told }),
            None => is_readable = false,
        }
    }
    // Lua takes more for a number than we do; that must not concern the other runs.
    if !is_readable {
        return Ok(Outcome::Unreadable("not a state".to_owned()));
    }
    Ok(Outcome::Decided { passed: u32::try_from(passed).map_err(|_| Garbled)?, found })
}

/// A tick, a space and cells; or nothing.
fn renewed(text: &[u8]) -> Result<Option<Receipt>, Garbled> {
    if text.is_empty() {
        return Ok(None);
    }
    let (at, cells) = str::from_utf8(text).ok().and_then(|it| it.split_once(' ')).ok_or(Garbled)?;
    let (at, cells) = (at.parse().map_err(|_| Garbled)?, cells.parse().map_err(|_| Garbled)?);
    Ok(Some(Receipt::new(Tick::from_micros(at), cells)))
}

/// `<`, the place of the former key, a space, and the state; or nothing.
fn kept_elsewhere(limit: usize, text: &[u8]) -> Result<Option<Elsewhere>, Garbled> {
    let Some(text) = text.strip_prefix(b"<") else { return Ok(None) };
    let space = text.iter().position(|&byte| byte == b' ').ok_or(Garbled)?;
    let (place, value) = text.split_at(space);
    let place: usize = str::from_utf8(place).ok().and_then(|it| it.parse().ok()).ok_or(Garbled)?;
    let former = place.checked_sub(1).ok_or(Garbled)?;
    Ok(Some(Elsewhere { limit, former, value: value[1..].to_vec() }))
}

fn number(item: Option<&Value>) -> Result<i64, Garbled> {
    if let Some(Value::Int(number)) = item { Ok(*number) } else { Err(Garbled) }
}

fn decimal(item: &Value) -> Result<u64, Garbled> {
    str::from_utf8(bytes(Some(item))?).ok().and_then(|text| text.parse().ok()).ok_or(Garbled)
}

fn bytes(item: Option<&Value>) -> Result<&[u8], Garbled> {
    if let Some(Value::BulkString(bytes)) = item { Ok(bytes) } else { Err(Garbled) }
}
