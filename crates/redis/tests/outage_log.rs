//! Decisions without Redis stand in the log, once a second at most, and once that it is back.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Quota;
use tidegate_redis::WithoutStore;
use tidegate_store::Limiter;
use tidegate_testbed::{Server, until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use self::stand::load::Load;
use self::stand::{LONG, Node};

static LINES: AtomicU64 = AtomicU64::new(0);
static BACK: AtomicU64 = AtomicU64::new(0);

/// Counts the lines that say that Redis did not decide, and those that say that it does again.
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
        if field.name() != "message" {
            return;
        }
        let text = format!("{value:?}");
        for (line, count) in [("decided without Redis", &LINES), ("Redis is back", &BACK)] {
            if text.contains(line) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_decisions_without_redis_are_a_few_lines_and_its_return_is_one() {
    tracing::subscriber::set_global_default(Counting).unwrap();
    let mut server = Server::start().unwrap();
    let builder = Limiter::builder().each("client", Quota::per_second(1)).remember_refusals(false);
    let builder = builder.without_store(WithoutStore::Open);
    let limiter = Node::connect(&server.url(), builder).await;
    assert!(limiter.decide("ada").await.verdict().passes());
    server.kill();
    let load = Load::start(&limiter, &["ada", "bob"], 4);
    let from = load.now();
    until(LONG, "much is decided without Redis", || 3_000 < limiter.counts().open).unwrap();
    let seconds = load.now().since(from).as_secs_ceil();
    load.stop().await;
    let lines = LINES.load(Ordering::Relaxed);
    assert!((1..=seconds + 1).contains(&lines), "{lines} lines in {seconds} s");
    assert_eq!(BACK.load(Ordering::Relaxed), 0);
    server.restart().unwrap();
    let before = limiter.counts().store;
    let asking = async {
        while limiter.counts().store < before + 500 {
            let _ = limiter.decide("ada").await;
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap();
    assert_eq!(BACK.load(Ordering::Relaxed), 1);
}
