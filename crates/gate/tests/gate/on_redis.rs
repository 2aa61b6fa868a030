//! Gates on a real Redis, whose time stands still until a test moves it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_gate::{Gate, GateBuilder, Sample};
use tidegate_redis::{Fleet, RedisStore, Settings, StoreBuilder};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;

use crate::stand::{RUNTIME, START, clock_at, rules};

#[path = "laws/mod.rs"]
mod laws;
#[path = "laws/overrides.rs"]
mod overrides;
#[path = "laws/reload.rs"]
mod reload;

/// Every answer is a round trip.
const FEWER: u32 = 20;

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
    builder(server, clock).connect().await.unwrap()
}

fn builder(server: &Server, clock: &Arc<ManualClock>) -> StoreBuilder {
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    builder.deadline(LONG).judged_by(Arc::clone(clock) as Arc<dyn Clock>)
}

/// A place on the server of this test, which has a thread of its own.
fn with_store(gate: GateBuilder, place: u64, clock: &Arc<ManualClock>) -> GateBuilder {
    thread_local! {
        static SERVER: Server = Server::start().unwrap();
    }
    let store = SERVER.with(|server| builder(server, clock).prefix(&format!("{place}:")));
    let fleet = RUNTIME.block_on(async { Fleet::new(store.connect().await.unwrap()) });
    gate.store(fleet).beat_every(None)
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
