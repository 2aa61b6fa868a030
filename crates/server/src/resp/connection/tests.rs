//! Connections without a network: what they hold, and when they are given up.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_gate::{Admission, Gate, Sample};
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::task::yield_now;

use super::*;
use crate::auth::{Guard, Visitor};
use crate::desk::Turns;
use crate::limits::{RESP_CHECK_EVERY, RESP_TURN_COMMANDS_MAX};
use crate::resp::RespDoor;
use crate::settings::Bounds;
use crate::stop::Stopper;

fn door() -> RespDoor {
    door_by("rules: [{ name: all, key: method, limit: 2/min }]")
}

fn door_by(policy: &str) -> RespDoor {
    let gate = Gate::from_text(policy).unwrap();
    RespDoor::new(Arc::new(Desk::new(gate, Guard::default(), None, None, Bounds::default())))
}

/// A door to a share of one place, its gate, and who has the place.
fn crowded() -> (RespDoor, Gate, Admission) {
    let door = door_by("share: [{ name: all, capacity: 1 in flight, by: method, wait: 20s }]");
    let gate = door.desk.gate.clone();
    let first = gate.decide(&Sample::new("GET /"));
    assert!(first.has_place());
    (door, gate, first)
}

fn session(door: &RespDoor) -> Session {
    let peer = Ipv4Addr::LOCALHOST.into();
    Session::new(door, Visitor { peer, certified: None, certificate: None })
}

fn line(door: &RespDoor, stream: DuplexStream) -> Line<DuplexStream> {
    Line::new(stream, Conversation::new(session(door)), Stopper::new().1, Busy::default())
}

#[tokio::test]
async fn an_idle_connection_is_small() {
    let (door, (near, _far)) = (door(), duplex(64));
    let (_stopper, stop) = Stopper::new();
    let bytes = size_of_val(&serve(near, session(&door), &door.desk, stop, &Busy::default()));
    assert!(bytes <= 2_048, "the future of a connection has {bytes} bytes");
}

#[tokio::test]
async fn buffers_go_when_all_is_answered() {
    let (door, (near, mut far)) = (door(), duplex(64 << 10));
    let (mut line, (_stopper, mut stop)) = (line(&door, near), Stopper::new());
    let mut timer = pin!(sleep(RESP_CHECK_EVERY));
    let mut stopped = pin!(stop.asked());
    far.write_all(&b"PING\r\n".repeat(100)).await.unwrap();
    let mut hear = |line: &mut Line<DuplexStream>| {
        let mut context = Context::from_waker(Waker::noop());
        line.poll_heard(&mut context, timer.as_mut(), stopped.as_mut())
    };
    assert_eq!(hear(&mut line), Poll::Ready(Heard::Bytes));
    assert_eq!(line.answer(&door.desk).await, None);
    assert_ne!(line.out.capacity(), 0);
    assert_eq!(hear(&mut line), Poll::Pending);
    assert_eq!((line.input.capacity(), line.out.capacity()), (0, 0));
}

#[tokio::test]
async fn a_client_that_is_silent_for_long_is_given_up() {
    let (door, (near, _far)) = (door(), duplex(64));
    let mut line = line(&door, near);
    for _ in 1..RESP_IDLE_CHECKS {
        assert_eq!(line.overdue(), None);
    }
    assert_eq!(line.overdue(), Some(Closed::Idle));
}

