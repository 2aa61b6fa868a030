//! Reloads with states in Redis: what a client has consumed stays consumed.

use tidegate_core::{Policy, Quota};
use tidegate_gate::Gate;
use tidegate_redis::Fleet;
use tidegate_store::MemoryStore;
use tidegate_testbed::Server;

use crate::on_redis::{looks, node, passed, still, store};
use crate::stand::{START, by, clock_at, replace, rules};

const ALGORITHMS: [&str; 4] = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"];

fn policy(algorithm: &str, rest: &str) -> String {
    format!(
        "tiers: {{ header: x-tier, default: free, names: [free, pro, gold] }}\n\
         identify: {{ client: [header:x-api-key] }}\n\
         rules: [{{ name: r, key: client, algorithm: {algorithm}, {rest} }}]"
    )
}

/// A tier is a limit of its own.
#[tokio::test]
async fn a_tier_begins_anew_and_the_others_go_on() {
    for algorithm in ALGORITHMS {
        let policy = |limits: &str| policy(algorithm, &format!("limit: {limits}"));
        let of = |tier: &str, key: &str| by(key).with_header("x-tier", tier);
        let (server, gate, clock) = still(&policy("100/h")).await;
        let other = node(&server, &clock, &policy("100/h")).await;
        assert_eq!(passed(&gate, &of("pro", "ada"), 90).await, 90);
        // Each node gets the new policy in its turn.
        for (node, left) in [(&gate, 200), (&other, 170)] {
            replace(node, &policy("{ free: 100/h, pro: 200/h }"));
            assert_eq!(looks(node, &of("pro", "ada")).await, [left], "{algorithm}");
            assert_eq!(passed(node, &of("pro", "ada"), 30).await, 30, "{algorithm}");
        }
        for node in [&gate, &other] {
            replace(node, &policy("{ free: 100/h, pro: 201/h, gold: 300/h }"));
            assert_eq!(looks(node, &of("pro", "ada")).await, [141], "{algorithm}");
            assert_eq!(looks(node, &of("gold", "ada")).await, [300], "{algorithm}");
        }
        // All become one again: what was consumed under that is in Redis.
        replace(&gate, &policy("100/h"));
        assert_eq!(looks(&gate, &of("pro", "ada")).await, [10], "{algorithm}");
    }
}

#[tokio::test]
async fn tiers_that_become_one_are_not_mixed_up() {
    let policy = |limits: &str| policy("token-bucket", &format!("limit: {limits}"));
    let of = |tier: &str, key: &str| by(key).with_header("x-tier", tier);
    let tiers = policy("{ free: 5/h, pro: 90/h, gold: 7/h }");
    let (_server, gate, _clock) = still(&tiers).await;
    assert_eq!(passed(&gate, &of("pro", "ada"), 50).await, 50);
    assert_eq!(passed(&gate, &of("gold", "bob"), 6).await, 6);
    replace(&gate, &policy("100/h"));
    assert_eq!(passed(&gate, &of("pro", "ada"), 10).await, 10);
    assert_eq!(looks(&gate, &of("gold", "ada")).await, [90]);
    assert_eq!(looks(&gate, &of("pro", "bob")).await, [100]);
    // As they were, however long they are away.
    replace(&gate, &tiers);
    assert_eq!(looks(&gate, &of("pro", "ada")).await, [40]);
    assert_eq!(looks(&gate, &of("gold", "bob")).await, [1]);
}

/// A node that has just started counts with those that were reloaded: they agree by names.
#[tokio::test]
async fn nodes_with_one_policy_count_together_however_they_came_to_it() {
    for algorithm in ALGORITHMS {
        let policy = |limits: &str| policy(algorithm, &format!("limit: {limits}"));
        let (one, tiers) = ("100/h", "{ free: 100/h, pro: 200/h }");
        for (before, after) in [(one, tiers), (tiers, one)] {
            let (server, gate, clock) = still(&policy(before)).await;
            assert_eq!(passed(&gate, &by("ada"), 10).await, 10);
            replace(&gate, &policy(after));
            // The tier is a limit of its own.
            let other = node(&server, &clock, &policy(after)).await;
            assert_eq!(passed(&gate, &by("ada"), 40).await, 40, "{algorithm}");
            assert_eq!(passed(&other, &by("ada"), 100).await, 60, "{algorithm}");
            assert_eq!(looks(&gate, &by("ada")).await, [0], "{algorithm}");
        }
    }
}

