//! What is kept in Redis: its names, how long it is kept, and what stands where it should not.

use tidegate_core::{Decision, Kind, Policy, Quota, Span};
use tidegate_redis::{FleetCharge, FleetKey, FleetRule, RedisStore, StoreError};
use tidegate_testbed::{Server, until};

use crate::stand::{LONG, key, names, runs_of, still_store, store};

fn number(server: &Server, command: &[&str]) -> i64 {
    server.must(command).unwrap().text().parse().unwrap()
}

/// As long as a state is kept for longer than it counts.
const SLACK: i64 = 1_000;

/// The server's clock in milliseconds.
fn millis(server: &Server) -> i64 {
    let time = server.must(&["TIME"]).unwrap();
    let part = |index: usize| time.items()[index].text().parse::<i64>().unwrap();
    part(0) * 1_000 + part(1) / 1_000
}

fn bucket(quota: Quota) -> Policy {
    Policy::token_bucket(quota).unwrap()
}

#[tokio::test]
async fn the_tenant_is_the_hash_tag_of_all_its_keys() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let rule = store.rule("per-user", bucket(Quota::per_second(1)));
    let keys = [
        FleetKey::new("acme").unwrap(),
        FleetKey::in_tenant("acme", "ada").unwrap(),
        FleetKey::in_tenant("acme", ("user", 7)).unwrap(),
        FleetKey::in_tenant("a}c{me", "ada").unwrap(),
    ];
    for key in &keys {
        assert!(store.decide(&rule, key, 1).await.unwrap().verdict.passes());
    }
    let names = names(&server);
    let id = &names[0]["tg:{a%7dc%7bme}".len()..][..6];
    let wanted = [
        format!("tg:{{a%7dc%7bme}}{id}:ada"),
        format!("tg:{{acme}}{id}"),
        format!("tg:{{acme}}{id}:(user/7)"),
        format!("tg:{{acme}}{id}:ada"),
    ];
    assert_eq!(names, wanted);
}

/// The time a state is kept is set by the command that writes it, and rounded up.
#[tokio::test]
async fn a_state_is_kept_for_as_long_as_it_counts_rounded_up() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let others = ["set", "expire", "pexpire", "pexpireat", "persist"];
    let others = || others.map(|other| runs_of(&server, other));
    // Whether we may is found out at the start.
    let at_start = others();
    for kind in [Kind::TokenBucket, Kind::Gcra] {
        // A third of a tenth of a second is 33,333 and a third of a microsecond.
        let rule =
            store.rule("thirds", Policy::new(kind, Quota::new(3, Span::from_millis(100))).unwrap());
        let mut seen = 0;
        for number_of_key in 0..2_000 {
            let key = FleetKey::new((kind.name(), number_of_key)).unwrap();
            let before = millis(&server);
            assert!(store.decide(&rule, &key, 1).await.unwrap().verdict.passes());
            if millis(&server) != before {
                // It may have been decided in one millisecond or the next.
                continue;
            }
            let name = names(&server)
                .into_iter()
                .find(|name| name.contains(&format!("/{number_of_key})")));
            let until = number(&server, &["PEXPIRETIME", &name.unwrap()]);
            assert_eq!(until - before, 34 + SLACK);
            seen += 1;
            if seen == 3 {
                break;
            }
        }
        assert_eq!(seen, 3);
    }
    assert!(runs_of(&server, "psetex") >= 6);
    assert_eq!(others(), at_start);
}

/// Of whole ticks, a debt that still runs is added to, and kept for longer in the same script.
#[tokio::test]
async fn a_debt_that_is_added_to_is_kept_for_as_long_as_it_counts() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let rule = store.rule("r", bucket(Quota::per_minute(60).burst(100)));
    let keys = ["ada", "bob"].map(|key| FleetKey::new(key).unwrap());
    let charges = keys.each_ref().map(|key| FleetCharge { rule: &rule, key, cost: 10 });
    for pass in 1..=3 {
        // One by one, then both in one call.
        let before = millis(&server);
        if pass < 3 {
            for key in &keys {
                assert!(store.decide(&rule, key, 10).await.unwrap().verdict.passes());
            }
        } else {
            assert!(store.decide_batch(&charges).await.iter().all(Result::is_ok));
        }
        for name in names(&server) {
            let value = number(&server, &["GET", &name]);
            let until = number(&server, &["PEXPIRETIME", &name]);
            assert_eq!(until, (value + 999) / 1_000 + SLACK, "{name}");
            assert!(before + 10_000 * pass - 1_000 <= until - SLACK, "{name}");
        }
    }
    assert!(2 < runs_of(&server, "incrby"));
}

/// What writes a state, or how long it is kept.
const WRITES: [&str; 6] = ["psetex", "set", "incrby", "pexpireat", "pexpire", "del"];

