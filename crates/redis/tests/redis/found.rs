//! Faults that were found by looking: each has a test that names it.

use std::time::Duration;

use crate::stand::{Node, key, names, permits, still_store, store};
use tidegate_core::{Kind, Policy, Quota, Span, Tick, Verdict};
use tidegate_redis::{By, FleetCharge, FleetKey, Settings, StoreError, WithoutStore};
use tidegate_redis::{ConnectError, RedisStore};
use tidegate_store::{Clock, Limiter, LimiterBuilder};
use tidegate_testbed::{Cluster, Server, until};

fn log(limit: u32, per: Span) -> Policy {
    Policy::new(Kind::SlidingLog, Quota::new(limit, per)).unwrap()
}

/// Ticks are kept by their lower bits only; an event older than the new period would come back.
#[tokio::test]
async fn a_log_is_carried_to_a_shorter_period_without_what_has_left() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let rule = store.rule("log", log(10, Span::from_secs(7_200)));
    assert!(store.decide(&rule, &key("ada"), 5).await.unwrap().verdict.passes());
    clock.advance(Span::from_secs(36 * 60));
    assert!(store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
    let rule = rule.change(log(10, Span::from_secs(1_800)), clock.now());
    let decision = store.decide(&rule, &key("ada"), 7).await.unwrap();
    assert_eq!((decision.verdict, decision.remaining), (Verdict::Allow, 2));
}

/// A refund of what cannot be read must neither stop others nor charge them unseen.
#[tokio::test]
async fn a_damaged_key_spoils_no_refund_and_no_look_of_others() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    for kind in [Kind::Gcra, Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog] {
        let rule = store.rule(kind.name(), Policy::new(kind, Quota::per_hour(9)).unwrap());
        let (_, receipt) = store.decide_with_receipt(&rule, &key("bad"), 1).await.unwrap();
        server.must(&["SET", &names(&server)[0], "abc"]).unwrap();
        let (bad, good) = (key("bad"), key("good"));
        let (refund, look, decision) = tokio::join!(
            store.refund(&rule, &bad, receipt.unwrap()),
            store.peek(&rule, &bad, 0),
            store.decide(&rule, &good, 1),
        );
        assert!(matches!(refund, Err(StoreError::Damaged(_))), "{kind}: {refund:?}");
        assert!(matches!(look, Err(StoreError::Damaged(_))), "{kind}: {look:?}");
        assert_eq!(decision.unwrap().remaining, 8, "{kind}");
        server.must(&["FLUSHALL"]).unwrap();
    }
}

/// Somebody with more time in front must not make others late.
#[tokio::test]
async fn a_slow_call_in_front_does_not_hold_up_others() {
    let server = Server::start().unwrap();
    let patient = store(&server.url()).await;
    let hurried = patient.within(Duration::from_millis(30));
    let rule = patient.rule("r", Policy::token_bucket(Quota::per_second(9)).unwrap());
    patient.decide(&rule, &key("ada"), 1).await.unwrap();
    server.pause();
    let (slow, fast) = (rule.clone(), rule.clone());
    let waits = tokio::spawn(async move { patient.decide(&slow, &key("ada"), 1).await });
    tokio::task::yield_now().await;
    let bob = key("bob");
    let answer = hurried.decide(&fast, &bob, 1);
    let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
    assert!(matches!(answer, Ok(Err(StoreError::Unknown(_)))), "{answer:?}");
    server.resume();
    assert!(waits.await.unwrap().is_ok());
}

/// A server that is full still refuses, and a request that is refused is not let through by others.
#[tokio::test]
async fn a_full_server_still_refuses() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let rule = store.rule("r", Policy::token_bucket(Quota::per_hour(1)).unwrap());
    let rule = rule.remember_refusals(false);
    assert!(store.decide(&rule, &key("spent"), 1).await.unwrap().verdict.passes());
    server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for _ in 0..5 {
        let keys = ["spent", "fresh", "spent", "other"].map(key);
        let charges = keys.each_ref().map(|key| FleetCharge { rule: &rule, key, cost: 1 });
        let answers = store.decide_batch(&charges).await;
        for (index, answer) in answers.iter().enumerate() {
            match answer {
                Ok(decision) => assert!(index % 2 == 0 && !decision.verdict.passes()),
                Err(error) => assert!(index % 2 == 1 && error.is_certain(), "{error}"),
            }
        }
    }
    server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert!(store.decide(&rule, &key("fresh"), 1).await.unwrap().verdict.passes());
}

