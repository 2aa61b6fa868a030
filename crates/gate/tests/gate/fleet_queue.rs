//! A queue that Redis keeps is not filled for free by those who leave it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::{Gate, Sample};

use crate::on_redis::still;
use crate::stand::{START, gate_at, left};

/// Longer than the busiest machine needs for anything.
const LONG: Duration = Duration::from_mins(1);
const SHARED: &str = "rules:
  - { name: queue, limit: 32/s, burst: 160, algorithm: leaky-queue }
  - { name: daily, key: 'header:client', algorithm: fixed-window, limit: 5/day }
  - { name: held, key: 'header:client', algorithm: concurrency, limit: 9 in flight, lease: 1h }";

fn by(who: &str) -> Sample {
    Sample::new("GET /").with_header("client", who)
}

async fn left_of(gate: &Gate, who: &str) -> [u32; 3] {
    let looked = gate.peek(&by(who)).await;
    assert!(!looked.by().is_fallback());
    left(&looked).try_into().unwrap()
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it holds before the deadline");
}

/// One client with five requests a day leaves at most five empty slots in a queue that all share,
/// however often it sends and drops.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_dropped_do_not_fill_a_queue_for_free() {
    let (_server, gate, _clock) = still(SHARED).await;
    assert!(gate.admit(&by("somebody else")).await.verdict().passes());
    let mut asked = 0;
    for _ in 0..32 {
        let mut starts = Vec::new();
        for _ in 0..5 {
            asked += 1;
            let admission = gate.admit(&by("mallory")).await;
            if admission.verdict().passes() {
                starts.push(admission.start());
            }
        }
        // In the order in which they came: all but the last leave an empty slot.
        starts.into_iter().for_each(drop);
        until(async || left_of(&gate, "mallory").await[2] == 9).await;
    }
    assert_eq!(asked, 160);
    // Every slot that stays empty is paid for, and only those are.
    until(async || {
        let [queue, daily, _] = left_of(&gate, "mallory").await;
        let (empty, paid) = (159 - queue, 5 - daily);
        assert!(empty <= 160);
        empty == paid
    })
    .await;
    assert!(154 <= left_of(&gate, "ada").await[0]);
}

/// What comes back is the same in memory and in Redis, as long as another stands behind.
#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_from_the_middle_gets_back_permits_only() {
    let (_server, there, there_clock) = still(SHARED).await;
    let (here, here_clock) = gate_at(START, SHARED);
    for (gate, clock) in [(&here, here_clock), (&there, there_clock)] {
        assert!(gate.admit(&by("somebody else")).await.verdict().passes());
        let mut first = gate.admit(&by("mallory")).await;
        let mut behind = gate.admit(&by("ada")).await;
        first.refund().await;
        assert_eq!(left(&first), [157, 4, 9], "told");
        assert_eq!(left_of(gate, "mallory").await, [157, 4, 9]);
        // The last slot comes back, and with it all that was charged for it.
        behind.refund().await;
        assert_eq!(left_of(gate, "ada").await[1..], [5, 9]);
        drop((first, behind));
        // A settlement before it leaves changes nothing about that.
        let mut settled = gate.admit(&by("mallory")).await;
        settled.set_cost(3).await;
        let behind = gate.admit(&by("ada")).await;
        settled.refund().await;
        assert_eq!(left_of(gate, "mallory").await[1..], [1, 9]);
        drop((settled, behind));
        // After its turn it was used: then what counts requests is given back.
        let mut late = gate.admit(&by("bob")).await;
        assert!(late.delay().is_some());
        let behind = gate.admit(&by("ada")).await;
        clock.advance(Span::from_secs(60));
        late.refund().await;
        assert_eq!(left_of(gate, "bob").await[1], 5);
        drop((late, behind));
    }
}
