//! A connection whose other end is a test: what it says in which pieces, and when it stops.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock as _, SystemClock};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::io::{DuplexStream, duplex};
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

use super::flow::{OUTPUT_MAX, QUEUE_MAX};
use super::*;

/// A connection, its driver at work, and the other end.
fn connect(room: usize) -> (Pipe, JoinHandle<()>, DuplexStream) {
    let (near, far) = duplex(room);
    let (pipe, drive) = Pipe::open(near);
    (pipe, tokio::spawn(drive), far)
}

/// Sends so many commands, and waits in a task of its own. They are sent when this returns.
async fn send(pipe: &Pipe, commands: usize) -> JoinHandle<Heard> {
    let pipe = pipe.clone();
    let task = tokio::spawn(async move {
        let replies = pipe.send(b"x", commands, Tick::MAX).await?;
        let text = |reply: &super::super::Reply| format!("{:?}", reply.value().unwrap());
        Ok(replies.iter().map(text).collect())
    });
    settle().await;
    task
}

/// Has everybody run who is ready.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

async fn heard(task: JoinHandle<Heard>) -> Heard {
    timeout(Duration::from_secs(10), task).await.expect("nobody told it anything").unwrap()
}

type Heard = Result<Vec<String>, Loss>;

/// What a caller hears who is answered by a number.
const fn is(number: u32) -> impl Fn(&Heard) -> bool {
    move |heard| heard.as_ref().is_ok_and(|it| *it == [format!("int({number})")])
}

#[tokio::test]
async fn replies_that_come_in_pieces_are_heard_as_if_they_came_whole() {
    let all = b":1\r\n*2\r\n:2\r\n$4\r\na\r\nb\r\n>1\r\n+push\r\n$-1\r\n:3\r\n";
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for cut in 0..=all.len() {
        let (pipe, _drive, mut far) = connect(1 << 16);
        let calls = [send(&pipe, 1).await, send(&pipe, 2).await, send(&pipe, 1).await];
        far.write_all(&all[..cut]).await.unwrap();
        settle().await;
        far.write_all(&all[cut..]).await.unwrap();
        let [first, second, third] = calls;
        let heard = [heard(first).await, heard(second).await, heard(third).await];
        let into = if cut == 0 { &mut one } else { &mut two };
        into.push(heard);
    }
    assert!(two.iter().all(|heard| *heard == one[0]), "{two:?}");
    let [first, second, third] = &one[0];
    assert!(is(1)(first) && is(3)(third), "{one:?}");
    assert_eq!(second.as_ref().unwrap()[1], "nil");
}

#[tokio::test]
async fn who_goes_away_takes_nobody_else_s_reply() {
    for come in [&b""[..], b":1\r\n", b":1\r\n:2", b":1\r\n:2\r\n"] {
        let (pipe, _drive, mut far) = connect(1 << 16);
        let [first, second] = [send(&pipe, 1).await, send(&pipe, 2).await];
        let third = send(&pipe, 1).await;
        far.write_all(come).await.unwrap();
        settle().await;
        second.abort();
        settle().await;
        far.write_all(&b":1\r\n:2\r\n:3\r\n:4\r\n"[come.len()..]).await.unwrap();
        assert!(is(1)(&heard(first).await));
        assert!(is(4)(&heard(third).await));
        let fourth = send(&pipe, 1).await;
        far.write_all(b":5\r\n").await.unwrap();
        assert!(is(5)(&heard(fourth).await));
    }
}

/// However many go away, before their answer is there or after: none is kept for them.
#[tokio::test]
async fn answers_that_nobody_waits_for_are_not_kept() {
    let (pipe, _drive, mut far) = connect(1 << 16);
    for round in 0..100 {
        let mut sent = Box::pin(pipe.send(b"x", 1, Tick::MAX));
        let is_there = sent.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_there);
        let left_before = round % 2 == 0;
        if left_before {
            drop(sent);
            far.write_all(b":1\r\n").await.unwrap();
            settle().await;
        } else {
            far.write_all(b":1\r\n").await.unwrap();
            settle().await;
            assert_eq!(pipe.with(|flow| flow.unfetched()), 1);
            drop(sent);
        }
        assert_eq!(pipe.with(|flow| flow.unfetched()), 0, "round {round}");
    }
    assert!(is(1)(&{
        let last = send(&pipe, 1).await;
        far.write_all(b":1\r\n").await.unwrap();
        heard(last).await
    }));
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_a_reply_ends_all_who_wait() {
    for come in [&b""[..], b":1", b":1\r\n", b":1\r\n*2\r\n:2\r\n", b"$9\r\nab"] {
        let (pipe, drive, mut far) = connect(1 << 16);
        let calls = [send(&pipe, 1).await, send(&pipe, 2).await, send(&pipe, 1).await];
        far.write_all(come).await.unwrap();
        settle().await;
        drop(far);
        let mut ended = 0;
        for call in calls {
            match heard(call).await {
                Err(Loss::Ended(why)) => {
                    assert!(why.contains("closed"), "{why}");
                    ended += 1;
                }
                other => assert!(is(1)(&other), "{other:?}"),
            }
        }
        assert_eq!(ended, if come.starts_with(b":1\r\n") { 2 } else { 3 });
        drive.await.unwrap();
        // Later callers get the same answer at once.
        assert!(matches!(heard(send(&pipe, 1).await).await, Err(Loss::Ended(_))));
    }
}

