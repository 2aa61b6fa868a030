//! Applications that share a Redis: each counts by itself, whatever its rules are called.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::adapt::Fraction;
use tidegate_gate::{Gate, OpenError};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::{Reply, Server};

use crate::on_redis::{node, passed, store};
use crate::stand::{START, by, clock_at, rules};

fn policy(name: &str) -> String {
    format!("{name}\nrules: [{{ name: per-client, key: header:x-api-key, limit: 5/h }}]")
}

/// The names of all keys on a server, sorted.
fn names(server: &Server) -> Vec<String> {
    let keys = server.must(&["KEYS", "*"]).unwrap();
    let mut names: Vec<String> = keys.items().iter().map(Reply::text).collect();
    names.sort();
    names
}

/// A gate on a store that was given a prefix.
async fn prefixed(server: &Server, clock: &Arc<ManualClock>, name: &str, policy: &str) -> Gate {
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let judge = || Arc::clone(clock) as Arc<dyn Clock>;
    let builder = builder.deadline(Duration::from_secs(20)).judged_by(judge()).named(name);
    let fleet = Fleet::new(builder.connect().await.unwrap());
    Gate::builder().rules(rules(policy)).store(fleet).clock(judge()).open().unwrap()
}

#[tokio::test]
async fn policies_of_different_names_do_not_use_up_each_others_limits() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let shop = [
        node(&server, &clock, &policy("name: shop")).await,
        node(&server, &clock, &policy("name: shop")).await,
    ];
    let blog = node(&server, &clock, &policy("name: blog")).await;
    let unnamed = node(&server, &clock, &policy("")).await;
    assert_eq!(passed(&shop[0], &by("ada"), 3).await, 3);
    assert_eq!(passed(&shop[1], &by("ada"), 9).await, 2, "one name counts together");
    assert_eq!(passed(&blog, &by("ada"), 9).await, 5);
    assert_eq!(passed(&unnamed, &by("ada"), 9).await, 5);
    let starts = |start: &str| names(&server).iter().filter(|it| it.starts_with(start)).count();
    assert_eq!((starts("tg:shop:{"), starts("tg:blog:{"), starts("tg:{")), (1, 1, 1));
}

#[tokio::test]
async fn a_prefix_of_the_store_counts_more_than_the_name_of_the_policy() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let one = prefixed(&server, &clock, "shop", &policy("name: a")).await;
    let other = prefixed(&server, &clock, "shop", &policy("name: b")).await;
    assert_eq!(passed(&one, &by("ada"), 9).await, 5);
    assert_eq!(passed(&other, &by("ada"), 9).await, 0);
    assert!(names(&server).iter().all(|name| name.starts_with("tg:shop:{")));
    // Then the name may change.
    one.replace(rules(&policy("name: c"))).unwrap();
    assert_eq!(passed(&one, &by("ada"), 9).await, 0);
}

/// Nodes that were started with it would count apart from those that were reloaded.
#[tokio::test]
async fn another_name_is_not_put_in_force_while_it_runs() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let gate = node(&server, &clock, &policy("name: shop")).await;
    assert_eq!(passed(&gate, &by("ada"), 9).await, 5);
    for other in ["name: blog", ""] {
        let refused = gate.replace(rules(&policy(other))).unwrap_err();
        assert!(matches!(refused, OpenError::Renamed { .. }), "{refused}");
        assert!(refused.to_string().contains("had the name `shop`"), "{refused}");
    }
    gate.replace(rules(&policy("name: shop").replace("5/h", "7/h"))).unwrap();
    assert_eq!(passed(&gate, &by("ada"), 9).await, 2, "what was consumed is kept");
    // In this process there is nobody else.
    let (gate, _clock) = crate::stand::gate(&policy("name: shop"));
    gate.replace(rules(&policy("name: blog"))).unwrap();
}

#[tokio::test]
async fn one_applications_load_does_not_slow_another() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let store = store(&server, &clock).await;
    let (shop, blog) = (store.for_policy(Some("shop")), store.for_policy(Some("blog")));
    let lease = Span::from_secs(60);
    let half = Fraction::from_percent(50);
    assert_eq!(shop.share_factor(1, Some(half), lease).await.unwrap(), half);
    assert_eq!(shop.share_factor(2, None, lease).await.unwrap(), half);
    assert_eq!(blog.share_factor(3, None, lease).await.unwrap(), Fraction::WHOLE);
    assert_eq!(names(&server), ["tg:shop:{%%}factor"]);
}
