//! `check`, `peek` and `reset`: the requests that they take as JSON, and their answers.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use tidegate_gate::{Admission, Admit, Gate, Request};

use super::field::{self, Text, Whole};
use super::reply::{self, Problem, Reply};
use super::{body, json};
use crate::ask::Ask;
use crate::auth::Shown;
use crate::caller::Caller;
use crate::desk::{Desk, Entry, HeldFor, Id};
use crate::legible;
use crate::limits;
use crate::metrics::What;
use crate::room::Place;
use crate::trace::Notes;

/// A request to be decided about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "field::address")]
    ip: Option<IpAddr>,
    #[serde(borrow)]
    headers: Pairs<'a>,
    #[serde(borrow)]
    attributes: Pairs<'a>,
    #[serde(deserialize_with = "field::cost")]
    cost: Option<u32>,
    /// For `check`: whether it may be given back later.
    #[serde(deserialize_with = "field::said")]
    receipt: Option<bool>,
    /// For `acquire`.
    #[serde(deserialize_with = "field::said")]
    pub(super) lease_ms: Option<Whole>,
    /// For `reset`.
    #[serde(borrow, deserialize_with = "field::said")]
    rule: Option<Cow<'a, str>>,
    /// For `check` and `peek`: several, instead of the fields above.
    #[serde(borrow, deserialize_with = "field::objects")]
    checks: Option<Vec<Wanted<'a>>>,
}

/// What is wanted with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Call {
    Acquire,
    /// Or `peek`.
    Check,
    Reset,
}

/// A map whose order and repetitions are kept.
#[derive(Debug, Default)]
struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Wanted<'a> {
    /// Reads a request from [legible](legible::json) text.
    pub(super) fn read(
        media_type: Option<&[u8]>,
        text: &'a str,
        call: Call,
    ) -> Result<Wanted<'a>, Problem> {
        body::read_as::<Wanted<'a>>(media_type, text)?.of(call)
    }

    /// Refuses what belongs to another call than this.
    fn of(self, call: Call) -> Result<Wanted<'a>, Problem> {
        let (checks, asks) = (self.checks.iter().flatten(), call == Call::Check);
        let is_wrong = |one: &Wanted<'_>| match () {
            () if one.receipt.is_some() && !asks => Some("`receipt` is for `/v1/check`"),
            () if one.lease_ms.is_some() && call != Call::Acquire => {
                Some("`lease_ms` is for `/v1/acquire` and `/v1/renew`")
            }
            () if one.rule.is_some() && call != Call::Reset => Some("`rule` is for `/v1/reset`"),
            () if one.checks.is_some() && !asks => {
                Some("`checks` is for `/v1/check` and `/v1/peek`")
            }
            () => None,
        };
        match std::iter::once(&self).chain(checks).find_map(is_wrong) {
            Some(wrong) => Err(Problem::bad(wrong)),
            None => Ok(self),
        }
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        let mut ask = Ask { ip: self.ip, cost: self.cost, ..Ask::default() };
        if let Some(method) = self.method.as_deref() {
            ask.method = method.into();
        }
        if let Some(path) = self.path.as_deref() {
            ask.set_target(path);
        }
        ask.host = self.host.as_deref().map(Cow::Borrowed);
        for (name, value) in &self.headers.0 {
            ask.add_header(&**name, value.as_bytes());
        }
        let pairs = self.attributes.0.iter();
        ask.attributes.extend(pairs.map(|(name, value)| ((&**name).into(), (&**value).into())));
        ask
    }

    /// The caller that something of it is held for.
    pub(super) fn caller(&self, desk: &Desk, shown: Shown<'_>) -> Caller {
        let Shown { visitor, token } = shown;
        desk.holds_for(desk.guard.caller(visitor, token), visitor.peer, self.ip)
    }

    /// The requests in it: itself, or the list.
    pub(super) fn all(&self) -> Result<&[Wanted<'a>], Problem> {
        let Some(checks) = &self.checks else { return Ok(std::slice::from_ref(self)) };
        if limits::BATCH_MAX < checks.len() {
            let wrong = format!("a batch has at most {} checks", limits::BATCH_MAX);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, wrong));
        }
        if checks.iter().any(|check| check.checks.is_some()) {
            return Err(Problem::bad("a check of a batch is no batch"));
        }
        Ok(checks)
    }
}