#[tokio::test]
async fn what_is_no_reply_ends_the_connection_and_says_why() {
    let deep = "*1\r\n".repeat(17);
    for (said, why) in [
        ("HTTP/1.1 400 Bad Request\r\n", "begins with byte 72"),
        ("$99999999\r\n", "longer than any"),
        (&*deep, "deeper than any"),
        ("$1\r\nabc\r\n", "a length that is none"),
        (":1\r\n:2\r\n", "nobody asked for"),
    ] {
        let (pipe, drive, mut far) = connect(1 << 16);
        let first = send(&pipe, 1).await;
        far.write_all(said.as_bytes()).await.unwrap();
        drive.await.unwrap();
        let first = heard(first).await;
        assert!(is(1)(&first) || matches!(first, Err(Loss::Nonsense(_))), "{first:?}");
        let Err(Loss::Nonsense(text)) = heard(send(&pipe, 1).await).await else { panic!() };
        assert!(text.contains(why), "{text}");
        // The other end sees it too.
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
    }
}

#[tokio::test]
async fn who_is_late_is_told_and_the_connection_goes_on() {
    let (pipe, _drive, mut far) = connect(1 << 16);
    let clock = SystemClock::new();
    let soon = clock.now().after(Span::from_millis(20));
    let later = clock.now().after(Span::from_millis(40));
    let patient = send(&pipe, 1).await;
    let late = tokio::join!(pipe.send(b"x", 1, later), pipe.send(b"x", 1, soon));
    assert_eq!((late.0.unwrap_err(), late.1.unwrap_err()), (Loss::Late, Loss::Late));
    assert!(later <= clock.now());
    assert!(!patient.is_finished());
    let next = send(&pipe, 1).await;
    far.write_all(b":1\r\n:2\r\n:3\r\n:4\r\n").await.unwrap();
    assert!(is(1)(&heard(patient).await));
    assert!(is(4)(&heard(next).await));
    // In time, and the timer stands for those before.
    let soon = clock.now().after(Span::from_millis(20));
    let (answer, written) = tokio::join!(pipe.send(b"x", 1, soon), far.write_all(b":5\r\n"));
    written.unwrap();
    assert_eq!(answer.unwrap().len(), 1);
}

#[tokio::test]
async fn what_the_stream_does_not_take_at_once_is_written_later_and_in_order() {
    let (pipe, _drive, mut far) = connect(16);
    let mut calls = JoinSet::new();
    let mut expected = Vec::new();
    for mark in b'a'..=b'z' {
        let (pipe, bytes) = (pipe.clone(), vec![mark; usize::from(mark)]);
        expected.extend_from_slice(&bytes);
        calls.spawn(async move { pipe.send(&bytes, 1, Tick::MAX).await.unwrap().len() });
        settle().await;
    }
    let mut come = vec![0; expected.len()];
    far.read_exact(&mut come).await.unwrap();
    assert_eq!(come, expected);
    for _ in b'a'..=b'z' {
        far.write_all(b":1\r\n").await.unwrap();
    }
    assert_eq!(calls.join_all().await, [1; 26]);
}

#[tokio::test]
async fn more_calls_than_there_are_seats_are_refused_at_once_and_not_sent() {
    let (pipe, _drive, far) = connect(1 << 12);
    let mut calls = JoinSet::new();
    for _ in 0..QUEUE_MAX {
        let pipe = pipe.clone();
        calls.spawn(async move { pipe.send(b"x", 1, Tick::MAX).await.is_ok() });
    }
    settle().await;
    for _ in 0..2 {
        assert_eq!(heard(send(&pipe, 1).await).await, Err(Loss::Full));
    }
    let (mut from, mut to) = tokio::io::split(far);
    let mut bytes = vec![0; QUEUE_MAX];
    from.read_exact(&mut bytes).await.unwrap();
    to.write_all(&b":1\r\n".repeat(QUEUE_MAX)).await.unwrap();
    assert!(calls.join_all().await.into_iter().all(|is_answered| is_answered));
    // Nothing of those was sent, and there is room again.
    let next = send(&pipe, 1).await;
    from.read_exact(&mut bytes[..1]).await.unwrap();
    to.write_all(b":2\r\n").await.unwrap();
    assert!(is(2)(&heard(next).await));
    assert!(timeout(Duration::from_millis(20), from.read_exact(&mut bytes[..1])).await.is_err());
}

#[tokio::test]
async fn a_server_that_does_not_read_is_not_written_to_without_end() {
    let (pipe, _drive, _far) = connect(1 << 10);
    let bytes = vec![b'x'; 100 << 10];
    let mut refused = 0;
    for _ in 0..100 {
        let mut sent = Box::pin(pipe.send(&bytes, 1, Tick::MAX));
        let polled = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        refused += u32::from(matches!(polled, Poll::Ready(Err(Loss::Full))));
    }
    assert_eq!(refused, 100 - 11, "a megabyte, and the one that went beyond it");
    assert!(pipe.with(|flow| flow.kept()) < 2 * OUTPUT_MAX);
}

