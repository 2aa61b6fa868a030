//! The Redis store answers as the core does, digit for digit, whatever happens to its rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Debited, Decision, Policy, Receipt, Shape, Tick};
use tidegate_redis::{FleetCharge, FleetKey, FleetRule, RedisStore, Settings, StoreError};
use tidegate_sim::conformance::{self, Answered, Subject};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::{Cluster, Flavor, Server};
use tokio::runtime::Runtime;

struct Redis {
    runtime: Runtime,
    store: RedisStore,
    clock: Arc<ManualClock>,
    rules: u32,
    /// The policies that each rule had.
    had: HashMap<String, Vec<Policy>>,
    /// Whether all keys live in one slot.
    together: bool,
}

impl Redis {
    fn connect(url: &str, prefix: &str, together: bool) -> Redis {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(ManualClock::new());
        let builder = RedisStore::builder(Settings::from_url(url).unwrap());
        let builder = builder.prefix(prefix).deadline(Duration::from_secs(5));
        let connect = builder.judged_by(Arc::clone(&clock) as Arc<dyn Clock>).connect();
        let store = runtime.block_on(connect).unwrap();
        Redis { runtime, store, clock, rules: 0, had: HashMap::new(), together }
    }

    fn at(&self, now: Tick) {
        self.clock.advance(now.since(self.clock.now()));
    }

    fn key(&self, number: u64) -> FleetKey {
        let tenant = if self.together { 0 } else { number };
        FleetKey::in_tenant(tenant, number).unwrap()
    }
}

impl Subject for Redis {
    type Rule = FleetRule;

    fn rule(&mut self, policy: Policy) -> FleetRule {
        self.rules += 1;
        self.store.rule(&format!("rule {}", self.rules), policy)
    }

    fn change(&mut self, rule: &FleetRule, policy: Policy, now: Tick) -> FleetRule {
        self.at(now);
        rule.change(policy, now)
    }

    /// In Redis such a state expires by the server's own time, which stands still here.
    fn is_asked_before_change(&mut self, rule: &FleetRule, policy: &Policy) -> bool {
        let had = self.had.entry(rule.name().to_owned()).or_default();
        had.push(*rule.policy());
        had.iter().any(|had| reads_alike(had, policy))
    }

    fn decide(
        &mut self,
        (rule, key): (&FleetRule, u64),
        now: Tick,
        cost: u32,
    ) -> (Decision, Option<Receipt>) {
        self.at(now);
        let key = self.key(key);
        self.runtime.block_on(self.store.decide_with_receipt(rule, &key, cost)).unwrap()
    }

    fn decide_all(&mut self, on: &[(&FleetRule, u64)], now: Tick, cost: u32) -> Vec<Answered> {
        self.at(now);
        let keys: Vec<FleetKey> = on.iter().map(|&(_, key)| self.key(key)).collect();
        let charges = on.iter().zip(&keys).map(|(&(rule, _), key)| FleetCharge { rule, key, cost });
        let charges: Vec<FleetCharge<'_>> = charges.collect();
        let judged = self.runtime.block_on(self.store.decide_all(&charges)).unwrap();
        let each: Vec<Decision> = judged.each().copied().collect();
        each.into_iter().zip(judged.into_receipts()).collect()
    }

    fn peek(&mut self, (rule, key): (&FleetRule, u64), now: Tick, cost: u32) -> Decision {
        self.at(now);
        let key = self.key(key);
        self.runtime.block_on(self.store.peek(rule, &key, cost)).unwrap()
    }

    fn refund(&mut self, (rule, key): (&FleetRule, u64), now: Tick, receipt: Receipt) {
        self.at(now);
        let key = self.key(key);
        self.runtime.block_on(self.store.refund(rule, &key, receipt)).unwrap();
    }

    fn debit(&mut self, (rule, key): (&FleetRule, u64), now: Tick, cells: u32) -> Option<Debited> {
        self.at(now);
        let key = self.key(key);
        match self.runtime.block_on(self.store.debit(rule, &key, cells)) {
            Err(StoreError::NothingToDebit(_)) => None,
            debited => Some(debited.unwrap()),
        }
    }

    fn give_back(&mut self, (rule, key): (&FleetRule, u64), now: Tick, cells: u32) {
        self.at(now);
        let key = self.key(key);
        self.runtime.block_on(self.store.give_back(rule, &key, cells)).unwrap();
    }

    fn overdrawn(&mut self, (rule, key): (&FleetRule, u64), now: Tick) -> u32 {
        self.at(now);
        let key = self.key(key);
        let charge = FleetCharge { rule, key: &key, cost: 0 };
        let judged = self.runtime.block_on(self.store.peek_all(&[charge])).unwrap();
        judged.overdrawn().next().unwrap()
    }

    fn reset(&mut self, (rule, key): (&FleetRule, u64)) {
        let key = self.key(key);
        self.runtime.block_on(self.store.reset(rule, &key)).unwrap();
    }
}

fn reads_alike(a: &Policy, b: &Policy) -> bool {
    match (a.shape(), b.shape()) {
        (Shape::FixedWindow { per: a, .. }, Shape::FixedWindow { per: b, .. })
        | (Shape::Log { per: a, .. }, Shape::Log { per: b, .. })
        | (Shape::SlidingWindow { per: a, .. }, Shape::SlidingWindow { per: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

#[test]
fn every_server_answers_as_the_core_does() {
    for flavor in Flavor::all_there() {
        let server = Server::builder().flavor(flavor).start().unwrap();
        for seed in 0..4 {
            let prefix = format!("{seed}:");
            let mut redis = Redis::connect(&server.url(), &prefix, false);
            conformance::check(&mut redis, seed, 2_500);
        }
    }
}

#[test]
fn a_cluster_answers_as_the_core_does() {
    let cluster = Cluster::start().unwrap();
    let hosts: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    for (seed, together) in [(10, true), (11, false)] {
        let mut redis = Redis::connect(&url, &format!("{seed}:"), together);
        conformance::check(&mut redis, seed, 2_000);
    }
}
