//! Limits that follow the load in a fleet: nodes tell each other through a real Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::adapt::Fraction;
use tidegate_gate::{Gate, Load};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;

use crate::stand::{START, by, clock_at, rules};

const POLICY: &str = "rules: [{ name: r, key: header:x-api-key, limit: 1600/h, adaptive: 25% }]";

async fn store(server: &Server) -> RedisStore {
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    builder.deadline(Duration::from_secs(2)).connect().await.unwrap()
}

async fn node(server: &Server, clock: &Arc<ManualClock>) -> Gate {
    node_of(server, clock, POLICY).await
}

async fn node_of(server: &Server, clock: &Arc<ManualClock>, policy: &str) -> Gate {
    let builder = Gate::builder().rules(rules(policy)).store(Fleet::new(store(server).await));
    builder.clock(Arc::clone(clock) as Arc<dyn Clock>).open().unwrap()
}

fn push(gate: &Gate, percent: u32, ttl: Span) {
    let load = Fraction::from_millionths(percent * 10_000);
    gate.load(&Load { source: "s", load, ttl }).unwrap();
}

/// Lets time pass for all until a gate has come to this factor.
async fn until(gates: &[&Gate], clock: &ManualClock, gate: &Gate, percent: u8) {
    for _ in 0..400 {
        for one in gates {
            one.advance();
        }
        if gate.load_reading().factor == Fraction::from_percent(percent) {
            return;
        }
        clock.advance(Span::from_millis(100));
        // What nodes tell each other goes its way.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it is {:?}", gate.load_reading());
}

async fn left(gate: &Gate) -> u32 {
    let admission = gate.admit(&by("a")).await;
    assert!(!admission.by().is_fallback(), "by {}", admission.by());
    admission.each().next().unwrap().decision.remaining
}

#[tokio::test]
async fn what_one_node_is_told_counts_for_all_and_what_was_consumed_is_kept() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let (one, two) = (node(&server, &clock).await, node(&server, &clock).await);
    for _ in 0..600 {
        assert!(one.admit(&by("a")).await.verdict().passes());
    }
    clock.advance(Span::from_secs(1));
    push(&one, 200, Span::from_secs(10));
    until(&[&one, &two], &clock, &two, 50).await;
    assert_eq!(two.load_reading().fleet, Fraction::from_percent(50));
    // Of 800, as much as it was of 1600; some of it may have been paid off by now.
    let seen = left(&two).await;
    assert!((498..=510).contains(&seen), "{seen}");
    // Nobody says anything any more.
    until(&[&one, &two], &clock, &two, 100).await;
    until(&[&one, &two], &clock, &one, 100).await;
    let seen = left(&one).await;
    assert!((996..=1_020).contains(&seen), "{seen}");
}

#[tokio::test]
async fn whoever_asks_while_less_is_given_out_gets_nothing_back() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let gate = node(&server, &clock).await;
    for _ in 0..1_600 {
        assert!(gate.admit(&by("a")).await.verdict().passes());
    }
    let mut more = 0;
    for _ in 0..3 {
        clock.advance(Span::from_secs(1));
        push(&gate, 200, Span::from_secs(1));
        until(&[&gate], &clock, &gate, 50).await;
        while gate.admit(&by("a")).await.verdict().passes() {
            more += 1;
        }
        until(&[&gate], &clock, &gate, 100).await;
        while gate.admit(&by("a")).await.verdict().passes() {
            more += 1;
        }
    }
    // Redis counts by its own clock: a second pays less than half a cell.
    assert!(more <= 10, "{more}");
}

/// When the node that heard of the load is gone, the others do not take all of it back at once.
#[tokio::test]
async fn others_climb_when_the_node_that_was_told_is_gone() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let policy = POLICY.replace("25%", "10%");
    let (one, two) =
        (node_of(&server, &clock, &policy).await, node_of(&server, &clock, &policy).await);
    let eighth = Fraction::from_millionths(125_000);
    for _ in 0..100 {
        // Each word halves what is left.
        push(&one, 200, Span::from_secs(10));
        if two.load_reading().factor <= eighth {
            break;
        }
        clock.advance(Span::from_secs(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(one);
    let mut factors = vec![two.load_reading().factor.get()];
    assert!(factors[0] <= eighth.get(), "{factors:?}");
    for _ in 0..400 {
        // As when its lease is over, also if it was about to say something.
        server.must(&["DEL", "tg:{%%}factor"]).unwrap();
        clock.advance(Span::from_millis(100));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let factor = two.load_reading().factor.get();
        if factors.last() != Some(&factor) {
            factors.push(factor);
        }
    }
    assert_eq!(factors.last(), Some(&1_000_000));
    // A step at a time from the smallest, and no more than that each second.
    assert!(factors.windows(2).all(|it| it[1] <= 2 * it[0]), "{factors:?}");
}

#[tokio::test]
async fn without_redis_a_node_goes_by_its_own() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let (one, two) = (node(&server, &clock).await, node(&server, &clock).await);
    clock.advance(Span::from_secs(1));
    push(&one, 200, Span::from_secs(10));
    until(&[&two], &clock, &two, 50).await;
    drop(server);
    until(&[&two], &clock, &two, 100).await;
    push(&one, 400, Span::from_secs(10));
    until(&[&one], &clock, &one, 25).await;
    assert_eq!(two.load_reading().factor, Fraction::WHOLE);
}

#[tokio::test]
async fn the_smallest_of_those_alive_counts_and_a_lease_ends_by_itself() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    let long = Span::from_secs(60);
    let tell = async |node, percent: Option<u8>, lease| {
        let said = store.share_factor(node, percent.map(Fraction::from_percent), lease).await;
        said.unwrap()
    };
    assert_eq!(tell(1, None, long).await, Fraction::WHOLE);
    assert_eq!(tell(1, Some(80), long).await, Fraction::from_percent(80));
    assert_eq!(tell(2, Some(30), long).await, Fraction::from_percent(30));
    assert_eq!(tell(1, Some(90), long).await, Fraction::from_percent(30));
    // It knows nothing any more.
    assert_eq!(tell(2, None, long).await, Fraction::from_percent(90));
    assert_eq!(tell(3, Some(10), Span::from_millis(30)).await, Fraction::from_percent(10));
    let mut seen = Fraction::NONE;
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen = tell(4, None, long).await;
        if seen != Fraction::from_percent(10) {
            break;
        }
    }
    assert_eq!(seen, Fraction::from_percent(90));
    let kept = server.must(&["HLEN", "tg:{%%}factor"]).unwrap();
    assert_eq!(kept.text(), "1");
}

/// As the thread that watches a policy does.
#[tokio::test]
async fn a_thread_without_a_runtime_tells_the_fleet_as_well() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let (one, two) = (node(&server, &clock).await, node(&server, &clock).await);
    clock.advance(Span::from_secs(1));
    let told = one.clone();
    let thread = std::thread::spawn(move || push(&told, 200, Span::from_secs(10)));
    thread.join().unwrap();
    until(&[&two], &clock, &two, 50).await;
}
