//! What is held for callers: permits (`acquire`, `renew`, `release`) and receipts (`refund`).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tidegate_core::Span;
use tidegate_gate::Admission;
use tidegate_gate::adapt::Outcome;

use super::check::{Call, Wanted};
use super::field::{self, Whole};
use super::reply::{self, Problem, Reply};
use super::{body, json};
use crate::answer::Value;
use crate::auth::Shown;
use crate::desk::{Desk, Entry, HeldFor, Id, NoRoom};
use crate::legible;
use crate::limits;
use crate::metrics::What;
use crate::trace::Notes;

/// Names something that is held.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named<'a> {
    #[serde(borrow)]
    permit: Cow<'a, str>,
    #[serde(default, deserialize_with = "field::said")]
    lease_ms: Option<Whole>,
}

/// What is given back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done<'a> {
    #[serde(borrow)]
    permit: Cow<'a, str>,
    #[serde(default, deserialize_with = "field::cost")]
    cost: Option<u32>,
    #[serde(default, deserialize_with = "field::said")]
    outcome: Option<Came>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Came {
    Served,
    Failed,
    TimedOut,
    Abandoned,
}

impl From<Came> for Outcome {
    fn from(came: Came) -> Outcome {
        match came {
            Came::Served => Outcome::Served,
            Came::Failed => Outcome::Failed,
            Came::TimedOut => Outcome::TimedOut,
            Came::Abandoned => Outcome::Abandoned,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipt<'a> {
    #[serde(borrow)]
    receipt: Cow<'a, str>,
}

/// `POST /v1/acquire`: decides, and holds what passes until it is released.
pub(super) async fn acquire(
    desk: &Desk,
    (headers, shown): (&HeaderMap, Shown<'_>),
    body: &[u8],
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    let text = legible::json(body);
    let wanted = Wanted::read(body::media_type(headers), &text, Call::Acquire)?;
    let lease = lease(wanted.lease_ms)?;
    let admitting = desk.gate.admit(&wanted.ask());
    let admission = admitting.await;
    notes.admission(&admission);
    let mut out = Vec::with_capacity(json::ANSWER_BYTES);
    if !admission.verdict().passes() {
        json::write(&mut out, &admission, &[]);
        return Ok(reply::with_type(out, "application/json"));
    }
    let lease = shortest(desk, &admission, lease);
    // Where nothing was asked of anything, there is nothing to hold.
    let is_held = admission.can_be_settled();
    let id = if is_held { Id::random() } else { Id::NOTHING };
    let (name, lease_us) = (id.to_string(), Value::Number(lease.get()));
    let more = [("permit", Value::from(&*name)), ("lease_us", lease_us)];
    json::write(&mut out, &admission, &more);
    if !is_held {
        return Ok(reply::with_type(out, "application/json"));
    }
    let (until, caller) = (desk.gate.now().after(lease), wanted.caller(desk, shown));
    let entry = Entry { admission, held_for: HeldFor::Permit, caller, until };
    if let Err((why, mut admission)) = desk.held.keep(id, entry) {
        // Nothing has happened, then.
        admission.refund().await;
        desk.metrics.no_room(What::Held, caller, why);
        return Err(full(why));
    }
    Ok(reply::with_type(out, "application/json"))
}

/// `POST /v1/renew`: holds a permit for longer.
pub(super) async fn renew(
    desk: &Arc<Desk>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Reply, Problem> {
    let named: Named<'_> = body::read(headers, body)?;
    let lease = lease(named.lease_ms)?;
    let lapsed = || Problem::new(StatusCode::NOT_FOUND, "no such permit is held: acquire another");
    let id: Id = named.permit.parse().map_err(|_| lapsed())?;
    if id == Id::NOTHING {
        return Ok(reply::json(&json!({ "held": true, "lease_us": lease.get() })));
    }
    let mut entry = desk.held.take(id, HeldFor::Permit, desk.gate.now()).ok_or_else(lapsed)?;
    let desk = Arc::clone(desk);
    let renewed = to_its_end(async move {
        let renewed = entry.admission.renew().await;
        let lease = shortest(&desk, &entry.admission, lease);
        // Should the store not have answered, the permit is held as it was.
        if *renewed.as_ref().unwrap_or(&true) {
            entry.until = desk.gate.now().after(lease);
            desk.held.keep_on(id, entry);
        }
        (renewed, lease)
    });
    match renewed.await? {
        (Ok(true), lease) => Ok(reply::json(&json!({ "held": true, "lease_us": lease.get() }))),
        (Ok(false), _) => Err(lapsed()),
        (Err(error), _) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the store did not renew it, try again: {error}"),
        )),
    }
}

/// `POST /v1/release`: gives a permit back, and charges what it did cost.
pub(super) async fn release(
    desk: &Desk,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Reply, Problem> {
    let named: Done<'_> = body::read(headers, body)?;
    let id = named.permit.parse().ok();
    let held = id.and_then(|id| desk.held.take(id, HeldFor::Permit, desk.gate.now()));
    // To release what is released already does no harm.
    let is_released = held.is_some() || id == Some(Id::NOTHING);
    if let Some(Entry { mut admission, .. }) = held {
        let cost = named.cost;
        admission.came_of(named.outcome.unwrap_or(Came::Served).into());
        to_its_end(async move {
            if let Some(cost) = cost {
                admission.set_cost(cost).await;
            }
            admission.release().await;
        })
        .await?;
    }
    Ok(reply::json(&json!({ "released": is_released })))
}

/// `POST /v1/refund`: gives back what was charged.
pub(super) async fn refund(
    desk: &Desk,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Reply, Problem> {
    let named: Receipt<'_> = body::read(headers, body)?;
    let held = named.receipt.parse().ok();
    let held = held.and_then(|id| desk.held.take(id, HeldFor::Refund, desk.gate.now()));
    let is_refunded = held.is_some();
    if let Some(Entry { mut admission, .. }) = held {
        to_its_end(async move { admission.refund().await }).await?;
    }
    Ok(reply::json(&json!({ "refunded": is_refunded })))
}

/// Does it even if the caller goes away meanwhile: what was taken off the shelf is neither lost nor
/// given back by accident.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let failed = |error: tokio::task::JoinError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    tokio::spawn(work).await.map_err(failed)
}

/// The calls of these that understand a body.
pub(super) fn understood(headers: &HeaderMap, body: &[u8]) -> impl Iterator<Item = &'static str> {
    let renew = body::read::<Named<'_>>(headers, body).is_ok().then_some("renew");
    let release = body::read::<Done<'_>>(headers, body).is_ok().then_some("release");
    let refund = body::read::<Receipt<'_>>(headers, body).is_ok().then_some("refund");
    [renew, release, refund].into_iter().flatten()
}

/// There is no room for another one. A refusal, and no error: proxies let pass what fails.
fn full(why: NoRoom) -> Problem {
    let wrong = match why {
        NoRoom::Yours => format!(
            "{} permits and receipts are held for this caller: release some, or ask for shorter \
             leases",
            limits::HELD_EACH_MAX
        ),
        NoRoom::All => "too much is held here already: try again later".to_owned(),
    };
    Problem::new(StatusCode::TOO_MANY_REQUESTS, wrong)
}

fn lease(asked_ms: Option<Whole>) -> Result<Span, Problem> {
    let lease = asked_ms.map_or(limits::LEASE, |Whole(ms)| Duration::from_millis(ms));
    if lease.is_zero() || limits::LEASE_MAX < lease {
        let most = limits::LEASE_MAX.as_millis();
        return Err(Problem::bad(format!("`lease_ms` is from 1 to {most}")));
    }
    Ok(span(lease))
}

/// No longer than the store holds it.
fn shortest(desk: &Desk, admission: &Admission, lease: Span) -> Span {
    let lapses = admission.permits_lapse_at().map(|at| at.since(desk.gate.now()));
    lapses.map_or(lease, |lapses| lapses.min(lease))
}

/// A time in ticks; those here are short.
pub(super) fn span(time: Duration) -> Span {
    Span::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
