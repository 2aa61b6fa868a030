//! `check`, `peek` and `reset`: what a request is told as JSON, and what is said of it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, StatusCode};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize};
use tidegate_gate::{Admission, Admit, Gate, Request};

use super::body;
use super::field::{self, Whole};
use super::reply::{self, Problem, Reply};
use crate::answer::Answer;
use crate::ask::Ask;
use crate::desk::{Desk, HeldFor};
use crate::limits;
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

/// An answer, and what is held for the caller.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) answer: Answer<'a>,
    pub(super) more: Vec<(&'static str, String)>,
    pub(super) lease_us: Option<u64>,
}

impl<'a> Wanted<'a> {
    /// Refuses what belongs to another call than this.
    pub(super) fn of(self, call: Call) -> Result<Wanted<'a>, Problem> {
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
    headers: &HeaderMap,
    body: &[u8],
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    each(desk, headers, body, notes, Gate::admit, Receipts::Given).await
}

/// `POST /v1/peek`: what `check` would say; charges nothing.
pub(super) async fn peek(
    desk: &Desk,
    headers: &HeaderMap,
    body: &[u8],
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    each(desk, headers, body, notes, Gate::peek, Receipts::None).await
}

/// Whether what was decided can be given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Receipts {
    Given,
    None,
}

/// Asks about each request of a body, one after the other.
async fn each(
    desk: &Desk,
    headers: &HeaderMap,
    body: &[u8],
    notes: &mut Notes<'_>,
    decide: fn(&Gate, &dyn Request) -> Admit,
    receipts: Receipts,
) -> Result<Reply, Problem> {
    let wanted = body::read::<Wanted<'_>>(headers, body)?.of(Call::Check)?;
    let mut told_all = Vec::new();
    for one in wanted.all()? {
        let deciding = decide(&desk.gate, &one.ask());
        let admission = deciding.await;
        notes.admission(&admission);
        let wants_receipt = one.receipt == Some(true) && receipts == Receipts::Given;
        told_all.push(told(desk, wants_receipt, admission)?);
    }
    Ok(in_shape(&wanted, &told_all))
}

/// `POST /v1/reset`: makes what a request is counted under fresh.
pub(super) async fn reset(desk: &Desk, headers: &HeaderMap, body: &[u8]) -> Result<Reply, Problem> {
    let wanted = body::read::<Wanted<'_>>(headers, body)?.of(Call::Reset)?;
    let resetting = desk.gate.reset(&wanted.ask(), wanted.rule.as_deref());
    let names = resetting.await.map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the store did not do it: {error}"))
    })?;
    Ok(reply::json(&serde_json::json!({ "reset": names })))
}

/// One admission as JSON. With a receipt it is kept, so that it can be given back; where there is
/// no room for that, the decision stands and is told without one.
fn told(desk: &Desk, wants_receipt: bool, admission: Admission) -> Result<Vec<u8>, Problem> {
    let json = |admission: &Admission, more| {
        Told { answer: Answer::of(admission), more, lease_us: None }.to_json()
    };
    if !wants_receipt || !admission.verdict().passes() {
        return json(&admission, Vec::new());
    }
    let id = crate::desk::Id::random();
    let told = json(&admission, vec![("receipt", id.to_string())])?;
    let until = desk.gate.now().after(super::permit::span(limits::RECEIPT_TIME));
    match desk.held.keep(id, admission, HeldFor::Refund, until) {
        Ok(()) => Ok(told),
        Err(admission) => json(&admission, Vec::new()),
    }
}

impl Told<'_> {
    pub(super) fn to_json(&self) -> Result<Vec<u8>, Problem> {
        let failed = |error: serde_json::Error| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        };
        serde_json::to_vec(self).map_err(failed)
    }
}

impl Serialize for Told<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.answer.fields() {
            map.serialize_entry(name, &value)?;
        }
        for (name, value) in &self.more {
            map.serialize_entry(name, value)?;
        }
        if let Some(lease_us) = self.lease_us {
            map.serialize_entry("lease_us", &lease_us)?;
        }
        map.end()
    }
}

/// One answer as it is, several as a list.
fn in_shape(wanted: &Wanted<'_>, told: &[Vec<u8>]) -> Reply {
    if wanted.checks.is_none() {
        return reply::with_type(told.concat(), "application/json");
    }
    let mut body = b"{\"answers\":[".to_vec();
    for (at, answer) in told.iter().enumerate() {
        if at != 0 {
            body.push(b',');
        }
        body.extend_from_slice(answer);
    }
    body.extend_from_slice(b"]}");
    reply::with_type(body, "application/json")
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> serde::de::Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map of names to texts, or to lists of them")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            match map.next_value()? {
                OneOrMore::One(value) => pairs.push((name, value)),
                OneOrMore::More(values) => {
                    pairs.extend(values.into_iter().map(|Text(value)| (name.clone(), value)));
                }
            }
        }
        Ok(Pairs(pairs))
    }
}

/// A text, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<'a> {
    One(#[serde(borrow)] Cow<'a, str>),
    More(#[serde(borrow)] Vec<Text<'a>>),
}
