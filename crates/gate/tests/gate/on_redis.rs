//! Gates on a real Redis, whose time stands still until a test moves it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_gate::{Gate, Sample};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;

use crate::stand::{START, clock_at, rules};

/// Longer than any server of a test needs for anything.
const LONG: Duration = Duration::from_secs(20);

/// A gate on a server of its own.
pub(crate) async fn still(policy: &str) -> (Server, Gate, Arc<ManualClock>) {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let gate = node(&server, &clock, policy).await;
    (server, gate, clock)
}

/// Another node on the same server.
pub(crate) async fn node(server: &Server, clock: &Arc<ManualClock>, policy: &str) -> Gate {
    let fleet = Fleet::new(store(server, clock).await);
    let builder = Gate::builder().rules(rules(policy)).store(fleet).beat_every(None);
    builder.clock(Arc::clone(clock) as Arc<dyn Clock>).open().unwrap()
}

pub(crate) async fn store(server: &Server, clock: &Arc<ManualClock>) -> RedisStore {
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let judge = Arc::clone(clock) as Arc<dyn Clock>;
    builder.deadline(LONG).judged_by(judge).connect().await.unwrap()
}

/// How many of so many pass.
pub(crate) async fn passed(gate: &Gate, request: &Sample, asked: usize) -> usize {
    let mut passed = 0;
    for _ in 0..asked {
        passed += usize::from(gate.admit(request).await.verdict().passes());
    }
    passed
}

/// What is left under each limit, which is given back at once.
pub(crate) async fn looks(gate: &Gate, request: &Sample) -> Vec<u32> {
    let mut admission = gate.admit(request).await;
    assert!(!admission.by().is_fallback(), "by {}", admission.by());
    let passes = admission.verdict().passes();
    let left = admission.each().map(|answer| {
        let taken = if passes && answer.decision.verdict.passes() { answer.cost } else { 0 };
        answer.decision.remaining + taken
    });
    let left = left.collect();
    admission.refund().await;
    left
}
