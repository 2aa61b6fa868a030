//! What a reader of Redis, or of a snapshot, learns about those who are counted.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use tidegate_core::{Policy, Quota};
use tidegate_gate::{AdhocCharge, Gate, GateBuilder, KeySecret, Sample, WithoutStore};
use tidegate_redis::Fleet;
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::{Reply, Server};

use crate::on_redis::{passed, store};
use crate::stand::{Folder, START, by, clock_at, looks, rules};

const POLICY: &str = "
rules:
  - { name: addresses, key: ip, limit: 5/h }
  - { name: pairs, key: [ip, attribute:user], limit: 5/h }
  - { name: keys, key: header:x-api-key, limit: 5/h }
";

fn secret(byte: u8) -> KeySecret {
    KeySecret::new(&[byte; 32]).unwrap()
}

fn request() -> Sample {
    let from = Sample::new("GET /").from_peer("192.0.2.77".parse().unwrap());
    from.with_attribute("user", "ada-lovelace").with_header("x-api-key", "acme")
}

fn names(server: &Server) -> BTreeSet<String> {
    let keys = server.must(&["KEYS", "*"]).unwrap();
    keys.items().iter().map(Reply::text).collect()
}

async fn node(server: &Server, clock: &Arc<ManualClock>, secret: Option<KeySecret>) -> Gate {
    let fleet = Fleet::new(store(server, clock).await);
    let builder = Gate::builder().rules(rules(POLICY)).store(fleet).beat_every(None);
    let builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
    secret.into_iter().fold(builder, GateBuilder::key_secret).open().unwrap()
}

/// Four thousand million addresses are tried out in minutes, were they only hashed.
#[tokio::test]
async fn with_a_secret_redis_knows_nobody_by_name() {
    let (server, clock) = (Server::start().unwrap(), clock_at(START));
    let open = node(&server, &clock, None).await;
    assert_eq!(passed(&open, &request(), 1).await, 1);
    let seen = names(&server);
    assert!(seen.iter().any(|name| name.contains("192.0.2.77")), "as they are: {seen:?}");
    assert!(seen.iter().any(|name| name.contains("ada-lovelace")), "as they are: {seen:?}");
    server.must(&["FLUSHALL"]).unwrap();

    let [one, same] = [node(&server, &clock, Some(secret(b'a'))).await, {
        node(&server, &clock, Some(secret(b'a'))).await
    }];
    assert_eq!(passed(&one, &request(), 3).await, 3);
    assert_eq!(passed(&same, &request(), 9).await, 2, "nodes with one secret count together");
    let limit = Policy::token_bucket(Quota::per_hour(5)).unwrap();
    let limit = one.adhoc("login", limit, WithoutStore::Closed).unwrap();
    let key: &[&[u8]] = &[b"grace-hopper", b"192.0.2.77"];
    let charge = AdhocCharge { limit: &limit, key, cost: 1 };
    assert!(one.decide_adhoc(&[charge]).await.verdict.passes());
    let seen = names(&server);
    assert_eq!(seen.len(), 4, "{seen:?}");
    for name in &seen {
        for clear in ["192.0.2", "ada", "acme", "grace", "sha1"] {
            assert!(!name.contains(clear), "{name}");
        }
    }
    // What is counted of one address lives in one slot of a cluster.
    let tag = |name: &str| name[..=name.find('}').unwrap()].to_owned();
    let tags: BTreeSet<String> = seen.iter().map(|name| tag(name)).collect();
    assert_eq!(tags.len(), 3, "{seen:?}");

    let other = node(&server, &clock, Some(secret(b'b'))).await;
    assert_eq!(passed(&other, &request(), 9).await, 5, "another secret, other keys");
    assert!(names(&server).is_superset(&seen) && names(&server).len() == 7);
}

const OVERRIDDEN: &str = "rules: [{ name: r, key: header:x-api-key, limit: 5/h, \
                          overrides: { sk-live-4eC39HqLyjWD: 9/h } }]";

fn opened(folder: &Folder, clock: &Arc<ManualClock>, secret: Option<KeySecret>) -> Gate {
    let builder = Gate::builder().rules(rules(OVERRIDDEN)).restore(folder.join("snapshot"));
    let builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
    secret.into_iter().fold(builder, GateBuilder::key_secret).open().unwrap()
}

#[test]
fn a_snapshot_names_no_key_of_an_override() {
    for of in [None, Some(secret(b'a'))] {
        let (folder, clock) = (Folder::new(), clock_at(START));
        let mut gate = opened(&folder, &clock, of.clone());
        assert_eq!(looks(&gate, &by("sk-live-4eC39HqLyjWD")), [9]);
        assert_eq!(crate::stand::passed(&gate, &by("sk-live-4eC39HqLyjWD"), 7), 7);
        // As often as you like: what was hidden is not hidden twice.
        for _ in 0..3 {
            gate.save(folder.join("snapshot")).unwrap();
            let bytes = fs::read(folder.join("snapshot")).unwrap();
            let key = b"sk-live";
            assert!(!bytes.windows(key.len()).any(|it| it == key), "it stands in clear");
            gate = opened(&folder, &clock, of.clone());
            assert_eq!(looks(&gate, &by("sk-live-4eC39HqLyjWD")), [2], "and is found again");
        }
        // Limits that no policy has meanwhile wait under their hidden names.
        let without = "rules: [{ name: other, limit: 1/h }]";
        let builder = Gate::builder().rules(rules(without)).restore(folder.join("snapshot"));
        let builder = builder.clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let away = of.clone().into_iter().fold(builder, GateBuilder::key_secret).open().unwrap();
        away.save(folder.join("snapshot")).unwrap();
        away.replace(rules(OVERRIDDEN)).unwrap();
        assert_eq!(looks(&away, &by("sk-live-4eC39HqLyjWD")), [2]);
        let again = opened(&folder, &clock, of);
        assert_eq!(looks(&again, &by("sk-live-4eC39HqLyjWD")), [2]);
    }
}
