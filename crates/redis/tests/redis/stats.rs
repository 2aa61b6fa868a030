//! What a fleet says of its Redis: each number is what it says it is.

use std::time::Duration;

use tidegate_core::{Policy, Quota};
use tidegate_redis::{Fleet, FleetKey, SharedCharge, SharedRule, WithoutStore};
use tidegate_testbed::Server;

use crate::stand::{key, names, store};

fn rule(fleet: &Fleet, name: &str, without: WithoutStore) -> SharedRule {
    fleet.rule(name, Policy::token_bucket(Quota::per_day(5)).unwrap(), without).unwrap()
}

fn one<'a>(rule: &'a SharedRule, key: &'a FleetKey) -> [SharedCharge<'a>; 1] {
    [SharedCharge { rule, key, cost: 1 }]
}

#[tokio::test]
async fn decisions_calls_and_how_long_they_took() {
    let server = Server::start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await);
    let rule = rule(&fleet, "r", WithoutStore::Open);
    assert_eq!(fleet.stats().calls, 0);
    for _ in 0..5 {
        let _ = fleet.decide(&one(&rule, &key("ada"))).await;
    }
    let stats = fleet.stats();
    assert_eq!((stats.decisions.store, stats.calls, stats.round_trips.count()), (5, 5, 5));
    let micros = stats.round_trips.total.get();
    assert!((5..20_000_000).contains(&micros), "{micros} us for five calls");
    // What travels together is one call.
    let keys: Vec<FleetKey> = (0..100).map(|id| key(&format!("key {id}"))).collect();
    let charges: Vec<_> = keys.iter().flat_map(|key| one(&rule, key)).collect();
    assert_eq!(fleet.decide_separately(&charges).await.len(), 100);
    let stats = fleet.stats();
    assert_eq!(stats.decisions.store, 105);
    assert!((6..20).contains(&stats.calls), "{} calls", stats.calls);
    assert!(stats.errors.each().iter().all(|(_, count)| *count == 0), "{:?}", stats.errors);
    assert_eq!((stats.resting, stats.health.is_connected()), (0, true));
    assert_eq!(fleet.local_stats().keys, 0);
}

#[tokio::test]
async fn a_state_that_is_none_of_ours_is_counted_as_damaged() {
    let server = Server::start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await);
    let rule = rule(&fleet, "r", WithoutStore::Closed);
    let ada = key("ada");
    let _ = fleet.decide(&one(&rule, &ada)).await;
    let name = names(&server).pop().unwrap();
    server.must(&["SET", &name, "something else"]).unwrap();
    let _ = fleet.decide(&one(&rule, &ada)).await;
    let stats = fleet.stats();
    assert_eq!((stats.errors.damaged, stats.decisions.closed), (1, 1));
}

#[tokio::test]
async fn an_outage_is_seen_in_errors_in_the_breaker_and_in_what_decided() {
    let server = Server::start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await.within(Duration::from_millis(20)));
    let (open, local) = (
        rule(&fleet, "o", WithoutStore::Open),
        rule(&fleet, "l", WithoutStore::Local { nodes: 1 }),
    );
    let ada = key("ada");
    server.pause();
    for _ in 0..10 {
        let _ = fleet.decide(&one(&open, &ada)).await;
    }
    let stats = fleet.stats();
    assert_eq!(stats.decisions.open, 10);
    let errors = stats.errors;
    assert!(3 <= errors.unanswered && 1 <= errors.resting, "{errors:?}");
    assert_eq!(errors.each().iter().map(|(_, count)| count).sum::<u64>(), 10, "{errors:?}");
    assert_eq!(stats.resting, 1);
    // They took as long as they were waited for.
    let slow: u64 = stats.round_trips.counts[6..].iter().sum();
    assert!(3 <= slow, "{:?}", stats.round_trips);
    let _ = fleet.decide(&one(&local, &ada)).await;
    assert_eq!(fleet.stats().decisions.local, 1);
    assert_eq!(fleet.local_stats().keys, 1, "what was let through");
    server.resume();
}

#[tokio::test]
async fn a_server_that_may_evict_our_keys_is_seen() {
    let server = Server::builder().setting("maxmemory", "100mb");
    let server = server.setting("maxmemory-policy", "allkeys-lru").start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await);
    let warning = fleet.stats().health.nodes[0].eviction_warning.clone().unwrap();
    assert!(warning.contains("`allkeys-lru`"), "{warning}");
}
