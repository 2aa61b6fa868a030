//! Two nodes on a server that fails for a while, under more load than the policy lets pass.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Quota, Tick};
use tidegate_redis::{By, WithoutStore};
use tidegate_store::{Clock as _, Limiter, SystemClock};
use tidegate_testbed::{Server, ServerBuilder};
use tokio::time::{sleep, timeout};

use crate::stand::load::{Allowed, Load, Log};
use crate::stand::{LONG, Node};

pub(crate) const RATE: u32 = 100;
pub(crate) const BURST: u32 = 100;
const WHOLE: Allowed = Allowed { burst: 100, per_second: 100 };
/// What one node of two has without Redis.
const SHARE: Allowed = Allowed { burst: 50, per_second: 50 };
const NODES: usize = 2;

/// Tasks that ask one node, and how long each waits between two questions: 150 a second.
const TASKS: usize = 2;
const PACE: Duration = Duration::from_millis(13);
/// How often something is done again while it lasts.
const AGAIN: Duration = Duration::from_millis(20);

/// What happens to a server.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) server: fn() -> ServerBuilder,
    /// Where nodes connect to, once it has begun to run.
    pub(crate) url: fn(&Server) -> String,
    pub(crate) begins: fn(&mut Server),
    pub(crate) goes_on: fn(&Server),
    pub(crate) ends: fn(&mut Server),
    /// How often what was counted is lost.
    pub(crate) losses: u64,
    /// Whether Redis decides now and then while it lasts.
    pub(crate) is_partial: bool,
}

impl Fault {
    pub(crate) const NONE: Fault = Fault {
        server: Server::builder,
        url: Server::url,
        begins: |_| {},
        goes_on: |_| {},
        ends: |_| {},
        losses: 0,
        is_partial: false,
    };

    /// Lets it last for a tenth of a second, for one and for ten, beside each other.
    pub(crate) async fn check(self) {
        let lengths = [100, 1_000, 10_000].map(Duration::from_millis);
        let tasks = lengths.map(|length| tokio::spawn(self.last(length)));
        for task in tasks {
            task.await.unwrap();
        }
    }

    async fn last(self, length: Duration) {
        let mut server = (self.server)().start().unwrap();
        let url = (self.url)(&server);
        let clock = Arc::new(SystemClock::new());
        let mut limiters = Vec::new();
        for without in [WithoutStore::Local { nodes: 2 }; NODES]
            .into_iter()
            .chain([WithoutStore::Open, WithoutStore::Closed])
        {
            limiters.push(limiter(&url, without).await);
        }
        let loads: Vec<Load> = limiters
            .iter()
            .map(|it| Load::paced(it, &["ada"], (TASKS, PACE), Arc::clone(&clock)))
            .collect();
        all_decide(&limiters).await;
        let from = clock.now();
        (self.begins)(&mut server);
        while Duration::from(clock.now().since(from)) < length {
            (self.goes_on)(&server);
            sleep(AGAIN).await;
        }
        (self.ends)(&mut server);
        let to = clock.now();
        all_decide(&limiters).await;
        let mut logs = Vec::new();
        for load in loads {
            logs.push(load.stop().await);
        }
        let [here, there, open, closed] = &logs[..] else { panic!("a log each") };
        let since = if self.is_partial { from } else { to };
        self.check_local(&[here, there], since, length);
        self.check_open(open);
        self.check_closed(closed);
    }

    /// The shares have one burst when it begins. When it has ended, Redis hands out what it has
    /// earned meanwhile, less what the first node repays; the other goes on by its share until it
    /// is back, too.
    fn check_local(self, nodes: &[&Log], since: Tick, length: Duration) {
        let all = Log(nodes.iter().flat_map(|log| log.0.iter().cloned()).collect());
        for log in nodes {
            assert_eq!(log.only(|entry| entry.by == By::Local).excess(SHARE), 0);
        }
        self.check_store(&all);
        // By those who are not back yet, or whose calls were late on a busy machine.
        let later = all.only(|entry| entry.by == By::Local && since <= entry.answered);
        let (burst, probes) = (u64::from(BURST), (NODES * TASKS) as u64);
        let most = burst + burst / 2 + later.admitted().count() + probes;
        let excess = all.excess(WHOLE);
        assert!(excess <= most, "{length:?}: {excess}, and {most} are promised");
    }

    /// Everything passes that Redis does not answer; what it answers keeps the policy.
    fn check_open(self, log: &Log) {
        let open = log.only(|entry| entry.by == By::Open);
        assert_eq!(open.admitted().count(), open.count());
        self.check_store(log);
    }

    /// Nothing passes that Redis does not answer.
    fn check_closed(self, log: &Log) {
        assert_eq!(log.only(|entry| entry.by == By::Closed).admitted().count(), 0);
        self.check_store(log);
    }

    fn check_store(self, log: &Log) {
        let allowed = Allowed { burst: WHOLE.burst * (1 + self.losses), ..WHOLE };
        assert_eq!(log.only(|entry| entry.by == By::Store).excess(allowed), 0);
    }
}

async fn limiter(url: &str, without: WithoutStore) -> Node {
    let quota = Quota::per_second(RATE).burst(BURST);
    // Rules of different names count apart, and nodes of one rule together.
    let builder = Limiter::builder().each(&format!("{without:?}"), quota);
    let builder = builder.without_store(without).remember_refusals(false);
    Node::connect(url, builder).await
}

/// Waits until Redis has decided for all of them, for about a second.
async fn all_decide(limiters: &[Node]) {
    let before: Vec<u64> = limiters.iter().map(|limiter| limiter.counts().store).collect();
    for (limiter, before) in limiters.iter().zip(before) {
        let deciding = async {
            while limiter.counts().store < before + 150 {
                sleep(AGAIN).await;
            }
        };
        timeout(LONG, deciding).await.unwrap();
    }
}