/// Permits that were handed out without Redis come back here, and not at the end of a lease there.
#[tokio::test]
async fn permits_of_an_outage_do_not_stay_behind_in_redis() {
    let server = Server::start().unwrap();
    let builder = Limiter::builder()
        .each("work", permits(2, Span::from_secs(3_600)))
        .without_store(WithoutStore::Local { nodes: 1 });
    let limiter = Node::within(Duration::from_millis(20), &server.url(), builder).await;
    server.pause();
    let held = limiter.key("acme").enter().await.unwrap();
    assert_eq!(held.by(), By::Local);
    server.resume();
    let deadline = Duration::from_secs(20);
    let by_store = || async { limiter.key("acme").peek().await.by() == By::Store };
    tokio::time::timeout(deadline, async { while !by_store().await {} }).await.unwrap();
    drop(held);
    let both = [limiter.key("acme").enter().await, limiter.key("acme").enter().await];
    assert!(both.iter().all(|it| it.as_ref().is_ok_and(|pass| pass.by() == By::Store)), "{both:?}");
}

/// Empty braces choose no slot: such a key would have had its former states elsewhere.
#[tokio::test]
async fn an_empty_tenant_can_change_its_quota_in_a_cluster() {
    let cluster = Cluster::start().unwrap();
    let store = store(&crate::stand::url_of("redis+cluster", cluster.nodes())).await;
    let rule = store.rule("r", Policy::token_bucket(Quota::per_hour(5)).unwrap());
    let nobody = FleetKey::new("").unwrap();
    assert_eq!(store.decide(&rule, &nobody, 2).await.unwrap().remaining, 3);
    let raised = Policy::token_bucket(Quota::per_hour(8)).unwrap();
    let rule = rule.change(raised, Tick::MAX);
    assert_eq!(store.decide(&rule, &nobody, 1).await.unwrap().remaining, 5);
}

/// A node that starts with a new quota takes over what was consumed under the old one.
#[tokio::test]
async fn a_new_process_can_be_told_what_the_quota_was() {
    let server = Server::start().unwrap();
    let node = |builder: LimiterBuilder| {
        let url = server.url();
        async move { Node::connect(&url, builder).await }
    };
    let old = node(Limiter::builder().each("r", Quota::per_hour(100))).await;
    assert_eq!(old.key("ada").cost(80).decide().await.decision().remaining, 20);
    let new = Limiter::builder().each("r", Quota::per_hour(150));
    let new = node(new.formerly(Quota::per_hour(100))).await;
    assert_eq!(new.key("ada").peek().await.decision().remaining, 70);
}

/// A user that may read and not write sees the error when it connects, and not on every decision.
#[tokio::test]
async fn a_user_that_may_not_write_is_told_at_the_start() {
    let server = Server::start().unwrap();
    let user = ["ACL", "SETUSER", "poor", "on", ">pw", "~tg:*", "+evalsha", "+eval", "+get"];
    let more = ["+time", "+info", "+client", "+exists"];
    server.must(&[&user[..], &more[..]].concat()).unwrap();
    let url = format!("redis://poor:pw@127.0.0.1:{}", server.port());
    let error = RedisStore::builder(Settings::from_url(&url).unwrap()).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::NoPermission { .. }), "{error}");
    assert!(error.to_string().contains("+psetex"), "{error}");
    let writes = ["+mget", "+set", "+psetex", "+incrby", "+pexpireat", "+del"];
    server.must(&[&["ACL", "SETUSER", "poor"], &writes[..]].concat()).unwrap();
    RedisStore::builder(Settings::from_url(&url).unwrap()).connect().await.unwrap();
    until(Duration::from_secs(5), "nothing is left behind", || names(&server).is_empty()).unwrap();
}