#[tokio::test]
async fn what_is_written_is_not_kept_for_those_behind_it() {
    let (pipe, _drive, far) = connect(1 << 10);
    let (mut from, mut to) = tokio::io::split(far);
    let mut bytes = vec![0; 64 << 10];
    // There is always something left over that the server has not taken.
    let mut calls = JoinSet::new();
    for round in 0..200 {
        let pipe = pipe.clone();
        calls.spawn(async move { pipe.send(&vec![b'x'; 64 << 10], 1, Tick::MAX).await.is_ok() });
        settle().await;
        if 0 < round {
            from.read_exact(&mut bytes).await.unwrap();
            to.write_all(b":1\r\n").await.unwrap();
        }
    }
    let kept = pipe.with(|flow| flow.kept());
    assert!(kept < 512 << 10, "{kept} bytes are kept");
    from.read_exact(&mut bytes).await.unwrap();
    to.write_all(b":1\r\n").await.unwrap();
    assert!(calls.join_all().await.into_iter().all(|is_answered| is_answered));
    assert!(pipe.with(|flow| flow.kept()) <= 64 << 10);
}

#[tokio::test]
async fn whoever_is_late_stays_late_though_its_reply_comes_before_it_looks() {
    let (pipe, _drive, mut far) = connect(1 << 10);
    let soon = SystemClock::new().now().after(Span::from_millis(5));
    let mut late = Box::pin(pipe.send(b"x", 1, soon));
    let mut context = Context::from_waker(Waker::noop());
    assert!(late.as_mut().poll(&mut context).is_pending());
    // The driver has told it.
    while pipe.with(|flow| flow.alarm()) != Tick::MAX {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Its time is over and the reply is there, but nobody has looked yet.
    far.write_all(b":1\r\n").await.unwrap();
    settle().await;
    assert!(matches!(late.as_mut().poll(&mut context), Poll::Ready(Err(Loss::Late))));
    let next = send(&pipe, 1).await;
    far.write_all(b":2\r\n").await.unwrap();
    assert!(is(2)(&heard(next).await));
}

#[tokio::test]
async fn whoever_does_not_fetch_its_reply_holds_up_nobody() {
    let (pipe, _drive, mut far) = connect(1 << 10);
    let mut idle = Box::pin(pipe.send(b"x", 1, Tick::MAX));
    let mut context = Context::from_waker(Waker::noop());
    assert!(idle.as_mut().poll(&mut context).is_pending());
    far.write_all(b":1\r\n").await.unwrap();
    for _ in 0..2 * QUEUE_MAX {
        let next = send(&pipe, 1).await;
        far.write_all(b":2\r\n").await.unwrap();
        assert!(is(2)(&heard(next).await));
        let mut bytes = [0; 64];
        let _ = far.read(&mut bytes).await.unwrap();
    }
    assert!(matches!(idle.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
}

#[tokio::test]
async fn a_long_reply_comes_whole() {
    let (pipe, _drive, mut far) = connect(1 << 12);
    let text = "a".repeat(1 << 20);
    for _ in 0..2 {
        let (long, short) = (send(&pipe, 1).await, send(&pipe, 1).await);
        far.write_all(format!("${}\r\n{text}\r\n:7\r\n", text.len()).as_bytes()).await.unwrap();
        assert!(heard(long).await.unwrap()[0].contains(&text));
        assert!(is(7)(&heard(short).await));
    }
}

#[tokio::test]
async fn without_a_driver_nobody_waits_for_ever() {
    let (pipe, drive, _far) = connect(1 << 12);
    let call = send(&pipe, 1).await;
    drive.abort();
    assert!(matches!(heard(call).await, Err(Loss::Ended(_))));
}

/// Lines in, their numbers out.
async fn answer_lines(far: DuplexStream) {
    let (from, mut to) = tokio::io::split(far);
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        to.write_all(format!("${}\r\n{line}\r\n", line.len()).as_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_several_threads_get_their_own_replies() {
    let (pipe, _drive, far) = connect(200);
    tokio::spawn(answer_lines(far));
    let pipe = Arc::new(pipe);
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let pipe = Arc::clone(&pipe);
        callers.spawn(async move {
            for call in 0..500 {
                let text = format!("{caller}/{call}");
                let bytes = format!("{text}\n");
                let sent = pipe.send(bytes.as_bytes(), 1, Tick::MAX);
                if (caller + call) % 7 == 0 {
                    // Goes away at once, or a little later.
                    let _ = timeout(Duration::from_micros(50), sent).await;
                    continue;
                }
                let reply = sent.await.unwrap().pop().unwrap();
                assert_eq!(reply.items().next(), Some(super::super::Item::Bytes(text.as_bytes())));
            }
        });
    }
    callers.join_all().await;
}
