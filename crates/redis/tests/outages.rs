//! Redis goes away and comes back, under load; what happened is read from a log of our own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::{Policy, Quota, Tick, Verdict};
use tidegate_redis::{By, FleetLimiter, FleetLimiterBuilder, StoreError, WithoutStore};
use tidegate_testbed::{Proxy, Server, until};
use tokio::sync::Mutex;

use self::stand::load::{Allowed, Load, Log};
use self::stand::{LONG, key};

/// One at a time: they tell how long things take.
static ALONE: Mutex<()> = Mutex::const_new(());

const DEADLINE_MS: u64 = 20;
/// What a machine of two cores, busy with servers and load, may be late by.
const LATE_MS: u64 = 30;

/// How a server goes away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Goes {
    /// It stands still: connections stay, nothing is answered.
    Still,
    /// It is killed, and comes back with nothing.
    Down,
}

/// The log of an outage, and when for certain Redis was away.
struct Seen {
    log: Log,
    away: (Tick, Tick),
}

impl Seen {
    fn while_away(&self) -> Log {
        self.log.between(self.away.0, self.away.1)
    }

    #[track_caller]
    fn check_waits(&self) {
        let (longest, p99) = self.log.waited_ms();
        assert!(longest <= DEADLINE_MS + LATE_MS, "waited {longest} ms, p99 {p99} ms");
    }
}

async fn limiter(url: &str, builder: FleetLimiterBuilder) -> FleetLimiter {
    builder.deadline(Duration::from_millis(DEADLINE_MS)).connect(url).await.unwrap()
}

fn fallbacks(limiter: &FleetLimiter) -> u64 {
    let counts = limiter.counts();
    counts.local + counts.open + counts.closed
}

/// Takes the server away under load, until some hundred decisions were made without it.
async fn outage(server: &mut Server, limiter: &FleetLimiter, goes: Goes, keys: &[&str]) -> Seen {
    let load = Load::start(limiter, keys, 4);
    until(LONG, "Redis decides", || 50 < limiter.counts().store).unwrap();
    match goes {
        Goes::Still => server.pause(),
        Goes::Down => server.kill(),
    }
    let from = load.now();
    until(LONG, "much is decided without Redis", || 1_000 < fallbacks(limiter)).unwrap();
    let to = load.now();
    match goes {
        Goes::Still => server.resume(),
        Goes::Down => server.restart().unwrap(),
    }
    let before = limiter.counts();
    let is_back = || {
        let counts = limiter.counts();
        200 < counts.store + counts.remembered - before.store - before.remembered
    };
    until(LONG, "Redis decides again", is_back).unwrap();
    let log = load.stop().await;
    let seen = Seen { log, away: (from, to) };
    // Every one of them said so, and all were counted.
    let said = seen.log.only(|entry| entry.by.is_fallback()).count();
    assert_eq!(said, fallbacks(limiter));
    // A call that was under way when it went may have been answered; and that is all.
    let by_redis = seen.while_away().only(|entry| entry.by == By::Store).count();
    assert_eq!(by_redis, 0);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closed_lets_nothing_pass() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = FleetLimiter::builder().each("client", Quota::per_second(1_000_000));
        let limiter = limiter(&server.url(), builder.without_store(WithoutStore::Closed)).await;
        let seen = outage(&mut server, &limiter, goes, &["ada", "bob"]).await;
        println!("closed {goes:?}: {:?} ms", seen.log.waited_ms());
        let away = seen.while_away();
        assert!(away.0.iter().all(|entry| entry.by == By::Closed));
        assert_eq!(away.admitted().count(), 0);
        // All are told when to come back.
        let tells =
            |verdict| matches!(verdict, Verdict::Deny { retry_after } if 0 < retry_after.get());
        assert!(away.0.iter().all(|entry| tells(entry.verdict)));
        seen.check_waits();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn open_lets_everything_pass() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = FleetLimiter::builder().each("client", Quota::per_second(100).burst(10));
        let builder = builder.remember_refusals(false).without_store(WithoutStore::Open);
        let limiter = limiter(&server.url(), builder).await;
        let seen = outage(&mut server, &limiter, goes, &["ada"]).await;
        println!("open {goes:?}: {:?} ms", seen.log.waited_ms());
        let away = seen.while_away();
        assert!(away.0.iter().all(|entry| entry.by == By::Open));
        assert_eq!(away.admitted().count(), away.count());
        // What Redis decided kept the rate all the same.
        let by_redis = seen.log.only(|entry| entry.by == By::Store);
        let restarts = u64::from(goes == Goes::Down);
        assert_eq!(by_redis.excess(Allowed { burst: 10 * (1 + restarts), per_second: 100 }), 0);
        seen.check_waits();
    }
}

