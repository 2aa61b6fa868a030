//! Learns who holds which slot, from whichever server answers.
//!
//! One background task asks: when a server redirects us or is lost, and every few seconds. It never
//! asks more often than a bound, whatever happens, so that a fleet in trouble adds little to it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::{sleep, timeout};

use super::backoff::up_to;
use super::dial::{Peer, within};
use super::info::{Info, refused};
use super::link::Task;
use super::pipe::Pipe;
use super::shared::Shared;
use crate::error::ConnectError;
use crate::settings::Address;

/// Slots from the first to the last, and who owns them.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Range {
    first: u16,
    last: u16,
    owner: Address,
}

/// How often to ask when all is well.
const EVERY: Duration = Duration::from_secs(5);
/// How often to ask while a server is missing: its replica may take over any moment.
const EVERY_IN_TROUBLE: Duration = Duration::from_millis(200);
/// How often to ask at most.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a server that we are connected to may take to answer.
const ANSWER: Duration = Duration::from_millis(250);
/// Of so many servers one will answer, or the next round is soon enough.
const ASKED_MAX: usize = 5;

/// Learns the map for the first time, from the first seed that will do, and connects.
pub(super) async fn begin(shared: &Shared, seeds: &[Address]) -> Result<(), ConnectError> {
    let mut failure = None;
    for seed in seeds {
        let timeout = shared.way.dialer.timeout();
        match within(timeout, seed, ask_seed(shared, seed)).await {
            Ok(ranges) => {
                apply(shared, ranges);
                return Ok(());
            }
            // What a server said is worth more than that another one said nothing.
            Err(error @ ConnectError::Unreachable { .. }) => failure = failure.or(Some(error)),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| ConnectError::BadUrl { reason: "no host is named".to_owned() }))
}

/// Keeps the map up to date for as long as `shared` lives.
pub(super) fn follow(shared: &Arc<Shared>, seeds: Vec<Address>) -> Task {
    Task::start(follow_on(Arc::downgrade(shared), Arc::clone(&shared.stale), seeds))
}

async fn follow_on(shared: Weak<Shared>, stale: Arc<tokio::sync::Notify>, seeds: Vec<Address>) {
    while let Some(strong) = shared.upgrade() {
        let is_well = strong.lanes().all(|lane| !lane.needs_link());
        drop(strong);
        let wait = if is_well { EVERY } else { EVERY_IN_TROUBLE };
        let _ = timeout(wait * 3 / 4 + up_to(wait / 4), stale.notified()).await;
        let Some(strong) = shared.upgrade() else { return };
        if let Some(ranges) = refresh(&strong, &seeds).await {
            apply(&strong, ranges);
        } else {
            tracing::debug!("no server of the cluster tells its slots");
        }
        drop(strong);
        sleep(PAUSE + up_to(PAUSE)).await;
    }
}

async fn refresh(shared: &Shared, seeds: &[Address]) -> Option<Vec<Range>> {
    let connected: Vec<_> =
        shared.lanes().filter_map(|lane| Some((lane.link()?, lane.address()))).collect();
    let first = random_below(connected.len());
    let (before, after) = connected.split_at(first);
    for (link, address) in after.iter().chain(before).take(ASKED_MAX) {
        match timeout(ANSWER, ask(link.pipe(), address)).await {
            Ok(Ok(ranges)) if !ranges.is_empty() => return Some(ranges),
            _ => {}
        }
    }
    let (before, after) = seeds.split_at(random_below(seeds.len()));
    for seed in after.iter().chain(before).take(ASKED_MAX) {
        let bound = shared.way.dialer.timeout();
        if let Ok(ranges) = within(bound, seed, ask_seed(shared, seed)).await {
            return Some(ranges);
        }
    }
    None
}

/// Asks a server that we have no connection to, on one that ends with the answer.
async fn ask_seed(shared: &Shared, seed: &Address) -> Result<Vec<Range>, ConnectError> {
    let (pipe, drive) = shared.way.dialer.open(seed, Peer::Server).await?;
    let _drive = Task::start(drive);
    Info::ask(&pipe, seed).await?.check(shared.way.wanted, seed)?;
    let ranges = ask(&pipe, seed).await?;
    if ranges.is_empty() {
        return Err(unexpected(seed, "no slot has an owner".to_owned()));
    }
    Ok(ranges)
}