/// Keys that nobody asks about between two reloads.
#[tokio::test]
async fn what_a_limit_was_earlier_comes_along_with_it() {
    let policy = |rest: &str| policy("token-bucket", rest);
    let steps = [
        (&["limit: 100/day", "limit: 101/day", "limit: 102/day"][..], 2),
        (&["limit: 100/day", "limit: 101/day", "limit: 101/day, overrides: { a: 110/day }"], 10),
        (
            &[
                "limit: 9/day, overrides: { a: 110/day }",
                "limit: 9/day, overrides: { a: 120/day }",
                "limit: 130/day",
            ],
            20,
        ),
    ];
    for (steps, left) in steps {
        let (_server, gate, _clock) = still(&policy(steps[0])).await;
        while passed(&gate, &by("a"), 1).await == 1 {}
        for step in &steps[1..] {
            replace(&gate, &policy(step));
        }
        assert_eq!(looks(&gate, &by("a")).await, [left], "{steps:?}");
    }
}

/// Quotas of many single keys that are gone at once are not looked for at the cost of all others.
#[tokio::test]
async fn many_overrides_can_go_and_ordinary_keys_keep_what_they_had() {
    for count in [15, 16, 17, 64, 65] {
        let own: Vec<String> = (0..count).map(|it| format!("o{it}: 50/day")).collect();
        let with = format!("limit: 100/day, overrides: {{ {} }}", own.join(", "));
        let (_server, gate, _clock) = still(&policy("token-bucket", &with)).await;
        assert_eq!(passed(&gate, &by("x"), 100).await, 100);
        replace(&gate, &policy("token-bucket", "limit: 110/day"));
        assert_eq!(looks(&gate, &by("x")).await, [10], "{count}");
    }
}

/// A permit that is given back is there again, whatever the key has become meanwhile.
#[tokio::test]
async fn permits_come_back_to_a_key_that_got_a_limit_of_its_own() {
    let policy = |rest: &str| policy("concurrency", rest);
    let changes = [
        ("limit: 3 in flight", "limit: 3 in flight, overrides: { a: 3 in flight }"),
        ("limit: 3 in flight, overrides: { a: 3 in flight }", "limit: 3 in flight"),
        ("limit: 3 in flight", "limit: { free: 3 in flight, pro: 3 in flight }"),
        ("limit: { free: 3 in flight, pro: 3 in flight }", "limit: 3 in flight"),
    ];
    for (before, after) in changes {
        for tier in ["free", "pro"] {
            let request = by("a").with_header("x-tier", tier);
            let (_server, gate, _clock) = still(&policy(before)).await;
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(gate.admit(&request).await);
            }
            assert!(held.iter().all(|it| it.verdict().passes()));
            replace(&gate, &policy(after));
            let _ = gate.admit(&request).await;
            for mut admission in held {
                admission.release().await;
            }
            for nth in 0..3 {
                let again = gate.admit(&request).await;
                assert!(again.verdict().passes(), "{after}: {tier} {nth}");
                std::mem::forget(again);
            }
        }
    }
}

#[tokio::test]
async fn what_a_rule_does_without_redis_can_change_under_way() {
    let of = |word: &str| format!("rules: [{{ name: r, limit: 10/h, on_store_error: {word} }}]");
    let (_server, gate, _clock) = still(&of("open")).await;
    assert_eq!(passed(&gate, &by("a"), 4).await, 4);
    for word in ["closed", "local", "open"] {
        replace(&gate, &of(word));
        assert_eq!(looks(&gate, &by("a")).await, [6], "{word}");
    }
    replace(&gate, &of("closed").replace("10/h", "20/h"));
    assert_eq!(looks(&gate, &by("a")).await, [16]);
}

#[tokio::test]
async fn a_policy_that_there_is_no_room_for_changes_nothing() {
    let policy = |rules: usize, cells: u32| {
        let rule = |number| format!("{{ name: r{number}, limit: {cells}/day }}");
        format!("rules: [{}]", (0..rules).map(rule).collect::<Vec<_>>().join(", "))
    };
    let (server, clock, local) = (Server::start().unwrap(), clock_at(START), MemoryStore::new());
    let other = Policy::token_bucket(Quota::per_day(1)).unwrap();
    let _others: Vec<_> = (0..65_520).map(|_| local.rule(other).unwrap()).collect();
    let fleet = Fleet::with_local(store(&server, &clock).await, local);
    let builder = Gate::builder().rules(rules(&policy(8, 10))).store(fleet);
    let gate = builder.clock(clock).open().unwrap();
    assert_eq!(passed(&gate, &by("a"), 4).await, 4);
    let refused = gate.replace(rules(&policy(16, 99))).unwrap_err().to_string();
    assert!(refused.contains("at most 65,535 rules"), "{refused}");
    assert_eq!(looks(&gate, &by("a")).await, [6; 8]);
    replace(&gate, &policy(9, 12));
    assert_eq!(looks(&gate, &by("a")).await, [8, 8, 8, 8, 8, 8, 8, 8, 12]);
}