/// A node of two has half of the rate and half of the burst, whatever it asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_lets_this_node_s_share_pass() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = FleetLimiter::builder().each("client", Quota::per_second(100).burst(20));
        let builder = builder.remember_refusals(false);
        let limiter =
            limiter(&server.url(), builder.without_store(WithoutStore::Local { nodes: 2 })).await;
        let seen = outage(&mut server, &limiter, goes, &["ada", "bob"]).await;
        println!("local {goes:?}: {:?} ms", seen.log.waited_ms());
        for key in ["ada", "bob"] {
            let local = seen.log.of(key).only(|entry| entry.by == By::Local);
            assert!(5 < local.admitted().count());
            let excess = local.excess(Allowed { burst: 10, per_second: 50 });
            assert_eq!(excess, 0, "{goes:?} {key}");
        }
        seen.check_waits();
    }
}

/// The only node, so its share is all of it. A key that is first asked for during the outage has
/// its burst once, wherever it was counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_let_through_without_redis_is_charged_to_it_afterwards() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let quota = Quota::per_second(10).burst(200);
    let limiter = limiter(
        &server.url(),
        FleetLimiter::builder().each("client", quota).remember_refusals(false),
    )
    .await;
    assert_eq!(limiter.decide("other").await.by(), By::Store);
    // A server that knows the script executes what it was sent before it stood still; one that does
    // not refuses it, and then what the first few calls carried is lost.
    let rule = limiter.store().rule("client", Policy::token_bucket(quota).unwrap());
    limiter.store().debit(&rule, &key("other"), 1).await.unwrap();
    server.pause();
    let load = Load::start(&limiter, &["ada"], 4);
    until(LONG, "much is decided without Redis", || 400 < limiter.counts().local).unwrap();
    server.resume();
    until(LONG, "Redis decides again", || 200 < limiter.counts().store).unwrap();
    let log = load.stop().await;
    let (local, store) = (
        log.only(|entry| entry.by == By::Local).admitted().count(),
        log.only(|entry| entry.by == By::Store).admitted().count(),
    );
    println!("repaid: {local} local, {store} by Redis, {:?} ms", log.waited_ms());
    assert!(200 <= local);
    // The probe that finds Redis again is decided before anything is repaid.
    let excess = log.excess(Allowed { burst: 200, per_second: 10 });
    assert!(excess <= 1, "{excess}: {local} + {store}");
}

/// A key that was asked for before, too: then Redis and this node have a burst each, and no more
/// however often Redis comes and goes within the time that a burst takes to fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_outage_costs_one_burst_at_most() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = FleetLimiter::builder().each("client", Quota::per_second(100).burst(20));
        let limiter = limiter(&server.url(), builder.remember_refusals(false)).await;
        let seen = outage(&mut server, &limiter, goes, &["ada"]).await;
        let restarts = u64::from(goes == Goes::Down);
        let once = seen.log.excess(Allowed { burst: 20, per_second: 100 });
        println!("whole {goes:?}: {} admitted, {once} over one burst", seen.log.admitted().count());
        // And one for the probe that finds Redis again, which comes before anything is repaid.
        assert!(once <= 20 * (1 + restarts) + 1, "{once}");
        seen.check_waits();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_probes_go_out_while_redis_is_away() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let builder = FleetLimiter::builder().each("client", Quota::per_second(1_000_000));
    let limiter = limiter(&proxy.url(), builder.without_store(WithoutStore::Open)).await;
    let load = Load::start(&limiter, &["ada", "bob", "carol"], 4);
    until(LONG, "Redis decides", || 50 < limiter.counts().store).unwrap();
    server.pause();
    let from = load.now();
    let (writes, connections) = (proxy.writes_up(), proxy.connections());
    until(LONG, "much is decided without Redis", || 3_000 < limiter.counts().open).unwrap();
    let (writes, connections) = (proxy.writes_up() - writes, proxy.connections() - connections);
    let away_ms = load.now().since(from).get() / 1_000;
    println!("{writes} writes and {connections} connections in {away_ms} ms");
    // Three calls that fail, then one for each pause, which doubles from 50 ms to 200 at least; and
    // as many connections at most, each of which takes a few writes besides.
    let pauses = away_ms / 200;
    assert!(writes <= 40 + 6 * pauses, "{writes} writes in {away_ms} ms");
    assert!(connections <= 10 + pauses, "{connections} connections in {away_ms} ms");
    server.resume();
    let before = limiter.counts();
    until(LONG, "Redis decides again", || before.store + 500 < limiter.counts().store).unwrap();
    let open = limiter.counts().open;
    let store = limiter.counts().store;
    until(LONG, "it stays so", || store + 500 < limiter.counts().store).unwrap();
    assert_eq!(limiter.counts().open, open, "the breaker has closed");
    let waited = load.stop().await.waited_ms();
    assert!(waited.0 <= DEADLINE_MS + LATE_MS, "{waited:?}");
}

