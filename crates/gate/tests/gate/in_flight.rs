//! Requests in flight, of one client and of all: taken together, and given back together.

use tidegate_core::Span;

use crate::stand::{by, gate, left, looks, passes};

const POLICY: &str = "rules:
  - { name: each, key: header:x-api-key, limit: 2 in flight, algorithm: concurrency, lease: 30s }
  - { name: all, limit: 3 in flight, algorithm: concurrency, lease: 30s }";

#[test]
fn permits_of_one_client_and_of_all_come_back_together() {
    let (gate, clock) = gate(POLICY);
    let [one, mut two, three] = ["ada", "ada", "bob"].map(|key| gate.decide(&by(key)));
    assert_eq!((left(&one), left(&two), left(&three)), (vec![1, 2], vec![0, 1], vec![1, 0]));
    assert!(!passes(&gate, &by("cleo")) && !passes(&gate, &by("ada")));
    drop(one);
    assert_eq!(looks(&gate, &by("ada")), [1, 1]);
    assert!(passes(&gate, &by("cleo")), "a refusal has taken nothing");
    // Released twice, and dropped: given back once.
    drop(two.release());
    drop(two.release());
    drop(two);
    assert_eq!(looks(&gate, &by("ada")), [2, 2]);
    std::mem::forget(three);
    clock.advance(Span::from_micros(29_999_999));
    assert_eq!(looks(&gate, &by("bob")), [1, 2]);
    clock.advance(Span::from_micros(1));
    assert_eq!(looks(&gate, &by("bob")), [2, 3]);
}

mod redis {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_gate::Gate;
    use tidegate_redis::{Fleet, RedisStore, Settings};
    use tidegate_store::Clock;
    use tidegate_testbed::Server;

    use super::*;
    use crate::stand::{clock, rules};

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn permits_of_one_client_and_of_all_come_back_together() {
        let (server, clock) = (Server::start().expect("a server"), clock());
        let judge = Arc::clone(&clock) as Arc<dyn Clock>;
        let store = RedisStore::builder(Settings::from_url(&server.url()).expect("an address"));
        let store = store.deadline(LONG).judged_by(Arc::clone(&judge));
        let fleet = Fleet::new(store.connect().await.expect("a server"));
        let gate = Gate::builder().rules(rules(POLICY)).store(fleet).clock(judge);
        let gate = gate.open().expect("a gate");
        let one = gate.admit(&by("ada")).await;
        let (mut two, three) = (gate.admit(&by("ada")).await, gate.admit(&by("bob")).await);
        assert_eq!((left(&two), left(&three)), (vec![0, 1], vec![1, 0]));
        assert!(!gate.admit(&by("cleo")).await.verdict().passes());
        // Where all let it pass, a look says what would be left.
        let left_for = async |key: &str| left(&gate.peek(&by(key)).await);
        let becomes = async |key: &str, expected: [u32; 2]| {
            let waits = async { while left_for(key).await != expected {} };
            let waited = tokio::time::timeout(LONG, waits).await;
            assert!(waited.is_ok(), "{key}: {:?}, not {expected:?}", left_for(key).await);
        };
        drop(one);
        becomes("ada", [1, 1]).await;
        two.release().await;
        assert_eq!(left_for("ada").await, [2, 2], "known as soon as it is told");
        two.release().await;
        drop(two);
        becomes("ada", [2, 2]).await;
        std::mem::forget(three);
        clock.advance(Span::from_micros(29_999_999));
        becomes("bob", [1, 2]).await;
        clock.advance(Span::from_micros(1));
        becomes("bob", [2, 3]).await;
    }
}
