//! Calls of the script: many requests in, an answer to each out.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Shape, Tick};

use crate::flat::Flat;
use crate::plan::{self, Does};
use crate::rule::{FleetRule, Place};
use crate::script::{self, Form};
use crate::told::{Found, Told};

/// One limit of a request: whom it counts, where, and how many cells.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) rule: FleetRule,
    pub(crate) place: Place,
    pub(crate) cost: u32,
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
        let alike =
            |(a, b): (&Limit, &Limit)| a.cost == b.cost && a.place == b.place && a.rule.is(&b.rule);
        self.does == other.does
            && self.limits.len() == other.limits.len()
            && self.limits.iter().zip(&other.limits).all(alike)
    }

    /// Whether both are judged by one and the same key.
    pub(crate) fn shares_a_place(&self, other: &Request) -> bool {
        let is_of = |place: &Place| other.limits.iter().any(|limit| limit.place == *place);
        self.limits.iter().any(|limit| is_of(&limit.place))
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

/// A call of a script, to be sent.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) form: Form,
    pub(crate) keys: Flat,
    pub(crate) args: Flat,
}

/// The keys and arguments of a call.
///
/// `now` is for tests that bring their own clock.
pub(crate) fn write(runs: &[Run<'_>], now: Option<Tick>, slack_millis: u64) -> Written {
    let mut args = Flat::default();
    match now {
        Some(now) => args.number(now.get()),
        None => args.push(b""),
    }
    args.number(slack_millis);
    let mut keys = Flat::default();
    let limits = runs.iter().flat_map(|run| &run.request.limits);
    limits.for_each(|limit| push_keys(&mut keys, limit));
    let form = match simple(runs) {
        Some(limit) => write_simple(&mut args, limit, runs),
        None => write_any(&mut args, runs),
    };
    Written { form, keys, args }
}

/// The limit by which all requests are decided, if they differ in their keys only.
fn simple<'a>(runs: &[Run<'a>]) -> Option<&'a Limit> {
    let first = runs.first()?.request.limits.first()?;
    let is_simple = |run: &Run<'_>| {
        let [limit] = &run.request.limits[..] else { return false };
        run.request.does == Does::Decide && limit.cost == first.cost && limit.rule.is(&first.rule)
    };
    let is_plain = 0 < first.cost && first.rule.formers().is_empty();
    (is_plain && runs.iter().all(is_simple)).then_some(first)
}

/// What `simple.lua` and `narrow_line.lua` read.
fn write_simple(args: &mut Flat, limit: &Limit, runs: &[Run<'_>]) -> Form {
    let shape = limit.rule.policy().shape();
    let form = match shape {
        Shape::Line(grains) if script::is_narrow(shape) => {
            plan::write_narrow(args, &grains, limit.cost);
            Form::NarrowLine
        }
        _ => {
            args.number(limit.cost.into());
            plan::write_shape(args, shape, Does::Decide, limit.cost);
            Form::Simple(shape)
        }
    };
    if runs.iter().any(|run| run.count != 1) {
        for run in runs {
            args.number(run.count.into());
        }
    }
    form
}

/// What `decide.lua` reads: the distinct plans, and the requests by their plans' places.
fn write_any(args: &mut Flat, runs: &[Run<'_>]) -> Form {
    let mut plans: Vec<(&FleetRule, Does, u32)> = Vec::new();
    let (mut fields, mut requests) = (Flat::default(), Flat::default());
    for Run { request, count } in runs {
        requests.number((*count).into());
        requests.number(request.limits.len() as u64);
        for limit in &request.limits {
            let Limit { rule, cost, .. } = limit;
            let is_it = |(known, does, known_cost): &(&FleetRule, Does, u32)| {
                known.is(rule) && *does == request.does && known_cost == cost
            };
            let place = plans.iter().position(is_it).unwrap_or_else(|| {
                plan::write(&mut fields, rule.policy(), request.does, *cost, rule.formers().len());
                plans.push((rule, request.does, *cost));
                plans.len() - 1
            });
            requests.number(place as u64 + 1);
        }
    }
    args.number(plans.len() as u64);
    fields.iter().chain(requests.iter()).for_each(|field| args.push(field));
    let mut shapes = plans.iter().map(|(rule, ..)| rule.policy().shape());
    let Some(first) = shapes.next() else { return Form::Mixed };
    if shapes.all(|shape| script::number(shape) == script::number(first)) {
        Form::Of(first)
    } else {
        Form::Mixed
    }
}

fn push_keys(keys: &mut Flat, limit: &Limit) {
    keys.push(&limit.place.name);
    for former in limit.rule.formers() {
        keys.push(&limit.place.former(former));
    }
}

/// What became of one run.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// So many passed; what was found before, limit by limit.
    Decided { passed: u32, found: SmallVec<[Found<'a>; 1]> },
    /// Nothing was done: states are kept under former policies.
    Elsewhere(Vec<Elsewhere>),
    /// Nothing was done: a state cannot be read.
    Unreadable(String),
}

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
    let mut items = items.iter();
    let now = u64::try_from(number(items.next())?).map_err(|_| Garbled)?;
    let mut outcomes = Vec::with_capacity(runs.len());
    for run in runs {
        outcomes.push(outcome(run, &mut items)?);
    }
    Ok((Tick::from_micros(now), outcomes))
}

fn outcome<'a>(
    run: &Run<'a>,
    items: &mut std::slice::Iter<'_, Value>,
) -> Result<Outcome<'a>, Garbled> {
    let limits = &run.request.limits;
    let passed = number(items.next())?;
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

fn bytes(item: Option<&Value>) -> Result<&[u8], Garbled> {
    if let Some(Value::BulkString(bytes)) = item { Ok(bytes) } else { Err(Garbled) }
}
