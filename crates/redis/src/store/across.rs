//! Several limits in different slots of a cluster: reserve, and give back if that was in vain.
//!
//! A script sees one slot only. So every slot is asked first, which charges nothing; most refusals
//! end here, and are free. If all would let it pass, all are charged at once; should one refuse
//! now, because somebody else was faster, the others give back what they took, each once, by its
//! receipt. A request passes only if every slot has charged it, so nothing is ever admitted too
//! much; what may be lost is a charge whose outcome, or whose refund's, nobody knows.

use tidegate_core::{Span, Tick, Verdict};

use super::{Judged, RedisStore};
use crate::call::{Limit, Request};
use crate::failure::StoreError;
use crate::found::{Answers, One};
use crate::gather::Decided;
use crate::plan::{Does, charges_refusals};
use crate::wire::slot_of;

/// Nobody waits for what is given back.
const GIVE_BACK_WITHIN: Span = Span::from_secs(1);

/// Limits of one slot, and where each stands in the request.
struct Part {
    request: Request,
    places: Vec<usize>,
}

/// Judges a request whose limits may live in several slots.
pub(super) async fn judge(
    store: &RedisStore,
    does: Does,
    request: Request,
    deadline: Tick,
) -> Result<Judged, StoreError> {
    let count = request.limits.len();
    let mut parts = split(request);
    if let [_] = &parts[..] {
        let Some(part) = parts.pop() else { return Ok(Judged::never()) };
        return store.ask(Request { does, ..part.request }, deadline).await.map(Judged::from);
    }
    let looked = ask_all(store, Does::Peek, &parts, deadline).await;
    let looked = looked.into_iter().collect::<Result<Vec<Decided>, StoreError>>()?;
    let together = looked.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
    if does == Does::Peek {
        return Ok(Judged::joined(count, together, &parts, looked));
    }
    if !together.passes() {
        return charge_refusals(store, (&parts, looked), count, deadline).await;
    }
    charge(store, (&parts, looked), count, deadline).await
}

/// Charges all parts; gives everything back if one of them does not pass.
async fn charge(
    store: &RedisStore,
    (parts, mut looked): (&[Part], Vec<Decided>),
    count: usize,
    deadline: Tick,
) -> Result<Judged, StoreError> {
    let charged = ask_all(store, Does::Decide, parts, deadline).await;
    let passed = |it: &Result<Decided, StoreError>| matches!(it, Ok(it) if it.verdict.passes());
    if charged.iter().all(passed) {
        let charged: Vec<Decided> = charged.into_iter().flatten().collect();
        let together = charged.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
        return Ok(Judged::joined(count, together, parts, charged));
    }
    let mut failure = None;
    let mut together = Verdict::Allow;
    for ((part, result), looked) in parts.iter().zip(charged).zip(&mut looked) {
        match result {
            Ok(decided) if decided.verdict.passes() => give_back(store, part, decided.answers),
            // It has filled up since it was asked.
            Ok(refused) => {
                together = together.and(refused.verdict);
                *looked = refused;
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Judged::joined(count, together, parts, looked)),
    }
}

/// Has the parts that refuse be charged for it, where they have a limit that charges. One that lets
/// it pass by now gives back what it took.
async fn charge_refusals(
    store: &RedisStore,
    (parts, mut looked): (&[Part], Vec<Decided>),
    count: usize,
    deadline: Tick,
) -> Result<Judged, StoreError> {
    for (part, looked) in parts.iter().zip(&mut looked) {
        let charges = |limit: &Limit| charges_refusals(limit.rule.policy());
        if looked.verdict.passes() || !part.request.limits.iter().any(charges) {
            continue;
        }
        let request = Request { does: Does::Decide, ..part.request.clone() };
        let decided = store.ask(request, deadline).await?;
        if decided.verdict.passes() {
            give_back(store, part, decided.answers);
        } else {
            *looked = decided;
        }
    }
    let together = looked.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
    Ok(Judged::joined(count, together, parts, looked))
}

/// Refunds every limit of a part once; nobody waits for it.
fn give_back(store: &RedisStore, part: &Part, answers: Answers) {
    for (limit, one) in part.request.limits.iter().zip(answers) {
        let Some(receipt) = one.receipt.filter(|receipt| 0 < receipt.cost()) else { continue };
        let limits = std::iter::once(limit.clone()).collect();
        let does = Does::refund(&receipt);
        let request = Request { does, slot: part.request.slot, limits };
        let (store, deadline) = (store.clone(), store.gather.deadline(GIVE_BACK_WITHIN));
        tokio::spawn(async move { store.reply(request, deadline).await.map(drop) });
    }
}

/// Asks all parts at the same time.
async fn ask_all(
    store: &RedisStore,
    does: Does,
    parts: &[Part],
    deadline: Tick,
) -> Vec<Result<Decided, StoreError>> {
    let requests = || parts.iter().map(|part| Request { does, ..part.request.clone() });
    let flying: Vec<_> = requests().map(|request| store.gather.submit(request, deadline)).collect();
    let mut results = Vec::with_capacity(parts.len());
    for (flight, request) in flying.into_iter().zip(requests()) {
        results.push(match flight {
            Err(error) => Err(error),
            Ok(answer) => store.landed(request, answer.await, deadline).await,
        });
    }
    results
}

/// Sorts limits by slot, in the order in which slots first appear.
fn split(request: Request) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, limit) in request.limits.into_iter().enumerate() {
        let slot = slot_of(&limit.place.name);
        let part = parts.iter_mut().find(|part| part.request.slot == slot);
        if let Some(part) = part {
            part.request.limits.push(limit);
            part.places.push(place);
        } else {
            let limits = std::iter::once::<Limit>(limit).collect();
            let request = Request { does: request.does, slot, limits };
            parts.push(Part { request, places: vec![place] });
        }
    }
    parts
}

impl Judged {
    /// The answers of all parts, in the order of the request's limits.
    fn joined(count: usize, verdict: Verdict, parts: &[Part], decided: Vec<Decided>) -> Judged {
        let mut answers: Vec<Option<One>> = (0..count).map(|_| None).collect();
        for (part, decided) in parts.iter().zip(decided) {
            for (&place, one) in part.places.iter().zip(decided.answers) {
                answers[place] = Some(one);
            }
        }
        let answers = answers.into_iter().flatten().collect();
        Judged { verdict, answers, is_remembered: false }
    }
}
