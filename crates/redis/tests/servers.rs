//! Every server that is fit does the same; one that is too old is named; a full one is lived with.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span, Verdict};
use tidegate_redis::{By, ConnectError, Fleet, FleetCharge, StoreError, WithoutStore};
use tidegate_store::Limiter;
use tidegate_testbed::{Flavor, Reply, Server};

use self::stand::{Node, key, names, still_store, store};

#[tokio::test]
async fn every_server_decides_refuses_and_gives_back() {
    for flavor in Flavor::all_there() {
        let server = Server::builder().flavor(flavor).start().unwrap();
        let (store, clock) = still_store(&server.url()).await;
        for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog] {
            let rule = store.rule(kind.name(), Policy::new(kind, Quota::per_minute(2)).unwrap());
            let ada = key("ada");
            let (first, receipt) = store.decide_with_receipt(&rule, &ada, 1).await.unwrap();
            assert_eq!(
                (first.verdict, first.remaining),
                (Verdict::Allow, 1),
                "{flavor:?} {kind:?}"
            );
            assert!(store.decide(&rule, &ada, 1).await.unwrap().verdict.passes());
            let refused = store.decide(&rule, &ada, 1).await.unwrap().verdict;
            let Verdict::Deny { retry_after } = refused else { panic!("{flavor:?}: {refused:?}") };
            store.refund(&rule, &ada, receipt.unwrap()).await.unwrap();
            let other = store.rule("other", Policy::token_bucket(Quota::per_hour(1)).unwrap());
            let charges = [&rule, &other].map(|rule| FleetCharge { rule, key: &ada, cost: 1 });
            assert!(store.decide_all(&charges).await.unwrap().verdict().passes());
            assert!(!store.decide_all(&charges).await.unwrap().verdict().passes());
            clock.advance(retry_after);
            assert!(store.decide(&rule, &ada, 1).await.unwrap().verdict.passes());
            store.reset(&rule, &ada).await.unwrap();
            store.reset(&other, &ada).await.unwrap();
        }
        assert!(names(&server).is_empty(), "{flavor:?}");
        let health = store.health();
        assert!(health.is_connected() && !health.nodes[0].server.is_empty(), "{health:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_named() {
    if Flavor::Old.binary().is_err() {
        return;
    }
    let server = Server::builder().flavor(Flavor::Old).start().unwrap();
    let error = Fleet::connect(&server.url()).await.unwrap_err();
    let text = error.to_string();
    let wanted = ConnectError::TooOld {
        address: format!("127.0.0.1:{}", server.port()),
        version: text.split(" is ").nth(1).unwrap().split(';').next().unwrap().to_owned(),
    };
    assert_eq!(error, wanted);
    assert!(text.contains("redis 5.0") && text.contains("use a 64-bit Redis 6.2"), "{text}");
}

/// Fills a server that evicts nothing.
fn fill(server: &Server) {
    server.must(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert!(matches!(server.run(&["SET", "more", "x"]).unwrap(), Reply::Error(_)));
}

#[tokio::test]
async fn a_full_server_still_refuses_and_charges_nothing() {
    for flavor in Flavor::all_there() {
        let server = Server::builder().flavor(flavor).start().unwrap();
        let store = store(&server.url()).await;
        let policy = Policy::token_bucket(Quota::per_day(2)).unwrap();
        let rule = store.rule("client", policy).remember_refusals(false);
        assert!(store.decide(&rule, &key("ada"), 2).await.unwrap().verdict.passes());
        assert!(store.decide(&rule, &key("bob"), 1).await.unwrap().verdict.passes());
        fill(&server);
        for _ in 0..2 {
            let answer = store.decide(&rule, &key("bob"), 1).await;
            assert!(matches!(answer, Err(StoreError::NotCharged(_))), "{flavor:?} {answer:?}");
            let answer = store.decide(&rule, &key("ada"), 1).await.unwrap();
            assert!(!answer.verdict.passes(), "{flavor:?}");
        }
        server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        assert_eq!(store.peek(&rule, &key("bob"), 0).await.unwrap().remaining, 1, "{flavor:?}");
    }
}

#[tokio::test]
async fn what_a_server_refuses_is_no_damage_of_keys_that_were_never_there() {
    for flavor in Flavor::all_there() {
        let server = Server::builder().flavor(flavor).start().unwrap();
        let store = store(&server.url()).await;
        let rules = [
            Policy::token_bucket(Quota::per_day(2)).unwrap(),
            Policy::new(Kind::Gcra, Quota::per_minute(60)).unwrap(),
        ]
        .map(|policy| store.rule(policy.kind().name(), policy).remember_refusals(false));
        let keys: Vec<_> = (0..3).map(|number| key(&format!("new-{number}"))).collect();
        let deny: [&[&str]; 2] = [
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            &["CONFIG", "SET", "maxmemory", "1"],
        ];
        for (setting, rule) in
            deny.into_iter().flat_map(|it| rules.iter().map(move |rule| (it, rule)))
        {
            server.must(setting).unwrap();
            let charges: Vec<_> =
                keys.iter().map(|key| FleetCharge { rule, key, cost: 1 }).collect();
            for answer in store.decide_batch(&charges).await {
                let Err(StoreError::NotCharged(why)) = &answer else { panic!("{answer:?}") };
                let text = format!("{why:?}");
                assert!(!text.contains("state"), "{flavor:?} {setting:?} {text}");
            }
            server.must(&["CONFIG", "SET", setting[2], "0"]).unwrap();
        }
        assert!(names(&server).is_empty(), "{flavor:?}");
    }
}

#[tokio::test]
async fn whoever_a_full_server_cannot_charge_is_decided_without_it() {
    let server = Server::start().unwrap();
    let new = async |without| {
        let builder = Limiter::builder().each("client", Quota::per_day(3));
        let builder = builder.without_store(without);
        Node::within(Duration::from_secs(5), &server.url(), builder).await
    };
    let open = new(WithoutStore::Open).await;
    let closed = new(WithoutStore::Closed).await;
    let local = new(WithoutStore::Local { nodes: 3 }).await;
    for limiter in [&open, &closed, &local] {
        assert!(limiter.decide("ada").await.verdict().passes());
    }
    fill(&server);
    let answer = open.decide("bob").await;
    assert_eq!((answer.by(), answer.verdict()), (By::Open, Verdict::Allow));
    let answer = closed.decide("bob").await;
    let retry_after = Span::from_secs(1);
    assert_eq!((answer.by(), answer.verdict()), (By::Closed, Verdict::Deny { retry_after }));
    for passes in [true, false] {
        let answer = local.decide("bob").await;
        assert_eq!((answer.by(), answer.verdict().passes()), (By::Local, passes));
    }
    // Those were refused by Redis, which needs no memory for it.
    assert_eq!(open.decide("ada").await.by(), By::Store);
    server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    // Only what this node let pass by its share is charged now.
    let asking = async {
        while local.decide("bob").await.by() != By::Store {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(stand::LONG, asking).await.unwrap();
    let left = local.key("bob").cost(0).peek().await.decision().remaining;
    assert_eq!(left, 1, "one by its share, and the one just now");
}