#[tokio::test]
async fn a_refusal_does_not_prolong_anything() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    for kind in [
        Kind::TokenBucket,
        Kind::Gcra,
        Kind::LeakyBucket,
        Kind::FixedWindow,
        Kind::SlidingWindow,
        Kind::SlidingLog,
        Kind::Concurrency,
    ] {
        let policy = Policy::new(kind, Quota::per_hour(2)).unwrap();
        let rule = store.rule(kind.name(), policy).remember_refusals(false);
        let other = store.rule("other", bucket(Quota::per_hour(5)));
        let key = FleetKey::new(kind.name()).unwrap();
        assert!(store.decide(&rule, &key, 2).await.unwrap().verdict.passes());
        let name = names(&server).into_iter().find(|name| name.contains(kind.name())).unwrap();
        let kept = || {
            let value = server.must(&["GET", &name]).unwrap();
            (number(&server, &["PEXPIRETIME", &name]), value)
        };
        let before = kept();
        let writes = || WRITES.map(|command| runs_of(&server, command));
        let written = writes();
        assert!(!store.decide(&rule, &key, 1).await.unwrap().verdict.passes());
        assert!(!store.peek(&rule, &key, 1).await.unwrap().verdict.passes());
        let charges = [&rule, &other].map(|rule| FleetCharge { rule, key: &key, cost: 1 });
        assert!(!store.decide_all(&charges).await.unwrap().verdict().passes());
        assert_eq!(kept(), before, "{kind:?}");
        assert_eq!(writes(), written, "{kind:?}");
    }
}

#[tokio::test]
async fn what_counts_no_more_is_gone() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let rule = store.rule("fast", bucket(Quota::per_second(1_000)));
    let slow = store.rule("slow", bucket(Quota::per_hour(10)));
    assert!(store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
    assert_eq!(names(&server).len(), 1);
    // Refunded, it is as if it had never been: at once, and without a trace.
    let (_, receipt) = store.decide_with_receipt(&slow, &key("bob"), 10).await.unwrap();
    store.refund(&slow, &key("bob"), receipt.unwrap()).await.unwrap();
    until(LONG, "nothing is left", || names(&server).is_empty()).unwrap();
    let _: Decision = store.decide(&slow, &key("bob"), 10).await.unwrap();
    store.reset(&slow, &key("bob")).await.unwrap();
    assert!(names(&server).is_empty());
}

/// Puts something under the name of `key`, and sees what becomes of a batch with it in the middle.
#[track_caller]
fn check_batch(answers: &[Result<Decision, StoreError>], what: &str) {
    for (place, answer) in answers.iter().enumerate() {
        match answer {
            Ok(decision) => assert!(place != 2 && decision.verdict.passes(), "{what}: {place}"),
            Err(StoreError::Damaged(_)) => assert_eq!(place, 2, "{what}"),
            Err(other) => panic!("{what}: {place}: {other}"),
        }
    }
    assert_eq!(answers.len(), 5);
}

async fn batch(store: &RedisStore, rule: &FleetRule) -> Vec<Result<Decision, StoreError>> {
    let keys: Vec<FleetKey> = (0..5_u8).map(|number| FleetKey::new(number).unwrap()).collect();
    let charges: Vec<FleetCharge<'_>> =
        keys.iter().map(|key| FleetCharge { rule, key, cost: 1 }).collect();
    store.decide_batch(&charges).await
}

#[tokio::test]
async fn what_is_none_of_ours_concerns_only_whom_it_stands_in_the_way_of() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let kinds = [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog];
    for kind in kinds {
        let rule = store.rule(kind.name(), Policy::new(kind, Quota::per_hour(1_000)).unwrap());
        assert!(store.decide(&rule, &FleetKey::new(2_u8).unwrap(), 1).await.is_ok());
        let name = names(&server).pop().unwrap();
        for value in [
            "hello",
            "",
            "nan",
            "nan0000000001",
            "-1000000000001",
            "inf",
            "-inf",
            "0x10",
            " 12",
            "1e3",
            "-5",
            "1.5",
            "7 ",
        ] {
            server.must(&["SET", &name, value]).unwrap();
            check_batch(&batch(&store, &rule).await, &format!("{kind:?} `{value}`"));
        }
        server.must(&["DEL", &name]).unwrap();
        server.must(&["LPUSH", &name, "1"]).unwrap();
        check_batch(&batch(&store, &rule).await, "a list");
        // Several limits at once: the one that can be read is not charged either.
        let good = store.rule("good", bucket(Quota::per_hour(5)));
        let key = FleetKey::new(2_u8).unwrap();
        let charges = [&good, &rule].map(|rule| FleetCharge { rule, key: &key, cost: 1 });
        let judged = store.decide_all(&charges).await;
        assert!(matches!(judged, Err(StoreError::Damaged(_))), "{judged:?}");
        assert_eq!(store.peek(&good, &key, 0).await.unwrap().remaining, 5);
        let text = judged.unwrap_err().to_string();
        assert!(text.contains("WRONGTYPE") && text.contains("choose another prefix"), "{text}");
        // A reset is the way out.
        store.reset(&rule, &key).await.unwrap();
        assert!(batch(&store, &rule).await.iter().all(Result::is_ok));
        server.must(&["FLUSHALL"]).unwrap();
    }
}
