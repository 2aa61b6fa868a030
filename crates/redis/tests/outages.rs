//! Redis goes away and comes back, under load; what happened is read from a log of our own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::{Policy, Quota, Tick, Verdict};
use tidegate_redis::{By, StoreError, WithoutStore};
use tidegate_store::{Limiter, LimiterBuilder};
use tidegate_testbed::{Proxy, Server, until};
use tokio::sync::Mutex;

use self::stand::load::{Allowed, Load, Log};
use self::stand::{LONG, Node, key, teach_repaying};

/// One at a time: they count what comes of a server that does nothing else.
static ALONE: Mutex<()> = Mutex::const_new(());

const DEADLINE: Duration = Duration::from_millis(20);
/// How many ask at a time.
const TASKS: usize = 4;

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
}

async fn limiter(url: &str, builder: LimiterBuilder) -> Node {
    Node::within(DEADLINE, url, builder).await
}

fn fallbacks(limiter: &Node) -> u64 {
    let counts = limiter.counts();
    counts.local + counts.open + counts.closed
}

/// Takes the server away under load, until some hundred decisions were made without it.
async fn outage(server: &mut Server, limiter: &Node, goes: Goes, keys: &[&str]) -> Seen {
    let load = Load::start(limiter, keys, TASKS);
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
        let builder = Limiter::builder().each("client", Quota::per_second(1_000_000));
        let limiter = limiter(&server.url(), builder.without_store(WithoutStore::Closed)).await;
        let seen = outage(&mut server, &limiter, goes, &["ada", "bob"]).await;
        println!("closed {goes:?}: {:?} ms", seen.log.waited_ms());
        let away = seen.while_away();
        assert!(away.0.iter().all(|entry| entry.by == By::Closed));
        assert_eq!(away.admitted().count(), 0);
        // All answers say when to come back.
        let tells =
            |verdict| matches!(verdict, Verdict::Deny { retry_after } if 0 < retry_after.get());
        assert!(away.0.iter().all(|entry| tells(entry.verdict)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn open_lets_everything_pass() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = Limiter::builder().each("client", Quota::per_second(100).burst(10));
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
    }
}

/// A node of two has half of the rate and half of the burst, whatever it asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_lets_this_node_s_share_pass() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = Limiter::builder().each("client", Quota::per_second(100).burst(20));
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
    }
}

/// The only node, so its share is all of it, of a quota that earns nothing meanwhile. A key that is
/// first asked for during the outage has its burst once, wherever it was counted, and however often
/// calls are late on a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_let_through_without_redis_is_charged_to_it_afterwards() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let quota = Quota::per_day(200);
    let builder = Limiter::builder().each("client", quota).remember_refusals(false);
    let limiter = limiter(&server.url(), builder).await;
    teach_repaying(&limiter, Policy::token_bucket(quota).unwrap()).await;
    server.pause();
    let load = Load::start(&limiter, &["ada"], TASKS);
    until(LONG, "much is decided without Redis", || 400 < limiter.counts().local).unwrap();
    server.resume();
    until(LONG, "Redis decides again", || 200 < limiter.counts().store).unwrap();
    let log = load.stop().await;
    let by = |by| log.only(|entry| entry.by == by).admitted().count();
    let (local, store) = (by(By::Local), by(By::Store));
    println!("repaid: {local} local, {store} by Redis, {:?} ms", log.waited_ms());
    assert_eq!(local, 200);
    // The probe that finds Redis again is decided before anything is repaid, and so are requests
    // that are made at that very moment.
    assert!(store <= TASKS as u64, "{store}");
}

/// A key that was asked for before, too: then Redis and this node have a burst each, and no more
/// however often Redis comes and goes within the time that a burst takes to fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_outage_costs_one_burst_at_most() {
    let _alone = ALONE.lock().await;
    for goes in [Goes::Still, Goes::Down] {
        let mut server = Server::start().unwrap();
        let builder = Limiter::builder().each("client", Quota::per_day(20));
        let limiter = limiter(&server.url(), builder.remember_refusals(false)).await;
        let policy = Policy::token_bucket(Quota::per_day(20)).unwrap();
        teach_repaying(&limiter, policy).await;
        let seen = outage(&mut server, &limiter, goes, &["ada"]).await;
        let passed = seen.log.admitted().count();
        println!("whole {goes:?}: {passed} admitted");
        // The one burst is Redis's, the other this node's. What was repaid when Redis was killed is
        // lost with it, and the probe that finds it again comes before anything is repaid.
        let restarts = u64::from(goes == Goes::Down);
        assert!(passed <= 20 * (2 + restarts) + restarts * TASKS as u64, "{passed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_probes_go_out_while_redis_is_away() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let builder = Limiter::builder().each("client", Quota::per_second(1_000_000));
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
    until(LONG, "Redis decides again", || before.store + 1_000 < limiter.counts().store).unwrap();
    load.stop().await;
}

/// A server that stood still executes what it was sent before: once, if at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn late_calls_are_charged_once_at_most() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let patient = stand::store(&server.url()).await;
    let store = patient.within(DEADLINE);
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
            loop {
                match store.decide(&rule, &key("ada"), 1).await {
                    Ok(_) => break passed += 1,
                    Err(StoreError::Unknown(_)) => unknown += 1,
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, asking).await.unwrap();
    }
    let mut used = 0;
    for _ in 0..20 {
        used = 100_000 - patient.peek(&rule, &key("ada"), 0).await.unwrap().remaining;
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
    let builder = Limiter::builder().each("client", Quota::per_day(10));
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

/// Longer than a deadline, by the same timers: however late they are on a busy machine, a decision
/// whose own timer was to fire long before has been made.
async fn in_time(limiter: &Node, deadline: Duration) -> By {
    let late = async {
        tokio::time::sleep(deadline * 3).await;
        // Timers that are late fire together: whatever they have woken has many turns.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = limiter.decide("ada") => answer.by(),
        () = late => panic!("a decision took more than its deadline of {deadline:?}"),
    }
}

/// While Redis does not answer, and when there are three debts to repay before the decision: all
/// that it takes has one deadline.
#[tokio::test]
async fn one_deadline_is_for_all_that_a_decision_takes() {
    let _alone = ALONE.lock().await;
    let server = Server::start().unwrap();
    let quota = Quota::per_second(1_000);
    let builder = Limiter::builder().each("a", quota).each("b", quota).all("c", quota);
    let limiter = limiter(&server.url(), builder).await;
    let all_by = async |wanted: By| {
        let asking = async {
            let mut decided = 0;
            while decided < 50 {
                decided += u32::from(in_time(&limiter, DEADLINE).await == wanted);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, asking).await.unwrap();
    };
    for _ in 0..3 {
        all_by(By::Store).await;
        server.pause();
        all_by(By::Local).await;
        server.resume();
    }
}
