//! The reply to a call: what became of each request.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Debited, Receipt, Tick};

use super::Run;
use crate::found::{Found, Told};
use crate::plan::Does;
use crate::wire::{Item, Items, Reply};

/// What became of one run.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// So many passed; what was found before, limit by limit.
    Decided { passed: u32, found: SmallVec<[Found<'a>; 1]> },
    /// Nothing was done: states are kept under former policies.
    Elsewhere(Vec<Elsewhere>),
    /// Permits were renewed: the receipt of each; nothing for one that has lapsed.
    Renewed(Renewed),
    /// Charged; what it came to, limit by limit.
    Debited(Debits),
    /// Given back; whether all of it was. A slot of a queue stays taken if others stand behind it.
    Refunded(bool),
    /// Nothing was done: a state cannot be read.
    Unreadable(String),
}

/// The receipts of renewed permits, limit by limit; nothing for one that has lapsed.
pub(crate) type Renewed = SmallVec<[Option<Receipt>; 1]>;

/// What debits came to, limit by limit.
pub(crate) type Debits = SmallVec<[Debited; 1]>;

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
    reply: &Reply,
) -> Result<(Tick, Vec<Outcome<'a>>), Garbled> {
    let mut items = reply.items();
    match items.next() {
        Some(Item::List(_)) => {}
        Some(Item::Bytes(text)) => return read_lines(runs, text),
        _ => return Err(Garbled),
    }
    let now = u64::try_from(number(&mut items)?).map_err(|_| Garbled)?;
    let now = Tick::from_micros(now);
    let mut outcomes = Vec::with_capacity(runs.len());
    for run in runs {
        let passed = number(&mut items)?;
        outcomes.push(outcome(run, (passed, now), &mut items)?);
    }
    Ok((now, outcomes))
}

/// As `read`, for the reply of `whole_line.lua`: one text, a line for each run.
fn read_lines<'a>(runs: &[Run<'a>], text: &[u8]) -> Result<(Tick, Vec<Outcome<'a>>), Garbled> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let mut next = || lines.next().ok_or(Garbled);
    let seconds = decimal(next()?)?;
    let now = seconds.checked_mul(1_000_000).ok_or(Garbled)?;
    let now = now.checked_add(decimal(next()?)?).ok_or(Garbled)?;
    let mut outcomes = Vec::with_capacity(runs.len());
    for run in runs {
        outcomes.push(line_outcome(run, next()?)?);
    }
    if lines.next().is_some() { Err(Garbled) } else { Ok((Tick::from_micros(now), outcomes)) }
}

/// What became of a run by one limit: `!` and why it cannot be read, or what was found, behind how
/// many passed and a slash if not all did.
fn line_outcome<'a>(run: &Run<'a>, line: &[u8]) -> Result<Outcome<'a>, Garbled> {
    let [limit] = &run.request.limits[..] else { return Err(Garbled) };
    if let Some(why) = line.strip_prefix(b"!") {
        return Ok(Outcome::Unreadable(String::from_utf8_lossy(why).into_owned()));
    }
    let (passed, found) = match line.iter().position(|&byte| byte == b'/') {
        Some(slash) => {
            let passed = u32::try_from(decimal(&line[..slash])?).map_err(|_| Garbled)?;
            (passed, &line[slash + 1..])
        }
        None => (run.count, line),
    };
    let policy = limit.rule.policy();
    let told = Told::read(policy, found).ok_or(Garbled)?;
    let found = smallvec![Found { policy, cost: limit.cost, told }];
    Ok(Outcome::Decided { passed, found })
}

/// What became of a run of which so many passed, limit by limit.
fn outcome<'a>(
    run: &Run<'a>,
    (passed, now): (i64, Tick),
    items: &mut Items<'_>,
) -> Result<Outcome<'a>, Garbled> {
    let limits = &run.request.limits;
    if passed == -2 {
        let texts: Result<Vec<&[u8]>, Garbled> = limits.iter().map(|_| bytes(items)).collect();
        // Only those that cannot be read say why.
        let why = texts?.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        return Ok(Outcome::Unreadable(String::from_utf8_lossy(why).into_owned()));
    }
    if passed == -1 {
        let mut elsewhere = Vec::new();
        for limit in 0..limits.len() {
            elsewhere.extend(kept_elsewhere(limit, bytes(items)?)?);
        }
        return Ok(Outcome::Elsewhere(elsewhere));
    }
    if let Does::Renew { .. } = run.request.does {
        let renewed: Result<_, Garbled> = limits.iter().map(|_| renewed(bytes(items)?)).collect();
        return renewed.map(Outcome::Renewed);
    }
    if let Does::Debit = run.request.does {
        return debited(run, now, items);
    }
    if let Does::Refund { .. } = run.request.does {
        let mut is_back = true;
        for _ in limits {
            is_back &= bytes(items)?.is_empty();
        }
        return Ok(Outcome::Refunded(is_back));
    }
    let mut found = SmallVec::new();
    if !run.request.does.judges() {
        limits.iter().try_for_each(|_| bytes(items).map(drop))?;
        return Ok(Outcome::Decided { passed: 0, found });
    }
    let mut is_readable = true;
    for limit in limits {
        let policy = limit.rule.policy();
        match Told::read(policy, bytes(items)?) {
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

/// What debits came to, worked out from the states that were found.
fn debited<'a>(run: &Run<'_>, now: Tick, items: &mut Items<'_>) -> Result<Outcome<'a>, Garbled> {
    let mut debits = Debits::new();
    for limit in &run.request.limits {
        let (policy, found) = (limit.rule.policy(), bytes(items)?);
        let told = Told::read(policy, found);
        match told.and_then(|mut told| told.debit(policy, now, limit.cost)) {
            Some(debited) => debits.push(debited),
            None => return Ok(Outcome::Unreadable("not a state".to_owned())),
        }
    }
    Ok(Outcome::Debited(debits))
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

fn number(items: &mut Items<'_>) -> Result<i64, Garbled> {
    if let Some(Item::Number(number)) = items.next() { Ok(number) } else { Err(Garbled) }
}

fn decimal(text: &[u8]) -> Result<u64, Garbled> {
    str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Garbled)
}

fn bytes<'a>(items: &mut Items<'a>) -> Result<&'a [u8], Garbled> {
    if let Some(Item::Bytes(bytes)) = items.next() { Ok(bytes) } else { Err(Garbled) }
}
