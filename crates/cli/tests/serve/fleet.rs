//! Servers that share a Redis: one limit for all of them at every door, also when it is away.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::Value;
use tidegate_testbed::{Http, Server, until};

use crate::stand::{Door, SOON, Talk, Tidegate, connected, policy};

fn on(redis: &Server, policy: &str) -> Tidegate {
    Tidegate::start(policy, &["--store", &redis.url()]).unwrap()
}

fn post(server: &Tidegate, path: &str, body: &str) -> (u16, Value) {
    let told = Http::post(server.http, path, body).unwrap();
    (told.status, serde_json::from_slice(&told.body).unwrap())
}

/// What a counter stands at, over all its labels.
fn counted(server: &Tidegate, name: &str) -> u64 {
    let told = Http::get(server.http, "/metrics").unwrap().text();
    let of_it = told.lines().filter(|line| line.starts_with(name));
    of_it.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn servers_on_one_redis_count_together_at_every_door() {
    let redis = Server::start().unwrap();
    let servers = [on(&redis, &policy(6)), on(&redis, &policy(6))];
    for door in Door::ALL {
        let mut talks = servers.each_ref().map(|server| Talk::open(server, door).unwrap());
        let passed: Vec<bool> = (0..10).map(|turn| talks[turn % 2].ask().unwrap()).collect();
        assert_eq!(passed, [[true; 6].as_slice(), &[false; 4]].concat(), "{door:?}");
        assert_eq!(servers[0].remaining(door), 0);
    }
}

#[test]
fn while_redis_is_away_every_door_answers_and_says_so() {
    let mut redis = Server::start().unwrap();
    let server = on(&redis, &policy(1_000));
    let mut talks = Door::ALL.map(|door| Talk::open(&server, door).unwrap());
    assert!(talks.each_mut().map(|talk| talk.ask().unwrap()).iter().all(|it| *it));
    assert_eq!(counted(&server, "tidegate_fallback_decisions_total"), 0);
    redis.kill();
    assert!(talks.each_mut().map(|talk| talk.ask().unwrap()).iter().all(|it| *it));
    assert_eq!(counted(&server, "tidegate_fallback_decisions_total"), 3);
    redis.restart().unwrap();
    until(SOON, "Redis decides again", || {
        let before = counted(&server, "tidegate_fallback_decisions_total");
        talks[0].ask().unwrap();
        before == counted(&server, "tidegate_fallback_decisions_total")
    })
    .unwrap();
}

#[test]
fn a_permit_whose_renewal_is_not_waited_for_stays_held() {
    let redis = Server::start().unwrap();
    let one = "rules: [{ name: jobs, algorithm: concurrency, limit: 1 in flight, lease: 10min }]";
    let patient = ["--store", &redis.url(), "--store-deadline", "5s"];
    let server = Tidegate::start(one, &patient).unwrap();
    let (_, told) = post(&server, "/v1/acquire", "{}");
    let renew = serde_json::json!({ "permit": told["permit"] }).to_string();

    redis.pause();
    let mut caller = connected(server.http).unwrap();
    let head =
        "POST /v1/renew HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ";
    write!(caller, "{head}{}\r\n\r\n{renew}", renew.len()).unwrap();
    // Until it is under way.
    caller.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(caller.read(&mut [0]).is_err(), "Redis answers nothing");
    drop(caller);
    redis.resume();

    until(SOON, "it can be renewed", || post(&server, "/v1/renew", &renew).0 == 200).unwrap();
    assert_eq!(post(&server, "/v1/acquire", "{}").1["verdict"], "deny", "it is held");
    assert_eq!(post(&server, "/v1/release", &renew).1["released"], true);
    assert_eq!(post(&server, "/v1/acquire", "{}").1["verdict"], "allow");
}

#[test]
fn permits_of_a_killed_server_come_back_after_their_lease() {
    let redis = Server::start().unwrap();
    let one = "rules: [{ name: jobs, algorithm: concurrency, limit: 1 in flight, lease: 2s }]";
    let (mut held_by, other) = (on(&redis, one), on(&redis, one));
    let (_, held) = post(&held_by, "/v1/acquire", "{}");
    assert_eq!(held["verdict"], "allow");
    assert_eq!(post(&other, "/v1/acquire", "{}").1["verdict"], "deny", "one for both");
    held_by.daemon.kill();
    assert_eq!(post(&other, "/v1/acquire", "{}").1["verdict"], "deny", "its lease goes on");
    // Another server does not know it: nothing is released, and nothing is lost.
    let named = serde_json::json!({ "permit": held["permit"] }).to_string();
    assert_eq!(post(&other, "/v1/release", &named).1["released"], false);
    let acquires = || post(&other, "/v1/acquire", "{}").1["verdict"] == "allow";
    until(SOON, "its lease is over", acquires).unwrap();
}

#[test]
fn a_server_starts_without_redis_says_so_and_takes_it_into_use() {
    let mut redis = Server::start().unwrap();
    redis.kill();
    let closed = "rules: [{ name: a, limit: 5/day, on_store_error: closed, match: { path: /a } }, \
                  { name: b, limit: 2/day, on_store_error: open, match: { path: /b } }]";
    let server = on(&redis, closed);
    let asked = |path: &str| post(&server, "/v1/check", &format!(r#"{{"path":"{path}"}}"#)).1;
    assert_eq!(asked("/a")["verdict"], "deny");
    for _ in 0..5 {
        assert_eq!(asked("/b")["verdict"], "allow");
    }
    let ready = || Http::get(server.http, "/readyz").unwrap();
    assert!(ready().text().contains("Redis was never seen"), "{:?}", ready());
    assert_eq!(ready().status, 200);
    assert_eq!(counted(&server, "tidegate_store_never_seen"), 1);
    assert!(server.daemon.log().contains("never seen Redis"), "{}", server.daemon.log());

    redis.restart().unwrap();
    until(SOON, "Redis decides", || asked("/a")["verdict"] == "allow").unwrap();
    assert_eq!(ready().text(), "ready\n");
    assert_eq!(counted(&server, "tidegate_store_never_seen"), 0);
    until(SOON, "and refuses", || asked("/b")["verdict"] == "deny").unwrap();

    redis.kill();
    until(SOON, "it is missed", || ready().text().contains("Redis is away")).unwrap();
}

#[test]
fn a_server_that_needs_redis_does_not_start_without() {
    let mut redis = Server::start().unwrap();
    redis.kill();
    let mut command = crate::stand::command();
    command.args(["--store", &redis.url(), "--store-required", "--http", "127.0.0.1:0"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nobody answers at") && said.contains("check host and port"), "{said}");
}

/// Two applications with one name of a rule, which never count together.
#[test]
fn servers_with_different_prefixes_share_no_limit() {
    let redis = Server::start().unwrap();
    let url = redis.url();
    let with =
        |prefix: &str| Tidegate::start(&policy(3), &["--store", &url, "--store-prefix", prefix]);
    let named = |name: &str| {
        let policy = format!("name: {name}\n{}", policy(3));
        Tidegate::start(&policy, &["--store", &url])
    };
    let passed = |server: &Tidegate| {
        let mut talk = Talk::open(server, Door::Http).unwrap();
        (0..5).filter(|_| talk.ask().unwrap()).count()
    };
    assert_eq!(passed(&with("shop").unwrap()), 3);
    assert_eq!(passed(&with("blog").unwrap()), 3);
    assert_eq!(passed(&named("forum").unwrap()), 3);
    assert_eq!(passed(&on(&redis, &policy(3))), 3);
    assert_eq!(passed(&named("shop").unwrap()), 0, "the policy's name is the prefix");
}

/// Who may touch nothing but its own keys needs no more than that, from the first call on.
#[test]
fn a_user_for_one_name_is_enough() {
    let redis = Server::start().unwrap();
    redis.must(&["ACL", "SETUSER", "shop", "on", ">secret", "~tg:shop:*", "+@all"]).unwrap();
    let url = redis.url().replace("redis://", "redis://shop:secret@");
    let started =
        |name: &str| Tidegate::start(&format!("name: {name}\n{}", policy(3)), &["--store", &url]);
    let server = started("shop").unwrap();
    assert!(Talk::open(&server, Door::Http).unwrap().ask().unwrap());
    assert_eq!(counted(&server, "tidegate_fallback_decisions_total"), 0);
    let error = format!("{:#}", started("blog").err().unwrap());
    assert!(error.contains("ACL SETUSER"), "{error}");
}
