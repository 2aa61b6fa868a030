//! What the tests of this folder stand on: stores on real servers, and what those have seen.

#![allow(dead_code, reason = "each test takes what it needs of it")]
#![allow(unreachable_pub, reason = "a module of several tests")]

pub mod load;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{DecisionCounts, Fleet, FleetKey, RedisStore, Settings};
use tidegate_store::{Clock, LimiterBuilder, ManualClock, SharedLimiter};
use tidegate_testbed::{Reply, Server};

/// Longer than any server of a test needs for anything.
pub const LONG: Duration = Duration::from_mins(1);

/// A store that judges by its server's clock, and that has time.
pub async fn store(url: &str) -> RedisStore {
    store_within(url, LONG).await
}

pub async fn store_within(url: &str, deadline: Duration) -> RedisStore {
    let builder = RedisStore::builder(Settings::from_url(url).unwrap());
    builder.deadline(deadline).connect().await.unwrap()
}

/// A store whose time stands still until a test moves it.
pub async fn still_store(url: &str) -> (RedisStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(1_000_000_000));
    (store_by(url, &clock).await, clock)
}

/// Another store that judges by the same clock: another node.
pub async fn store_by(url: &str, clock: &Arc<ManualClock>) -> RedisStore {
    let builder = RedisStore::builder(Settings::from_url(url).unwrap()).deadline(LONG);
    builder.judged_by(Arc::clone(clock) as Arc<dyn Clock>).connect().await.unwrap()
}

/// A node of a fleet: a limiter, and the store that it asks.
#[derive(Clone, Debug)]
pub struct Node {
    pub limiter: SharedLimiter,
    pub fleet: Fleet,
}

impl Node {
    pub fn new(builder: LimiterBuilder, fleet: Fleet) -> Node {
        Node { limiter: builder.build_on(Arc::new(fleet.clone())).unwrap(), fleet }
    }

    pub fn on(store: RedisStore, builder: LimiterBuilder) -> Node {
        Node::new(builder, Fleet::new(store))
    }

    /// A node with the deadline that is usual.
    pub async fn connect(url: &str, builder: LimiterBuilder) -> Node {
        Node::on(RedisStore::connect(url).await.unwrap(), builder)
    }

    pub async fn within(deadline: Duration, url: &str, builder: LimiterBuilder) -> Node {
        Node::on(store_within(url, deadline).await, builder)
    }

    pub fn store(&self) -> &RedisStore {
        self.fleet.store()
    }

    pub fn counts(&self) -> DecisionCounts {
        self.fleet.counts()
    }
}

impl Deref for Node {
    type Target = SharedLimiter;

    fn deref(&self) -> &SharedLimiter {
        &self.limiter
    }
}

/// A server and a node on it, whose time stands still until a test moves it.
pub async fn still(builder: LimiterBuilder) -> (Server, Node, Arc<ManualClock>) {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    (server, Node::on(store, builder), clock)
}

pub fn key(text: &str) -> FleetKey {
    FleetKey::new(text).unwrap()
}

pub fn permits(count: u32, lease: Span) -> Policy {
    Policy::new(Kind::Concurrency, Quota::in_flight(count, lease)).unwrap()
}

/// How often a server has run a command, as `INFO` counts them.
pub fn runs_of(server: &Server, command: &str) -> u64 {
    let stats = server.must(&["INFO", "commandstats"]).unwrap();
    let Some(line) = stats.field(&format!("cmdstat_{command}")) else { return 0 };
    let calls = line.split(',').find_map(|part| part.strip_prefix("calls="));
    calls.unwrap().parse().unwrap()
}

/// How often a server was called to decide anything.
pub fn calls(server: &Server) -> u64 {
    runs_of(server, "evalsha") + runs_of(server, "eval")
}

/// The names of all keys on a server, sorted.
pub fn names(server: &Server) -> Vec<String> {
    let keys = server.must(&["KEYS", "*"]).unwrap();
    let mut names: Vec<String> = keys.items().iter().map(Reply::text).collect();
    names.sort();
    names
}

/// `redis+cluster://` or `redis+sentinel://` with all of them.
pub fn url_of<'a>(scheme: &str, servers: impl IntoIterator<Item = &'a Server>) -> String {
    let hosts: Vec<String> =
        servers.into_iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("{scheme}://{}", hosts.join(","))
}

/// Has a server know the script by which nodes repay what they let through. One that does not know
/// it refuses what it was sent before it stood still, and what that carried is lost.
pub async fn teach_repaying(limiter: &Node, policy: Policy) {
    let store = limiter.store().within(LONG);
    let rule = store.rule("taught", policy);
    let _ = store.debit(&rule, &key("nobody"), 1).await.unwrap();
}
