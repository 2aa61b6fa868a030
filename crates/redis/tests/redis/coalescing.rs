//! Requests that are asked at the same time travel together, and are decided one by one.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{FleetCharge, FleetKey, FleetRule, RedisStore, Settings};
use tidegate_store::Limiter;
use tidegate_testbed::{Proxy, Server, until};
use tokio::task::JoinSet;

use crate::stand::{LONG, Node, calls, key, permits, still_store, store};

/// Asks for each key at the same time; how many pass.
async fn ask_all(store: &RedisStore, rule: &FleetRule, keys: Vec<FleetKey>) -> usize {
    let mut asking = JoinSet::new();
    for key in keys {
        let (store, rule) = (store.clone(), rule.clone());
        asking.spawn(async move { store.decide(&rule, &key, 1).await.unwrap().verdict.passes() });
    }
    asking.join_all().await.into_iter().filter(|passes| *passes).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hot_key_takes_few_calls_and_exactly_its_limit_passes() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog] {
        let rule = store.rule(kind.name(), Policy::new(kind, Quota::per_hour(700)).unwrap());
        // The script's text is sent with the first call.
        assert!(store.decide(&rule, &key("other"), 1).await.is_ok());
        let before = calls(&server);
        let passed = ask_all(&store, &rule.remember_refusals(false), vec![key("hot"); 1_000]).await;
        assert_eq!(passed, 700, "{kind:?}");
        let calls = calls(&server) - before;
        assert!(calls <= 200, "{calls} calls for 1000 requests");
    }
}

