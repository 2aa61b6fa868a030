//! Decisions without Redis are said in the log, once a second at most.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Quota;
use tidegate_redis::{FleetLimiter, WithoutStore};
use tidegate_testbed::{Server, until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use self::stand::LONG;
use self::stand::load::Load;

static LINES: AtomicU64 = AtomicU64::new(0);

/// Counts the lines that say that Redis did not decide.
struct Counting;

impl Subscriber for Counting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" && format!("{value:?}").contains("decided without Redis") {
            LINES.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_decisions_without_redis_are_a_few_lines() {
    tracing::subscriber::set_global_default(Counting).unwrap();
    let mut server = Server::start().unwrap();
    let builder = FleetLimiter::builder().each("client", Quota::per_second(1));
    let builder = builder.without_store(WithoutStore::Open);
    let limiter = builder.connect(&server.url()).await.unwrap();
    assert!(limiter.decide("ada").await.verdict().passes());
    server.kill();
    let load = Load::start(&limiter, &["ada", "bob"], 4);
    let from = load.now();
    until(LONG, "much is decided without Redis", || 3_000 < limiter.counts().open).unwrap();
    let seconds = load.now().since(from).as_secs_ceil();
    load.stop().await;
    let lines = LINES.load(Ordering::Relaxed);
    assert!((1..=seconds + 1).contains(&lines), "{lines} lines in {seconds} s");
}
