//! What the tests stand on: a counter script, load on it, and the account of both sides.
//!
//! "At most once" is visible here: what the servers have counted is never more than what was
//! answered and what was lost together, and never less than what was answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_store::{Clock as _, SystemClock};
use tidegate_testbed::{Reply as Said, Server};
use tokio::task::JoinHandle;

use crate::flat::Sink as _;
use crate::settings::Settings;
use crate::wire::{CallError, Refusal, Reply, Script, ScriptCall, Wire, slot_of};

/// Longer than any server of a test needs for anything.
pub(super) const LONG: Duration = Duration::from_secs(20);

/// What a caller in a hurry gives a call.
pub(super) const SHORT: Duration = Duration::from_millis(100);

static COUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new("for i, key in ipairs(KEYS) do redis.call('INCRBY', key, ARGV[1]) end return 1")
});

/// A call that adds one to a counter.
pub(super) fn count(key: &str) -> ScriptCall {
    count_all(&[key])
}

/// A call that adds one to each of several counters in one slot.
pub(super) fn count_all(keys: &[&str]) -> ScriptCall {
    let mut call = ScriptCall::new(&COUNT, slot_of(keys[0].as_bytes()), keys.len(), 64);
    for part in keys.iter().chain(&["1"]) {
        call.push(part.as_bytes());
    }
    call
}

pub(super) fn settings(url: &str) -> Settings {
    url.parse().unwrap()
}

pub(super) async fn wire(url: &str) -> Wire {
    Wire::connect(&settings(url)).await.unwrap()
}

/// Sends one call to where it belongs.
pub(super) async fn run(
    wire: &Wire,
    call: ScriptCall,
    within: Duration,
) -> Result<Reply, CallError> {
    let lane = wire.lane_of(call.slot);
    wire.run_one(lane, call, SystemClock::new().now().after(within.into())).await
}

/// Sends calls until one is refused, and says why. A call that is asked again and again may be
/// under way when its time is over, and then nobody knows, so it takes a few.
pub(super) async fn refusal(wire: &Wire, call: impl Fn() -> ScriptCall) -> Refusal {
    for _ in 0..50 {
        match run(wire, call(), SHORT).await {
            Err(CallError::NotRun(refusal)) => return refusal,
            Err(CallError::Unknown(_)) => {}
            Ok(value) => panic!("it was run: {value:?}"),
        }
    }
    panic!("never refused: {:?}", wire.health());
}

/// What a counter on a server stands at.
pub(super) fn counted(server: &Server, key: &str) -> u64 {
    match server.must(&["GET", key]).unwrap() {
        Said::Nil => 0,
        reply => reply.text().parse().unwrap(),
    }
}

/// What became of the calls of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u64,
    pub(super) not_run: u64,
    pub(super) unknown: u64,
}

impl Tally {
    pub(super) fn take(&mut self, answer: &Result<Reply, CallError>) {
        match answer {
            Ok(_) => self.done += 1,
            Err(CallError::NotRun(_)) => self.not_run += 1,
            Err(CallError::Unknown(_)) => self.unknown += 1,
        }
    }

    /// Checks that what the servers have counted is what the calls were answered.
    #[track_caller]
    pub(super) fn check(self, counted: u64) {
        assert!(counted >= self.done, "an answered call was not run: {counted} {self:?}");
        assert!(counted <= self.done + self.unknown, "a call ran twice: {counted} {self:?}");
    }
}

/// Calls without end, from several tasks at once: single ones and batches.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Tally>>>,
}

impl Load {
    pub(super) fn start(wire: &Arc<Wire>, keys: &[String], within: Duration) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let task = |batch| {
            let (wire, stop, keys) = (Arc::clone(wire), Arc::clone(&stop), keys.to_vec());
            tokio::spawn(async move { work(&wire, &stop, &keys, batch, within).await })
        };
        Load { tasks: [1, 1, 8].map(task).into(), stop }
    }

    /// Ends it, and says what became of the calls of each key.
    pub(super) async fn stop(self) -> Vec<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum: Vec<Tally> = Vec::new();
        for task in self.tasks {
            for (number, tally) in task.await.unwrap().into_iter().enumerate() {
                if sum.len() <= number {
                    sum.push(Tally::default());
                }
                sum[number].done += tally.done;
                sum[number].not_run += tally.not_run;
                sum[number].unknown += tally.unknown;
            }
        }
        sum
    }
}

async fn work(
    wire: &Wire,
    stop: &AtomicBool,
    keys: &[String],
    batch: usize,
    within: Duration,
) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); keys.len()];
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = next % keys.len();
        next += 1;
        let calls: Vec<_> = (0..batch).map(|_| count(&keys[key])).collect();
        let lane = wire.lane_of(calls[0].slot);
        for answer in wire.run(lane, calls, within).await {
            tallies[key].take(&answer);
        }
    }
    tallies
}

/// Runs calls until one is answered; the account of all of them.
pub(super) async fn until_answered(wire: &Wire, key: &str) -> Tally {
    until_answered_within(wire, key, SHORT).await
}

/// As `until_answered`, with another deadline for each call.
pub(super) async fn until_answered_within(wire: &Wire, key: &str, deadline: Duration) -> Tally {
    let mut tally = Tally::default();
    while tally.done == 0 {
        assert!(tally.not_run + tally.unknown < 2000, "never answered: {:?}", wire.health());
        let answer = run(wire, count(key), deadline).await;
        if answer.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tally.take(&answer);
    }
    tally
}
