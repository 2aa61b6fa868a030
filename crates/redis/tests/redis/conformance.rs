//! The Redis store answers as the core does, digit for digit, whatever happens to its rules.

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_sim::conformance;
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::{Cluster, Flavor, Server};

fn check(url: &str, seed: u64, steps: u32) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let clock = Arc::new(ManualClock::new());
    let builder = RedisStore::builder(Settings::from_url(url).unwrap());
    let builder = builder.prefix(&format!("{seed}:")).deadline(Duration::from_secs(5));
    let connect = builder.judged_by(Arc::clone(&clock) as Arc<dyn Clock>).connect();
    let fleet = runtime.block_on(async { Fleet::new(connect.await.unwrap()) });
    let _entered = runtime.enter();
    conformance::check(&fleet, &clock, seed, steps);
}

#[test]
fn every_server_answers_as_the_core_does() {
    for flavor in Flavor::all_there() {
        let server = Server::builder().flavor(flavor).start().unwrap();
        for seed in 0..4 {
            check(&server.url(), seed, 2_500);
        }
    }
}

#[test]
fn a_cluster_answers_as_the_core_does() {
    let cluster = Cluster::start().unwrap();
    let hosts: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    for seed in [10, 11] {
        check(&url, seed, 2_000);
    }
}