/// `POST /v1/check`: decides, and charges what passes.
pub(super) async fn check(
    desk: &Desk,
    (headers, shown): (&HeaderMap, Shown<'_>),
    body: &[u8],
    notes: &mut Notes<'_>,
    place: &mut Place,
) -> Result<Reply, Problem> {
    let mut out = Vec::new();
    let said = (body::media_type(headers), shown);
    decide(desk, said, body, notes, (&mut out, place)).await?;
    out.shrink_to_fit();
    Ok(reply::with_type(out, "application/json"))
}

/// Decides as `check` does, but writes the answer to `to`. A problem is known before anything is
/// charged.
pub(super) async fn decide(
    desk: &Desk,
    (media_type, shown): (Option<&[u8]>, Shown<'_>),
    body: &[u8],
    notes: &mut Notes<'_>,
    to: (&mut Vec<u8>, &mut Place),
) -> Result<(), Problem> {
    let (text, (out, place)) = (legible::json(body), to);
    let wanted = with_room(desk, media_type, &text, place).await?;
    each(desk, &wanted, notes, Gate::admit, Receipts::To(shown), out).await
}

/// `POST /v1/peek`: what `check` would say; charges nothing.
pub(super) async fn peek(
    desk: &Desk,
    headers: &HeaderMap,
    body: &[u8],
    notes: &mut Notes<'_>,
    place: &mut Place,
) -> Result<Reply, Problem> {
    let text = legible::json(body);
    let wanted = with_room(desk, body::media_type(headers), &text, place).await?;
    let mut out = Vec::new();
    each(desk, &wanted, notes, Gate::peek, Receipts::None, &mut out).await?;
    out.shrink_to_fit();
    Ok(reply::with_type(out, "application/json"))
}

/// Whether what was decided can be given back.
#[derive(Clone, Copy, Debug)]
enum Receipts<'a> {
    To(Shown<'a>),
    None,
}

/// Reads what is to be checked, and takes room for the answers.
async fn with_room<'a>(
    desk: &Desk,
    media_type: Option<&[u8]>,
    text: &'a str,
    place: &mut Place,
) -> Result<Wanted<'a>, Problem> {
    let wanted = Wanted::read(media_type, text, Call::Check)?;
    let bytes = desk.check_sizes.of(wanted.all()?.len());
    if place.grow_at_once(bytes) {
        return Ok(wanted);
    }
    // What was read takes many times the bytes of the body: it is not kept meanwhile.
    drop(wanted);
    if place.grow(bytes).await {
        Wanted::read(media_type, text, Call::Check)
    } else {
        Err(reply::no_room())
    }
}

/// Asks about each request of a body, one after the other.
async fn each(
    desk: &Desk,
    wanted: &Wanted<'_>,
    notes: &mut Notes<'_>,
    decide: fn(&Gate, &dyn Request) -> Admit,
    receipts: Receipts<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let (all, is_batch) = (wanted.all()?, wanted.checks.is_some());
    let before = out.len();
    out.reserve(json::ANSWER_BYTES);
    if is_batch {
        out.extend_from_slice(b"{\"answers\":[");
    }
    for (at, one) in all.iter().enumerate() {
        let deciding = decide(&desk.gate, &one.ask());
        let admission = deciding.await;
        notes.admission(&admission);
        if at != 0 {
            out.push(b',');
        }
        match receipts {
            Receipts::To(shown) if one.receipt == Some(true) => {
                tell_with_receipt(desk, one.caller(desk, shown), admission, out);
            }
            _ => tell(admission, out),
        }
    }
    if is_batch {
        out.extend_from_slice(b"]}");
    }
    desk.check_sizes.learn(all.len(), out.len() - before);
    Ok(())
}

/// `POST /v1/reset`: makes what a request is counted under fresh.
pub(super) async fn reset(desk: &Desk, headers: &HeaderMap, body: &[u8]) -> Result<Reply, Problem> {
    let text = legible::json(body);
    let wanted = Wanted::read(body::media_type(headers), &text, Call::Reset)?;
    let resetting = desk.gate.reset(&wanted.ask(), wanted.rule.as_deref());
    let names = resetting.await.map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the store did not do it: {error}"))
    })?;
    Ok(reply::json(&serde_json::json!({ "reset": names })))
}

/// Writes one admission.
fn tell(mut admission: Admission, out: &mut Vec<u8>) {
    // It only asked: a client that wants to keep a place acquires it.
    admission.leave();
    json::write(out, &admission, &[]);
}

/// Writes one admission as `tell` does, but with a receipt: the admission is kept, so that it can
/// be given back. Where there is nothing to give back, or no room for that, the decision stands and
/// is written without a receipt.
fn tell_with_receipt(desk: &Desk, caller: Caller, mut admission: Admission, out: &mut Vec<u8>) {
    admission.leave();
    if !admission.verdict().passes() || !admission.can_be_refunded() {
        return json::write(out, &admission, &[]);
    }
    let (id, before) = (Id::random(), out.len());
    json::write(out, &admission, &[("receipt", id.to_string().into())]);
    let until = desk.gate.now().after(super::permit::span(limits::RECEIPT_TIME));
    let entry = Entry { admission, held_for: HeldFor::Refund, caller, until };
    if let Err((why, admission)) = desk.held.keep(id, entry) {
        desk.metrics.no_room(What::Held, caller, why);
        out.truncate(before);
        json::write(out, &admission, &[]);
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map of names to texts, or to lists of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            map.next_value_seed(Values { name, pairs: &mut pairs })?;
        }
        Ok(Pairs(pairs))
    }
}

/// What a name is given: one text, or a list of them.
struct Values<'p, 'a> {
    name: Cow<'a, str>,
    pairs: &'p mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'de> DeserializeSeed<'de> for Values<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, or a list of them")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        self.pairs.push((self.name, text.into()));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.pairs.push((self.name, text.to_owned().into()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(Text(value)) = list.next_element()? {
            self.pairs.push((self.name.clone(), value));
        }
        Ok(())
    }
}
