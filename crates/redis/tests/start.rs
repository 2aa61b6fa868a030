//! A node that starts while Redis is away decides as its rules say, and takes Redis into use.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::Quota;
use tidegate_redis::{By, ConnectError, Fleet, RedisStore, Settings, WithoutStore};
use tidegate_store::{Limiter, LimiterBuilder};
use tidegate_testbed::{Cluster, Sentinels, Server};

use self::stand::{LONG, Node};

fn limiter() -> LimiterBuilder {
    let builder = Limiter::builder().each("client", Quota::per_day(10));
    builder.without_store(WithoutStore::Local { nodes: 2 }).remember_refusals(false)
}

/// Starts without Redis, takes this node's share, and sees what is left once Redis is there.
async fn starts(url: &str, restart: impl FnOnce()) {
    let limiter = Node::connect(url, limiter()).await;
    assert!(!limiter.store().health().is_seen());
    let mut passed = 0;
    for _ in 0..20 {
        let answer = limiter.decide("ada").await;
        assert_eq!(answer.by(), By::Local);
        passed += u32::from(answer.verdict().passes());
    }
    assert_eq!(passed, 5, "one share of two");
    restart();
    let asking = async {
        while limiter.key("other").peek().await.by() != By::Store {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // What is owed is charged when the key is asked about.
        while limiter.decide("ada").await.by() != By::Store {}
    };
    tokio::time::timeout(LONG, asking).await.unwrap();
    assert!(limiter.store().health().is_seen());
    let mut left = 0;
    for _ in 0..10 {
        let answer = limiter.decide("ada").await;
        assert_eq!(answer.by(), By::Store);
        left += u32::from(answer.verdict().passes());
    }
    assert_eq!(left, 4, "ten, less the share, less the request that found Redis");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server() {
    let mut server = Server::start().unwrap();
    let url = server.url();
    server.kill();
    starts(&url, || server.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent() {
    let server = Server::start().unwrap();
    let url = server.url();
    server.pause();
    starts(&url, || server.resume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster() {
    let cluster = Cluster::start().unwrap();
    let hosts: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    for node in cluster.nodes() {
        node.pause();
    }
    let resume = || {
        for node in cluster.nodes() {
            node.resume();
        }
        cluster.wait_until_ok().unwrap();
    };
    starts(&url, resume).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_sentinels() {
    let sentinels = Sentinels::start().unwrap();
    let watchers = sentinels.sentinels().iter();
    let hosts: Vec<String> = watchers.map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
    let all =
        || [sentinels.primary(), sentinels.replica()].into_iter().chain(sentinels.sentinels());
    all().for_each(Server::pause);
    let resume = || {
        all().for_each(Server::resume);
        sentinels.wait_until_ok().unwrap();
    };
    starts(&url, resume).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_required() {
    let mut server = Server::start().unwrap();
    server.kill();
    let settings = Settings::from_url(&server.url()).unwrap();
    let error = RedisStore::builder(settings).required().connect().await.unwrap_err();
    let ConnectError::Unreachable { address, .. } = &error else { panic!("{error}") };
    assert_eq!(address, &format!("127.0.0.1:{}", server.port()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_stops_it_all_the_same() {
    let server = Server::builder().setting("requirepass", "secret").start().unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let error = Fleet::connect(&url).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error}");
}
