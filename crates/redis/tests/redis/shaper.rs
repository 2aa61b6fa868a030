//! The shaper of a fleet, on a real server: the same laws as in one process, and what gets lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Quota, Span};
use tidegate_redis::{By, Fleet, RedisStore, WithoutStore};
use tidegate_sim::rng::Rng;
use tidegate_sim::shaping::{self, Asked, Shaped};
use tidegate_store::{Clock, ManualClock, NoSlot, Shaper, ShaperBuilder, SharedShaper, Slot};
use tidegate_testbed::Server;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::stand::{LONG, store, store_by, store_within};

fn shaper(builder: ShaperBuilder, name: &str, store: RedisStore) -> SharedShaper {
    builder.build_on(name, Arc::new(Fleet::new(store))).unwrap()
}

/// Calls of scripts that were answered.
fn round_trips(shaper: &SharedShaper) -> u64 {
    shaper.store().stats().remote.unwrap().round_trips.count()
}

type Call = JoinHandle<Result<Slot, NoSlot>>;

/// Two nodes of a fleet by one clock that stands still; calls are tasks.
struct Nodes {
    runtime: Runtime,
    clock: Arc<ManualClock>,
    shapers: [SharedShaper; 2],
    calls: BTreeMap<u32, Call>,
}

impl Nodes {
    fn new(url: &str, name: &str, quota: Quota) -> Nodes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(ManualClock::new());
        clock.advance(Span::from_secs(1_000_000_000));
        let shapers = [0, 1].map(|_| {
            let store = runtime.block_on(store_by(url, &clock));
            let waits_by: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
            shaper(Shaper::builder(quota).clock(waits_by), name, store)
        });
        Nodes { runtime, clock, shapers, calls: BTreeMap::new() }
    }

    /// Lets tasks go on until `done`.
    fn until(&self, done: impl Fn() -> bool) {
        let turn = async {
            while !done() {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        };
        self.runtime.block_on(async { tokio::time::timeout(LONG, turn).await.unwrap() });
    }

    fn answered(&self) -> u64 {
        self.shapers.iter().map(round_trips).sum()
    }

    fn start(&mut self, node: usize, (key, cost, within): (u64, u32, Span)) -> Call {
        let waiting = self.clock.waiting();
        let call = self.runtime.spawn(self.shapers[node].acquire_within(key, cost, within));
        self.until(|| call.is_finished() || waiting < self.clock.waiting());
        call
    }

    /// The call gives up; a slot that it may have had is given back before this returns.
    fn abort(&mut self, call: &Call) {
        let answered = self.answered();
        call.abort();
        self.until(|| call.is_finished() && answered < self.answered());
    }

    fn result(&self, call: Call) -> Result<Slot, NoSlot> {
        self.runtime.block_on(call).unwrap()
    }
}

impl Shaped for Nodes {
    const MOVES_UP: bool = false;

    fn ask(&mut self, call: u32, key: u64, cost: u32, within: Span) -> Asked {
        let task = self.start(call as usize % 2, (key, cost, within));
        if !task.is_finished() {
            self.calls.insert(call, task);
            return Asked::Waits;
        }
        match self.result(task) {
            Ok(slot) if slot.waited == Span::ZERO => Asked::Sent,
            Ok(slot) => panic!("nobody waits for {slot:?}"),
            Err(NoSlot::Refused { retry_after, .. }) => Asked::Refused { retry_after },
            Err(_) => Asked::Never,
        }
    }

    fn leave(&mut self, call: u32) {
        let call = self.calls.remove(&call).unwrap();
        self.abort(&call);
    }

    fn advance(&mut self, by: Span) -> Vec<u32> {
        let waiting = self.clock.waiting();
        self.clock.advance(by);
        let sent = waiting - self.clock.waiting();
        let finished = |(_, call): &(&u32, &Call)| call.is_finished();
        self.until(|| self.calls.iter().filter(finished).count() == sent);
        let sent: Vec<u32> = self.calls.iter().filter(finished).map(|(call, _)| *call).collect();
        for call in &sent {
            self.calls.remove(call);
        }
        sent
    }
}

/// A quota of which a cell takes a tick or more: what is faster shares ticks.
fn slow_quota(rng: &mut Rng) -> Quota {
    loop {
        let quota = rng.small_quota();
        if u64::from(quota.cells()) <= quota.per().get() {
            return quota;
        }
    }
}

#[test]
fn law_two_nodes_together_send_what_one_naive_queue_would() {
    let server = Server::start().unwrap();
    for seed in 0..20 {
        let quota = slow_quota(&mut Rng::new(seed));
        let mut nodes = Nodes::new(&server.url(), &format!("law {seed}"), quota);
        shaping::check(&mut nodes, quota, seed, 150);
    }
}

#[test]
fn only_the_last_slot_comes_back() {
    let server = Server::start().unwrap();
    let mut nodes = Nodes::new(&server.url(), "back", Quota::per_second(10));
    let calls: Vec<Call> = (0..4).map(|call| nodes.start(call % 2, (1, 1, Span::MAX))).collect();
    let next = |nodes: &Nodes| nodes.runtime.block_on(nodes.shapers[0].peek(1_u64, 1)).unwrap();
    assert_eq!(next(&nodes), Span::from_millis(400));
    nodes.abort(&calls[1]);
    assert_eq!(next(&nodes), Span::from_millis(400), "two would be sent together");
    nodes.abort(&calls[3]);
    assert_eq!(next(&nodes), Span::from_millis(300));
}

#[tokio::test]
async fn without_redis_calls_are_refused_or_go_on_at_a_share() {
    let server = Server::start().unwrap();
    let url = server.url();
    let quota = Quota::per_second(300).burst(30);
    let quick = async || store_within(&url, Duration::from_millis(200)).await;
    let closed = shaper(Shaper::builder(quota), "closed", quick().await);
    let share = Shaper::builder(quota).without_store(WithoutStore::Local { nodes: 3 });
    let share = shaper(share, "share", quick().await);
    assert_eq!(share.acquire("it", 1).await.unwrap().by, By::Store);
    drop(server);
    let refused = closed.acquire("it", 1).await.unwrap_err();
    assert!(matches!(refused, NoSlot::Refused { by: By::Closed, .. }), "{refused:?}");
    // A hundred a second, ten in the queue.
    let mut waited = Vec::new();
    for _ in 0..3 {
        let slot = share.acquire("it", 1).await.unwrap();
        assert_eq!(slot.by, By::Local);
        waited.push(slot.waited);
    }
    let all: u64 = waited.iter().map(|waited| waited.get()).sum();
    assert!(15_000 <= all, "{waited:?}");
    assert!(matches!(share.acquire("it", 11).await, Err(NoSlot::Never)));
}

/// A caller that stops waiting while Redis is asked does not lose the slot for everybody.
#[tokio::test]
async fn a_call_that_is_given_up_while_it_asks_gives_its_slot_back() {
    let server = Server::start().unwrap();
    let quota = Quota::per_minute(1).burst(5);
    let shaper = shaper(Shaper::builder(quota), "given up", store(&server.url()).await);
    shaper.acquire("it", 1).await.unwrap();
    let full = shaper.peek("it", 1).await.unwrap();
    {
        let mut call = Box::pin(shaper.acquire("it", 1));
        let once = std::future::poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        });
        once.await;
    }
    let given_back = async {
        // Two calls of scripts before; two of this one, to ask and to give back.
        while round_trips(&shaper) < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, given_back).await.unwrap();
    assert!(shaper.peek("it", 1).await.unwrap() <= full);
}
