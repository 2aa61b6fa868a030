//! What the tests stand on: a counter script, and how often it ran.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Value;

use crate::settings::Settings;
use crate::wire::{CallError, Keys, Script, ScriptCall, Wire, slot_of};

/// Longer than any server of a test needs for anything.
pub(super) const LONG: Duration = Duration::from_secs(10);

static COUNT: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])"));

/// A call that adds one to a counter.
pub(super) fn count(key: &str) -> ScriptCall {
    ScriptCall::new(&COUNT, slot_of(key.as_bytes()), Keys(&[key]), &["1"])
}

pub(super) async fn wire(url: &str) -> Wire {
    Wire::connect(&url.parse::<Settings>().unwrap()).await.unwrap()
}

/// Sends one call to where it belongs.
pub(super) async fn run(wire: &Wire, call: ScriptCall, within: Duration) -> Result<i64, CallError> {
    let lane = wire.lane_of(call.slot);
    let mut answers = wire.run(lane, vec![call], within).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0).map(number)
}

pub(super) fn number(value: Value) -> i64 {
    redis::from_redis_value(value).unwrap()
}