/// A server that stood still executes what it was sent before: once, if at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn late_calls_are_charged_once_at_most() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let store = stand::store(&server.url()).await.within(Duration::from_millis(DEADLINE_MS));
    let rule = store.rule("client", Policy::token_bucket(Quota::per_day(100_000)).unwrap());
    let (mut passed, mut unknown, mut certain) = (0, 0, 0);
    for _ in 0..3 {
        server.pause();
        for _ in 0..40 {
            match store.decide(&rule, &key("ada"), 1).await {
                Ok(_) => passed += 1,
                Err(StoreError::Unknown(_)) => unknown += 1,
                Err(_) => certain += 1,
            }
        }
        server.resume();
        let asking = async {
            while store.decide(&rule, &key("ada"), 1).await.map(|_| passed += 1).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, asking).await.unwrap();
    }
    let mut used = 0;
    for _ in 0..20 {
        used = 100_000 - store.peek(&rule, &key("ada"), 0).await.unwrap().remaining;
    }
    println!("{used} used: {passed} passed, {unknown} unknown, {certain} not sent");
    assert!(0 < unknown && 0 < certain);
    assert!((passed..=passed + unknown).contains(&used), "{used}: {passed} and {unknown}");
}

/// A day's quota, so that nothing is earned meanwhile: this node's share is there once, however
/// often Redis comes and goes, and Redis learns of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn coming_and_going_gives_no_fresh_share() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let builder = FleetLimiter::builder().each("client", Quota::per_day(10));
    let limiter = limiter(&server.url(), builder.remember_refusals(false)).await;
    assert_eq!(limiter.decide("other").await.by(), By::Store);
    let (mut local, mut store) = (0, 0);
    for _ in 0..3 {
        server.pause();
        for _ in 0..20 {
            let answer = limiter.decide("ada").await;
            assert_eq!(answer.by(), By::Local);
            local += u32::from(answer.verdict().passes());
        }
        server.resume();
        let asking = async {
            for _ in 0..5 {
                while limiter.decide("ada").await.by() != By::Store {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            limiter.key("ada").cost(0).peek().await.decision().remaining
        };
        // Of those that Redis decided, it has charged what passed.
        let left = tokio::time::timeout(LONG, asking).await.unwrap();
        store = 10 - left;
    }
    println!("{local} by its share; {store} charged to Redis");
    assert_eq!((local, store), (10, 10));
}

/// Three debts to repay, and then to decide: all within one deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_deadline_is_for_all_that_a_decision_takes() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let builder = FleetLimiter::builder().each("a", Quota::per_second(1_000));
    let builder = builder.each("b", Quota::per_second(1_000)).all("c", Quota::per_second(1_000));
    let builder = builder.deadline(Duration::from_millis(100));
    let limiter = builder.connect(&server.url()).await.unwrap();
    let load = Load::start(&limiter, &["ada"], 4);
    until(LONG, "Redis decides", || 50 < limiter.counts().store).unwrap();
    server.pause();
    until(LONG, "much is decided without Redis", || 200 < limiter.counts().local).unwrap();
    server.resume();
    let waited = load.stop().await.waited_ms();
    println!("waited {waited:?} ms of 100");
    assert!(waited.0 <= 100 + LATE_MS, "{waited:?}");
}