async fn ask(pipe: &Pipe, address: &Address) -> Result<Vec<Range>, ConnectError> {
    let mut question = Pipeline::with_capacity(1);
    question.cmd("CLUSTER").arg("SLOTS");
    match pipe.ask(&question).await.map(|mut answers| answers.pop().unwrap_or(Value::Nil)) {
        Ok(Value::ServerError(error)) => Err(refused(&error, address)),
        Ok(answer) => {
            parse(&answer, address).ok_or_else(|| unexpected(address, format!("{answer:?}")))
        }
        Err(loss) => Err(unexpected(address, loss.to_string())),
    }
}

fn apply(shared: &Shared, ranges: Vec<Range>) {
    let Some(slots) = &shared.slots else { return };
    let mut has_changed = false;
    let mut owners = Vec::new();
    for Range { first, last, owner } in ranges {
        let Some(lane) = shared.lane_for(&owner) else {
            tracing::warn!(server = %owner, "the cluster has more servers than we can keep");
            continue;
        };
        owners.push(lane);
        for slot in first..=last {
            has_changed |= slots.set(slot, lane);
        }
    }
    for (number, lane) in shared.lanes().enumerate() {
        lane.want(owners.contains(&number));
    }
    if has_changed {
        shared.changes.send_modify(|count| *count += 1);
    }
}

/// `[first, last, [host, port, …], replicas…]` for each range.
fn parse(answer: &Value, asked: &Address) -> Option<Vec<Range>> {
    let Value::Array(ranges) = answer else { return None };
    ranges.iter().map(|range| parse_range(range, asked)).collect()
}

fn parse_range(range: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [first, last, Value::Array(owner), ..] = &parts[..] else { return None };
    let [host, port, ..] = &owner[..] else { return None };
    let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
    // A server that does not know its own name is where we asked.
    let host = host.filter(|host| !matches!(&**host, "" | "?"));
    let owner = Address {
        host: host.unwrap_or_else(|| asked.host.clone()),
        port: redis::from_redis_value_ref(port).ok()?,
    };
    let first = redis::from_redis_value_ref(first).ok()?;
    let last = redis::from_redis_value_ref(last).ok()?;
    (first <= last && last < super::script::SLOTS).then_some(Range { first, last, owner })
}

fn random_below(bound: usize) -> usize {
    let chance = up_to(Duration::from_secs(1)).subsec_micros();
    usize::try_from(chance).unwrap_or(0) % bound.max(1)
}

fn unexpected(address: &Address, reason: String) -> ConnectError {
    ConnectError::Unexpected { address: address.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value) -> Value {
        Value::Array(vec![host, Value::Int(7), Value::BulkString(b"id".to_vec())])
    }

    #[test]
    fn a_server_without_a_name_is_where_it_was_asked() {
        let asked = Address { host: "seed".to_owned(), port: 1 };
        let named = |name: &str| Value::BulkString(name.as_bytes().to_vec());
        for (host, expected) in
            [(named("h"), "h"), (named(""), "seed"), (named("?"), "seed"), (Value::Nil, "seed")]
        {
            let replica = node(named("r"));
            let range = Value::Array(vec![Value::Int(0), Value::Int(9), node(host), replica]);
            let owner = Address { host: expected.to_owned(), port: 7 };
            let ranges = parse(&Value::Array(vec![range]), &asked);
            assert_eq!(ranges, Some(vec![Range { first: 0, last: 9, owner }]));
        }
    }

    #[test]
    fn nonsense_is_refused_whole() {
        let asked = Address { host: "seed".to_owned(), port: 1 };
        let range = |first, last| {
            let ends = [Value::Int(first), Value::Int(last)];
            let owner = node(Value::Nil);
            parse(&Value::Array(vec![Value::Array([ends.to_vec(), vec![owner]].concat())]), &asked)
        };
        assert!(range(0, 16_383).is_some());
        assert_eq!(range(0, 16_384), None);
        assert_eq!(range(2, 1), None);
        assert_eq!(range(-1, 1), None);
        assert_eq!(parse(&Value::Okay, &asked), None);
    }
}