#[tokio::test]
async fn a_command_that_does_not_end_is_given_up_sooner() {
    let (door, (near, mut far)) = (door(), duplex(64));
    let mut line = line(&door, near);
    line.input.extend_from_slice(b"PING\r\n*1\r\n$4\r\nPI");
    assert_eq!(line.overdue(), None);
    assert_eq!(line.answer(&door.desk).await, None);
    assert_eq!((line.quiet, &*line.input), (0, &b"*1\r\n$4\r\nPI"[..]));
    let mut reply = [0; 7];
    far.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!(line.overdue(), None);
    // A byte more is no command.
    line.input.push(b'N');
    assert_eq!(line.answer(&door.desk).await, None);
    assert_eq!(line.overdue(), Some(Closed::Slow));
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_read_from_slowly() {
    // A pipe for a few replies at a time: more is not asked for before those are taken.
    let (door, (near, far)) = (door(), duplex(256));
    let (_stopper, stop) = Stopper::new();
    let serving =
        async move { serve(near, session(&door), &door.desk, stop, &Busy::default()).await };
    let asking = async move {
        let (mut reader, mut writer) = tokio::io::split(far);
        let input = b"PING\r\n".repeat(5_000);
        let writing = async { writer.write_all(&input).await.unwrap() };
        let reading = async {
            let mut replies = vec![0; 7 * 5_000];
            reader.read_exact(&mut replies).await.unwrap();
            replies
        };
        tokio::join!(writing, reading).1
    };
    let (closed, replies) = tokio::join!(serving, asking);
    assert_eq!(replies, b"+PONG\r\n".repeat(5_000));
    assert_eq!(closed, Closed::ByClient);
}

#[tokio::test]
async fn whoever_goes_away_while_it_waits_for_its_turn_leaves_the_queue() {
    let (door, gate, first) = crowded();
    let ((near, mut far), (_stopper, stop)) = (duplex(1 << 10), Stopper::new());
    let serving =
        async move { serve(near, session(&door), &door.desk, stop, &Busy::default()).await };
    let leaving = async move {
        // What comes after it waits, too, and does not hide that the client goes.
        far.write_all(b"TIDEGATE.CHECK METHOD GET\r\nPING\r\n").await.unwrap();
        while gate.stats().shares[0].waiting == 0 {
            yield_now().await;
        }
        far.write_all(b"PING\r\n").await.unwrap();
        drop(far);
        while gate.stats().shares[0].waiting == 1 {
            yield_now().await;
        }
        let refused = &gate.stats().shares[0].refused;
        assert!(refused.iter().all(|(_, count)| *count == 0), "it waited in vain: {refused:?}");
    };
    let (closed, ()) = tokio::join!(serving, leaving);
    assert_eq!(closed, Closed::ByClient);
    drop(first);
}

#[tokio::test]
async fn what_comes_while_one_waits_for_its_turn_is_answered_after_it() {
    let (door, gate, first) = crowded();
    let ((near, mut far), (_stopper, stop)) = (duplex(1 << 10), Stopper::new());
    let serving =
        async move { serve(near, session(&door), &door.desk, stop, &Busy::default()).await };
    let asking = async move {
        far.write_all(b"TIDEGATE.CHECK METHOD GET\r\n").await.unwrap();
        while gate.stats().shares[0].waiting == 0 {
            yield_now().await;
        }
        far.write_all(b"PING\r\n").await.unwrap();
        yield_now().await;
        drop(first);
        let mut told = Vec::new();
        while !told.ends_with(b"+PONG\r\n") {
            let mut more = [0; 256];
            let read = far.read(&mut more).await.unwrap();
            told.extend_from_slice(&more[..read]);
        }
        String::from_utf8(told).unwrap()
    };
    let (closed, told) = tokio::join!(serving, asking);
    assert!(told.contains("allow"), "{told}");
    assert_eq!(closed, Closed::ByClient);
}

#[tokio::test]
async fn who_asks_now_and_then_does_not_wait_for_all_who_never_pause() {
    const CROWD: usize = 20;
    let gate = Gate::from_text("rules: [{ name: all, limit: 2/min }]").unwrap();
    let mut desk = Desk::new(gate, Guard::default(), None, None, Bounds::default());
    desk.turns = Turns::at_once(2);
    let door = RespDoor::new(Arc::new(desk));
    let (_stopper, stop) = Stopper::new();
    let served = |near: DuplexStream| {
        let (door, stop) = (door.clone(), stop.clone());
        tokio::spawn(async move {
            serve(near, session(&door), &door.desk, stop, &Busy::default()).await
        })
    };
    for _ in 0..CROWD {
        let (near, far) = duplex(256 << 10);
        served(near);
        let (mut reader, mut writer) = tokio::io::split(far);
        let pipeline = b"PING\r\n".repeat(10_000);
        tokio::spawn(async move { while writer.write_all(&pipeline).await.is_ok() {} });
        tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    }
    let (near, mut far) = duplex(64);
    served(near);
    let answered = || door.desk.metrics.answered_by(DoorName::Resp);
    // All come at once, and each is answered as one that was waited for.
    while answered() < 4 * (CROWD * RESP_TURN_COMMANDS_MAX) as u64 {
        yield_now().await;
    }
    // As a task like the others.
    let desk = Arc::clone(&door.desk);
    let asking = tokio::spawn(async move {
        let mut most = 0;
        for _ in 0..50 {
            let before = desk.metrics.answered_by(DoorName::Resp);
            far.write_all(b"PING\r\n").await.unwrap();
            far.read_exact(&mut [0; 7]).await.unwrap();
            most = most.max(desk.metrics.answered_by(DoorName::Resp) - before);
        }
        most
    });
    let most = asking.await.unwrap();
    // A few turns, and not one of each.
    let few = 6 * RESP_TURN_COMMANDS_MAX as u64;
    assert!(most <= few, "{most} commands of others came first");
}

#[tokio::test]
async fn those_who_never_pause_have_as_many_turns_each() {
    let door = door();
    let (_stopper, stop) = Stopper::new();
    let taken: Vec<Arc<AtomicU64>> = (0..8)
        .map(|_| {
            let (near, far) = duplex(64 << 10);
            let (door, stop) = (door.clone(), stop.clone());
            tokio::spawn(async move {
                serve(near, session(&door), &door.desk, stop, &Busy::default()).await
            });
            let (mut reader, mut writer) = tokio::io::split(far);
            let pipeline = b"PING\r\n".repeat(10_000);
            tokio::spawn(async move { while writer.write_all(&pipeline).await.is_ok() {} });
            let taken = Arc::new(AtomicU64::new(0));
            let counts = Arc::clone(&taken);
            tokio::spawn(async move {
                let mut bytes = [0; 4 << 10];
                while let Ok(read @ 1..) = reader.read(&mut bytes).await {
                    counts.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
            taken
        })
        .collect();
    let each = || taken.iter().map(|it| it.load(Ordering::Relaxed)).collect::<Vec<_>>();
    while each().iter().sum::<u64>() < 8 << 20 {
        yield_now().await;
    }
    let (least, most) = (each().into_iter().min(), each().into_iter().max());
    assert!(most < least.map(|it| it * 2), "{:?}", each());
}
