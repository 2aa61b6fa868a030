//! What a service says about its load, and what is given out for it.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use tidegate_core::Span;
use tidegate_core::adapt::Fraction;
use tidegate_gate::{Load, LoadReading};

use super::body;
use super::field::{Whole, said};
use super::reply::{self, Problem, Reply};
use crate::desk::Desk;

/// For how long a word counts unless it says so.
const TTL_MILLIS: u64 = 5_000;

/// The longest name of a source, in characters: as many as are within bounds in any script.
const SOURCE_CHARS_MAX: usize = Load::SOURCE_BYTES_MAX / 4;

/// A service that is asked for more than this is not told from one that is asked for this.
const LOAD_MAX: f64 = 1_000.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pushed {
    source: String,
    load: f64,
    #[serde(default, deserialize_with = "said")]
    ttl_ms: Option<Whole>,
}

/// Whether a body is one of `PUT /v1/load`.
pub(super) fn is_load(headers: &HeaderMap, body: &[u8]) -> bool {
    body::read::<Pushed>(headers, body).is_ok_and(|pushed| share(pushed.load).is_ok())
}

/// `PUT /v1/load`: hears how loaded a service is.
pub(super) fn push(desk: &Desk, headers: &HeaderMap, body: &[u8]) -> Result<Reply, Problem> {
    let Pushed { source, load, ttl_ms } = body::read(headers, body)?;
    let chars = source.chars().take(SOURCE_CHARS_MAX + 1).count();
    if chars == 0 || SOURCE_CHARS_MAX < chars {
        let wrong = format!("`source` has between 1 and {SOURCE_CHARS_MAX} characters");
        return Err(Problem::bad(wrong));
    }
    let (most, millis) = (Load::TTL_MAX.get() / 1_000, ttl_ms.map_or(TTL_MILLIS, |it| it.0));
    if millis == 0 || most < millis {
        return Err(Problem::bad(format!("`ttl_ms` is between 1 and {most}: renew it")));
    }
    let load = Load { source: &source, load: share(load)?, ttl: Span::from_micros(1_000 * millis) };
    let reading = desk.gate.load(&load).map_err(|error| Problem::bad(error.to_string()))?;
    Ok(told(&reading))
}

/// `GET /v1/load`: what is given out, and why.
pub(super) fn look(desk: &Desk) -> Reply {
    told(&desk.gate.load_reading())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
fn share(load: f64) -> Result<Fraction, Problem> {
    if !(0.0..=LOAD_MAX).contains(&load) {
        let wrong = format!("`load` is between 0 and {LOAD_MAX}: 1 is as much as a service wants");
        return Err(Problem::bad(wrong));
    }
    Ok(Fraction::from_millionths((load * 1e6).round() as u32))
}

fn told(reading: &LoadReading) -> Reply {
    let number = |share: Fraction| f64::from(share.get()) / 1e6;
    let controller = &reading.controller;
    reply::json(&json!({
        "factor": number(reading.factor),
        "limit": controller.limit,
        "in_flight": controller.in_flight,
        "load": reading.load.map(number),
        "sources": reading.sources,
        "own": number(controller.factor),
        "fleet": number(reading.fleet),
    }))
}
