//! Who gives up before its start: a slot that cannot come back is paid for by every limit.

use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{
    By, Fleet, FleetReceipts, RedisStore, Settings, SharedCharge, SharedRule, WithoutStore,
};
use tidegate_store::Limiter;
use tidegate_testbed::Server;

use crate::stand::{LONG, key, permits, still, still_store};

const CLOSED: WithoutStore = WithoutStore::Closed;
const LOCAL: WithoutStore = WithoutStore::Local { nodes: 1 };
const LEASE: Span = Span::from_secs(3_600);

fn per_day(kind: Kind, cells: u32) -> Policy {
    Policy::new(kind, Quota::per_day(cells)).unwrap()
}

/// Two queues, of each client and of all; requests of a day, and permits.
struct Rules([(SharedRule, bool); 4]);

impl Rules {
    fn new(fleet: &Fleet, without: WithoutStore) -> Rules {
        let queue = per_day(Kind::LeakyQueue, 10);
        let daily = per_day(Kind::FixedWindow, 5);
        let rules = [("own", queue), ("all", queue), ("daily", daily), ("held", permits(9, LEASE))];
        Rules(
            rules.map(|(name, policy)| (fleet.rule(name, policy, without).unwrap(), name == "all")),
        )
    }

    /// What is left under each for `who`, and by what that was said.
    async fn left(&self, fleet: &Fleet, who: &str) -> (By, Vec<u32>) {
        let keys = self.keys(who);
        let charges: Vec<_> = self.charges(&keys, 0);
        let decided = fleet.peek(&charges).await;
        (decided.by, decided.each.iter().map(|it| it.remaining).collect())
    }

    async fn take(&self, fleet: &Fleet, who: &str) -> FleetReceipts {
        let keys = self.keys(who);
        let decided = fleet.decide(&self.charges(&keys, 1)).await;
        assert!(decided.verdict.passes());
        decided.receipts
    }

    fn keys(&self, who: &str) -> [tidegate_redis::FleetKey; 4] {
        self.0.each_ref().map(|(_, is_for_all)| key(if *is_for_all { "all" } else { who }))
    }

    fn charges<'a>(
        &'a self,
        keys: &'a [tidegate_redis::FleetKey],
        cost: u32,
    ) -> Vec<SharedCharge<'a>> {
        let charge =
            |((rule, _), key): (&'a (SharedRule, bool), &'a _)| SharedCharge { rule, key, cost };
        self.0.iter().zip(keys).map(charge).collect()
    }
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it holds before the deadline");
}

/// The queue of the client, which takes its slot back, pays for the one that does not.
#[tokio::test]
async fn an_empty_slot_is_paid_for_by_every_limit_but_permits() {
    let server = Server::start().unwrap();
    let (store, _clock) = still_store(&server.url()).await;
    let fleet = Fleet::new(store);
    let mut rules = Rules::new(&fleet, CLOSED);
    for (turn, who) in ["mallory", "eve"].into_iter().enumerate() {
        let first = rules.take(&fleet, who).await;
        let behind = rules.take(&fleet, "ada").await;
        assert_eq!(first.give_up().await, Ok(false));
        let all = 10 - 1 - u32::try_from(turn).unwrap();
        let mut expected = vec![9, all - 1, 4, 9];
        let mut fresh = vec![10, all, 5, 9];
        // In either order of the queues.
        if turn == 1 {
            expected.swap(0, 1);
            fresh.swap(0, 1);
        }
        assert_eq!(rules.left(&fleet, who).await, (By::Store, expected), "{who}");
        assert_eq!(behind.give_up().await, Ok(true));
        assert_eq!(rules.left(&fleet, "ada").await, (By::Store, fresh), "after {who}");
        rules.0.swap(0, 1);
    }
}

/// Nobody knows whether the slot comes back: it is paid for.
#[tokio::test(flavor = "multi_thread")]
async fn while_redis_does_not_answer_only_permits_come_back_beside_the_slot() {
    let server = Server::start().unwrap();
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(Duration::from_millis(500)).connect().await.unwrap();
    let fleet = Fleet::new(store);
    let rules = Rules::new(&fleet, CLOSED);
    let first = rules.take(&fleet, "mallory").await;
    server.pause();
    until(async || {
        assert_eq!(rules.left(&fleet, "mallory").await.0, By::Closed);
        fleet.store().resting() == 1
    })
    .await;
    assert!(first.give_up().await.unwrap_err().is_certain());
    server.resume();
    let mut looked = (By::Closed, Vec::new());
    until(async || {
        looked = rules.left(&fleet, "mallory").await;
        looked.0 == By::Store && looked.1[3] == 9 && looked.1[0] == 10
    })
    .await;
    // The first slot comes back late, because nobody stands behind it. The rest was never asked.
    assert_eq!(looked.1, [10, 9, 4, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_it_is_the_same_and_what_is_paid_is_owed() {
    let mut server = Server::start().unwrap();
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(Duration::from_millis(500)).connect().await.unwrap();
    let fleet = Fleet::new(store);
    let rules = Rules::new(&fleet, LOCAL);
    // Not paused: what it were asked then would be done afterwards.
    server.kill();
    until(async || {
        assert_eq!(rules.left(&fleet, "mallory").await.0, By::Local);
        fleet.store().resting() == 1
    })
    .await;
    let first = rules.take(&fleet, "mallory").await;
    let behind = rules.take(&fleet, "ada").await;
    assert_eq!(first.give_up().await, Ok(false));
    assert_eq!(rules.left(&fleet, "mallory").await, (By::Local, vec![9, 8, 4, 9]));
    assert_eq!(behind.give_up().await, Ok(true));
    assert_eq!(rules.left(&fleet, "ada").await.1[2..], [5, 9]);
    server.restart().unwrap();
    until(async || rules.left(&fleet, "nobody").await.0 == By::Store).await;
    // What is owed is charged before Redis decides, for those who ask.
    for (who, left) in [("mallory", [8, 8, 3, 8]), ("ada", [9, 7, 4, 8])] {
        let keys = rules.keys(who);
        let decided = fleet.decide(&rules.charges(&keys, 1)).await;
        let said: Vec<u32> = decided.each.iter().map(|it| it.remaining).collect();
        assert_eq!((decided.by, said), (By::Store, left.to_vec()), "{who}");
        decided.receipts.keep();
    }
}

/// A pass knows by itself whether its turn has come.
#[tokio::test]
async fn a_pass_that_is_refunded_before_its_turn_leaves_its_queue() {
    let builder = Limiter::builder();
    let builder = builder.each("daily", per_day(Kind::FixedWindow, 5));
    let builder = builder.all("queue", per_day(Kind::LeakyQueue, 10));
    let (_server, limiter, _clock) = still(builder).await;
    assert!(limiter.decide("somebody else").await.verdict().passes());
    let early = limiter.key("mallory").enter().await.unwrap();
    let behind = limiter.key("ada").enter().await.unwrap();
    early.refund().await;
    behind.refund().await;
    let left =
        async |who: &str| limiter.key(who).cost(0).peek().await.of("daily").unwrap().remaining;
    assert_eq!((left("mallory").await, left("ada").await), (4, 5));
}
