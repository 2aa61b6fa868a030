//! What a response gives back while Redis does not answer, or where there is no runtime.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_gate::{Admission, Gate, Sample};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::Clock;
use tidegate_testbed::Server;

use crate::on_redis::still;
use crate::stand::{Answered, START, clock_at, gate_at, left, rules};

/// Longer than the busiest machine needs for anything.
const LONG: Duration = Duration::from_mins(1);
const LOGINS: &str = "rules: [{ name: failed, limit: 5/day, counts_when: { status: 401 } }]";
const PERMITS: &str = "rules:
  - { name: all, limit: 5 in flight, algorithm: concurrency, lease: 1h }";

fn request() -> Sample {
    Sample::new("POST /login")
}

/// A gate that does not wait for long.
async fn impatient(policy: &str) -> (Server, Gate) {
    let (server, clock) = (Server::start().unwrap(), clock_at(START) as Arc<dyn Clock>);
    let store = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = store.deadline(Duration::from_millis(500)).judged_by(Arc::clone(&clock));
    let fleet = Fleet::new(store.connect().await.unwrap());
    let builder = Gate::builder().rules(rules(policy)).store(fleet).beat_every(None);
    (server, builder.clock(clock).open().unwrap())
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it holds before the deadline");
}

async fn five(gate: &Gate) -> Vec<Admission> {
    let mut admissions = Vec::new();
    for left in (0..5).rev() {
        let admission = gate.admit(&request()).await;
        assert_eq!(admission.each().next().unwrap().decision.remaining, left);
        admissions.push(admission);
    }
    admissions
}

/// Whether all of it is left, by Redis.
async fn is_free(gate: &Gate) -> bool {
    let looked = gate.peek(&request()).await;
    !looked.by().is_fallback() && looked.each().next().unwrap().decision.remaining == 5
}

/// Pauses a server, and waits until it is left alone.
async fn pause(server: &Server, gate: &Gate) {
    server.pause();
    until(async || {
        assert!(gate.peek(&request()).await.by().is_fallback());
        gate.stats().store.unwrap().resting == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn good_logins_during_an_outage_are_not_charged_after_it() {
    let (server, gate) = impatient(LOGINS).await;
    let mut admissions = five(&gate).await;
    pause(&server, &gate).await;
    for admission in &mut admissions[..3] {
        admission.settle(&Answered(200, "", "")).await;
    }
    // Nobody waits for these, and these threads know of no runtime.
    for mut admission in admissions.drain(3..) {
        thread::spawn(move || drop(admission.settle(&Answered(200, "", "")))).join().unwrap();
    }
    server.resume();
    until(async || is_free(&gate).await).await;
    assert_eq!(gate.stats().store.unwrap().decisions.not_returned, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_dropped_during_an_outage_are_free_after_it() {
    let (server, gate) = impatient(PERMITS).await;
    let mut admissions = five(&gate).await;
    pause(&server, &gate).await;
    let last = admissions.pop();
    drop(admissions);
    thread::spawn(move || drop(last)).join().unwrap();
    server.resume();
    until(async || is_free(&gate).await).await;
    assert_eq!(gate.stats().store.unwrap().decisions.not_returned, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_thread_settles_and_gives_back() {
    for policy in [LOGINS, PERMITS] {
        let (_server, gate, _clock) = still(policy).await;
        let admissions = five(&gate).await;
        thread::spawn(move || {
            for mut admission in admissions {
                drop(admission.settle(&Answered(200, "", "")));
            }
        })
        .join()
        .unwrap();
        until(async || is_free(&gate).await).await;
    }
}

const HELD: &str = "rules:
  - { name: held, limit: 9 in flight, algorithm: concurrency, lease: 1h }
  - { name: cells, limit: 10/day, algorithm: fixed-window }
  - { name: failed, limit: 6/day, algorithm: fixed-window, counts_when: { status: 401 } }";

async fn left_by(gate: &Gate) -> Vec<u32> {
    left(&gate.peek(&request()).await)
}

/// Permits are held and not spent; what was refused has charged nothing that could be settled; and
/// every settlement takes or gives back just the difference. In memory and in Redis.
#[tokio::test(flavor = "multi_thread")]
async fn settlements_leave_permits_and_what_was_refused_as_they_are() {
    let (_server, there, _) = still(HELD).await;
    let (here, _) = gate_at(START, HELD);
    for gate in [&here, &there] {
        let mut first = gate.admit(&request()).await;
        first.set_cost(4).await;
        assert_eq!(left_by(gate).await, [8, 6, 2]);
        first.charge_more(2).await;
        assert_eq!(left_by(gate).await, [8, 4, 0]);
        first.set_cost(3).await;
        assert_eq!(left_by(gate).await, [8, 7, 3]);
        first.settle(&Answered(200, "", "")).await;
        assert_eq!(left_by(gate).await, [8, 7, 6]);
        // What a response has ruled out stays out.
        first.set_cost(5).await;
        assert_eq!(left_by(gate).await, [8, 5, 6]);
        let mut refused = gate.admit(&request().with_cost(7)).await;
        assert!(!refused.verdict().passes());
        refused.set_cost(1).await;
        refused.charge_more(1).await;
        refused.refund().await;
        drop(refused);
        assert_eq!(left_by(gate).await, [8, 5, 6]);
        first.refund().await;
        assert_eq!(left_by(gate).await, [8, 10, 6]);
        first.release().await;
        assert_eq!(left_by(gate).await, [9, 10, 6]);
    }
}