/// A caller that asks alone sends its request itself, and may stop polling without going away.
/// Those behind it have deadlines of their own.
#[tokio::test]
async fn a_caller_that_stops_to_poll_holds_nobody_up_beyond_the_deadline() {
    let server = Server::start().unwrap();
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(Duration::from_millis(200)).connect().await.unwrap();
    let rule = store.rule("client", Policy::token_bucket(Quota::per_hour(2)).unwrap());
    let (one, other) = (key("one"), key("other"));
    assert!(store.decide(&rule, &other, 1).await.is_ok());
    let mut stopped = Box::pin(store.decide(&rule, &one, 1));
    assert!(poll_fn(|context| Poll::Ready(stopped.as_mut().poll(context))).await.is_pending());
    let behind = tokio::time::timeout(LONG, store.decide(&rule, &other, 1)).await;
    assert!(behind.expect("its deadline is watched").is_err());
    drop(stopped);
    assert!(store.decide(&rule, &other, 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_take_few_calls_too() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let rule = store.rule("client", Policy::token_bucket(Quota::per_hour(2)).unwrap());
    assert!(store.decide(&rule, &key("other"), 1).await.is_ok());
    let before = calls(&server);
    // Three of each: two of them pass.
    let keys = (0..999_u32).map(|number| FleetKey::new(number % 333).unwrap()).collect();
    assert_eq!(ask_all(&store, &rule, keys).await, 666);
    let calls = calls(&server) - before;
    assert!(calls <= 200, "{calls} calls for 999 requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_differ_travel_together_and_are_judged_apart() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let builder = Limiter::builder().each("client", Quota::per_hour(3));
    let limiter = Node::on(store, builder.all("everyone", Quota::per_hour(100)));
    let mut asking = JoinSet::new();
    for number in 0..400_u32 {
        let limiter = limiter.clone();
        asking.spawn(async move { limiter.decide(number % 40).await.verdict().passes() });
    }
    let passed = asking.join_all().await.into_iter().filter(|passes| *passes).count();
    assert_eq!(passed, 100);
    let look = limiter.key("new").cost(0).peek().await;
    assert_eq!(look.of("everyone").unwrap().remaining, 0);
    let mut taken = 0;
    for number in 0..40_u32 {
        let look = limiter.key(number).cost(0).peek().await;
        taken += 3 - look.of("client").unwrap().remaining;
    }
    assert_eq!(taken, 100, "who was refused by one was not charged by the other");
}

#[tokio::test]
async fn a_batch_answers_each_in_its_place() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let bucket = store.rule("bucket", Policy::token_bucket(Quota::per_hour(10)).unwrap());
    let window = Policy::new(Kind::FixedWindow, Quota::per_hour(4)).unwrap();
    let window = store.rule("window", window);
    let (ada, bob) = (key("ada"), key("bob"));
    let charge = |rule, key, cost| FleetCharge { rule, key, cost };
    let charges = [
        charge(&bucket, &ada, 4),
        charge(&window, &ada, 4),
        charge(&bucket, &ada, 7),
        charge(&bucket, &bob, 1),
        charge(&window, &ada, 1),
        charge(&bucket, &ada, 6),
        charge(&window, &bob, 5),
    ];
    assert!(store.decide(&bucket, &key("other"), 1).await.is_ok());
    let before = calls(&server);
    let answers = store.decide_batch(&charges).await;
    assert!(calls(&server) - before <= 3);
    let told: Vec<(bool, u32)> = answers
        .iter()
        .map(|it| it.as_ref().unwrap())
        .map(|it| (it.verdict.passes(), it.remaining))
        .collect();
    let wanted = [(true, 6), (true, 0), (false, 6), (true, 9), (false, 0), (true, 0), (false, 4)];
    assert_eq!(told, wanted);
    assert!(store.decide_batch(&[]).await.is_empty());
    // Alike, in one batch: the first ones pass.
    let alike = vec![charge(&window, &bob, 1); 6];
    let answers = store.decide_batch(&alike).await;
    let left: Vec<u32> = answers.iter().map(|it| it.as_ref().unwrap().remaining).collect();
    assert_eq!(left, [3, 2, 1, 0, 0, 0]);
}

/// A request waits behind another one that is under way; its caller goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_away_while_it_waits_gets_its_charge_back() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let store = store(&proxy.url()).await;
    let rule = store.rule("client", Policy::token_bucket(Quota::per_day(10)).unwrap());
    assert!(store.decide(&rule, &key("other"), 1).await.is_ok());
    proxy.delay(Duration::from_millis(50));
    let begun = Arc::new(AtomicUsize::new(0));
    let asking = |cost| {
        let (store, rule, begun) = (store.clone(), rule.clone(), Arc::clone(&begun));
        tokio::spawn(async move {
            begun.fetch_add(1, Ordering::SeqCst);
            store.decide(&rule, &key("ada"), cost).await
        })
    };
    let sent = calls(&server);
    let first = asking(1);
    until(LONG, "the first is under way", || sent < calls(&server)).unwrap();
    let waiting = [asking(3), asking(4)];
    // A task that has begun is in the queue before it can be aborted.
    until(LONG, "both have asked", || begun.load(Ordering::SeqCst) == 3).unwrap();
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(first.await.unwrap().unwrap().verdict.passes());
    proxy.delay(Duration::ZERO);
    let left = async || store.peek(&rule, &key("ada"), 0).await.unwrap().remaining;
    tokio::time::timeout(LONG, async { while left().await != 9 {} }).await.unwrap();
}

/// The caller goes away where permits are lent: even one that asks alone leaves none behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_nobody_waits_for_any_more_comes_back() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let limiter = Limiter::builder().each("flights", permits(1, Span::from_secs(3_600)));
    let limiter = Arc::new(Node::on(store(&proxy.url()).await, limiter));
    drop(limiter.key("other").enter().await.unwrap());
    proxy.delay(Duration::from_millis(30));
    let mut gone = 0;
    while gone < 3 {
        let sent = calls(&server);
        let asking = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.key("ada").enter().await.is_ok() }
        });
        until(LONG, "it is under way", || sent < calls(&server)).unwrap();
        asking.abort();
        // On a busy machine it may have had its answer by now.
        gone += u32::from(asking.await.is_err_and(|error| error.is_cancelled()));
        let free = async || limiter.key("ada").peek().await.verdict().passes();
        tokio::time::timeout(LONG, async { while !free().await {} }).await.unwrap();
    }
}
