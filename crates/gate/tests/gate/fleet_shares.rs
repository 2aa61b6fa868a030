//! Turns in a share where states are in Redis: limits there, queues here.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate_core::{Span, Verdict};
use tidegate_gate::{Gate, Reason};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::Clock;
use tidegate_testbed::Server;

use crate::stand::{START, by, clock_at, rules};

const POLICY: &str = "
identify: { client: [header:x-api-key] }
rules: [{ name: per-client, key: client, limit: 100/h }]
share: [{ name: backend, capacity: 1 in flight, by: client, wait: 1s }]
";

/// Waits until `what` is so.
async fn until(mut what: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if what().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come to that");
}

async fn left(gate: &Gate) -> u32 {
    gate.peek(&by("ada")).await.decision().remaining
}

#[tokio::test]
async fn who_gets_no_turn_is_charged_nothing_in_redis() {
    let server = Server::start().unwrap();
    let clock = clock_at(START);
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let judge = Arc::clone(&clock) as Arc<dyn Clock>;
    let builder = builder.deadline(Duration::from_secs(20)).judged_by(Arc::clone(&judge));
    let fleet = Fleet::new(builder.connect().await.unwrap());
    let gate = Gate::builder().rules(rules(POLICY)).store(fleet).clock(judge).open().unwrap();

    let held = gate.admit(&by("ada")).await;
    assert_eq!((held.verdict(), held.share()), (Verdict::Allow, Some("backend")));
    let mut waiting = Box::pin(gate.admit(&by("ada")));
    let waits = async || {
        let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        gate.stats().shares[0].waiting == 1
    };
    until(waits).await;
    assert_eq!(left(&gate).await, 98, "it is charged while it waits");
    clock.advance(Span::from_millis(1_001));
    let refused = waiting.await;
    assert_eq!((refused.reason(), refused.status()), (Reason::Crowded, 503));
    let told: Vec<u32> = refused.each().map(|it| it.decision.remaining).collect();
    assert_eq!(told, [99], "what is left without it");
    assert_eq!(left(&gate).await, 99);
    drop(held);
    assert_eq!(gate.admit(&by("bob")).await.verdict(), Verdict::Allow);
    assert_eq!(gate.stats().shares[0].in_flight, 0);
}
