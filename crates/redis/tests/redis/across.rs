//! Limits in different slots of a cluster: charged together, or given back to the last cell.

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{FleetCharge, FleetKey, FleetRule, RedisStore};
use tidegate_store::Clock as _;
use tidegate_store::Limiter;
use tidegate_testbed::Cluster;
use tokio::task::JoinSet;

use crate::stand::{LONG, Node, key, still_store, url_of};

/// Waits until that many are used, and sees that it stays so.
async fn settles(store: &RedisStore, rule: &FleetRule, key: &FleetKey, used: u32) {
    let limit = rule.policy().limit();
    let now = async || limit - store.peek(rule, key, 0).await.unwrap().remaining;
    let settled = tokio::time::timeout(LONG / 4, async { while now().await != used {} }).await;
    assert!(settled.is_ok(), "{} of {used} are used", now().await);
    for _ in 0..20 {
        assert_eq!(now().await, used);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_all_is_kept_and_refusals_leave_nothing_behind() {
    let cluster = Cluster::start().unwrap();
    let (store, _clock) = still_store(&url_of("redis+cluster", cluster.nodes())).await;
    let builder = Limiter::builder().each("client", Quota::per_hour(3));
    let limiter = Node::on(store, builder.all("everyone", Quota::per_hour(100)));
    let mut asking = JoinSet::new();
    for number in 0..600_u32 {
        let limiter = limiter.clone();
        asking.spawn(async move {
            let answer = limiter.decide(number % 60).await;
            (number % 60, answer.verdict().passes(), answer.by())
        });
    }
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|(_, _, by)| !by.is_fallback()));
    let passed = |client| {
        let mine = answers.iter().filter(|(number, passes, _)| *number == client && *passes);
        u32::try_from(mine.count()).unwrap()
    };
    let all: u32 = (0..60).map(passed).sum();
    assert!((1..=100).contains(&all), "{all}");
    let store = limiter.store();
    let rule = |name, quota| store.rule(name, Policy::token_bucket(quota).unwrap());
    let everyone = FleetKey::new(("all", "everyone")).unwrap();
    settles(store, &rule("everyone", Quota::per_hour(100)), &everyone, all).await;
    for client in 0..60 {
        let key = FleetKey::new(client).unwrap();
        settles(store, &rule("client", Quota::per_hour(3)), &key, passed(client)).await;
    }
}

/// Many ask in the last moment of a window. All but one are charged there and refused elsewhere,
/// and are given back while the next window has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_goes_to_the_window_that_it_was_taken_from() {
    let cluster = Cluster::start().unwrap();
    let (store, clock) = still_store(&url_of("redis+cluster", cluster.nodes())).await;
    let window = Policy::new(Kind::FixedWindow, Quota::per_minute(1_000)).unwrap();
    let window = store.rule("everyone", window);
    let once = store.rule("once", Policy::token_bucket(Quota::per_day(1)).unwrap());
    let minute = Span::from_secs(60).get();
    let mut late = 0;
    for round in 0..25_u32 {
        // To the last tick of this minute.
        let left = minute - clock.now().get() % minute;
        clock.advance(Span::from_micros(left - 1));
        let next = clock.now().after(Span::from_micros(1));
        let mut asking = JoinSet::new();
        for number in 0..24_u32 {
            let (store, window, once) = (store.clone(), window.clone(), once.clone());
            let client = FleetKey::new((round, number / 12)).unwrap();
            asking.spawn(async move {
                let all = key("everyone");
                let charges = [(&window, &all), (&once, &client)];
                let charges = charges.map(|(rule, key)| FleetCharge { rule, key, cost: 1 });
                let judged = store.decide_all(&charges).await.unwrap();
                judged.into_receipts().next().flatten()
            });
        }
        // Those that are answered first are charged before this, and others given back after it.
        let mut receipts = Vec::new();
        for _ in 0..round % 6 {
            receipts.push(asking.join_next().await.unwrap().unwrap());
        }
        clock.advance(Span::from_micros(1));
        // So that there is something to be taken away wrongly.
        assert!(store.decide(&window, &key("everyone"), 5).await.unwrap().verdict.passes());
        receipts.extend(asking.join_all().await);
        let passed: Vec<_> = receipts.into_iter().flatten().collect();
        assert!(passed.len() <= 2, "{}", passed.len());
        let here = passed.iter().filter(|receipt| next <= receipt.at()).count();
        late += passed.len() - here;
        settles(&store, &window, &key("everyone"), u32::try_from(5 + here).unwrap()).await;
    }
    assert!(0 < late, "nobody was charged in the last moment");
}
