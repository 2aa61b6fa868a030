//! What a gate says of itself: each number is what it says it is.

use std::sync::Arc;

use tidegate_gate::Gate;
use tidegate_store::{Clock, MemoryStore};

use crate::stand::{by, clock, gate, rules, to};

const POLICY: &str = "identify: { client: [header:x-api-key] }
rules: [{ name: r, key: client, limit: 5/min }]";

#[test]
fn a_gate_in_this_process_says_what_its_store_holds() {
    let (gate, clock) = gate(POLICY);
    let empty = gate.stats();
    assert_eq!((empty.keys, empty.crowded, empty.forgotten), (0, 0, 0));
    for id in 0..500 {
        drop(gate.decide(&by(&format!("key {id}"))));
    }
    let stats = gate.stats();
    assert_eq!((stats.keys, gate.keys()), (500, 500));
    assert!(empty.bytes + 500 * 16 <= stats.bytes, "{} bytes", stats.bytes);
    assert!(stats.store.is_none());
    // A minute later they are forgotten, by the work of others.
    clock.advance(tidegate_core::Span::from_secs(60));
    for _ in 0..1_000_000 {
        if gate.stats().forgotten == 500 {
            break;
        }
        for _ in 0..256 {
            drop(gate.decide(&by("hot")));
        }
    }
    assert_eq!((gate.stats().keys, gate.stats().forgotten), (1, 500));
}

#[test]
fn requests_that_find_no_room_are_counted() {
    let builder = Gate::builder().rules(rules(POLICY)).memory(MemoryStore::with_keys_max(100));
    let gate = builder.clock(clock() as Arc<dyn Clock>).open().unwrap();
    for id in 0..1_000 {
        drop(gate.decide(&by(&format!("key {id}"))));
    }
    let stats = gate.stats();
    assert!(stats.keys <= 100 && 300 < stats.crowded, "{stats:?}");
}

/// A flood has a name: that of the rule whose keys leave no room.
#[test]
fn a_flood_of_keys_is_told_by_its_rule() {
    const POLICY: &str = "identify: { client: [header:x-api-key] }
rules:
  - { name: everybody, limit: 100000/min }
  - { name: logins, match: { path: /login }, key: client, limit: 5/min }
  - { name: others, match: { path: /other }, key: client, limit: 5/min }";
    let builder = Gate::builder().rules(rules(POLICY)).memory(MemoryStore::with_keys_max(400));
    let gate = builder.clock(clock() as Arc<dyn Clock>).open().unwrap();
    for id in 0..20 {
        drop(gate.decide(&to("GET /other", &format!("client {id}"))));
    }
    assert!(gate.crowds().iter().all(|(_, keys)| *keys == 0), "there is room");
    for id in 0..1_000 {
        drop(gate.decide(&to("POST /login", &format!("key {id}"))));
    }
    let crowds = gate.crowds();
    assert!(crowds.iter().map(|(name, _)| name).eq(["everybody", "logins", "others"]));
    let [everybody, logins, others] = [0, 1, 2].map(|at| crowds[at].1);
    assert!(everybody == 1 && others == 20 && 300 < logins, "{crowds:?}");
}

#[tokio::test]
async fn a_gate_by_redis_says_what_it_has_seen_of_it() {
    use tidegate_redis::{Fleet, RedisStore};
    use tidegate_testbed::Server;

    let server = Server::start().unwrap();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let gate = Gate::builder()
        .rules(rules(POLICY))
        .store(Fleet::new(store))
        .beat_every(None)
        .open()
        .unwrap();
    for _ in 0..3 {
        drop(gate.admit(&by("ada")).await);
    }
    let stats = gate.stats();
    let store = stats.store.expect("states are in Redis");
    let decisions = store.decisions;
    assert_eq!(decisions.store + decisions.local, 3);
    assert_eq!((store.calls, store.round_trips.count()), (3, 3));
    assert_eq!((stats.keys, store.resting), (0, 0));
    assert!(store.health.is_connected());
}
