//! Graceful stops under load.
//!
//! A request is lost if it was charged and its answer did not come. What a client sends while the
//! connection is being closed may get no answer, but then nothing was charged: so the answers that
//! came are counted against what the server has saved as consumed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_testbed::{Daemon, Frame, Http, Ready, Resp, until};

use crate::stand::{
    CHECK, Door, MESSAGE, SOON, Talk, Tidegate, call_head, command, connected, local, policy,
};

const LIMIT: u32 = 1_000_000_000;
const FLAGS: [&str; 6] = ["--clock", "manual", "--snapshot", "states", "--drain", "60s"];
/// Longer than a drain: a busy machine takes its time.
const DRAINED: Duration = Duration::from_secs(70);

/// Asks until the connection ends; returns how many passes the client has heard of.
fn asks_until_the_end(mut talk: Talk, asked: &AtomicU64) -> u64 {
    let mut passed = 0;
    while let Ok(passes) = talk.ask() {
        assert!(passes, "the limit is far away");
        passed += 1;
        asked.fetch_add(1, Ordering::Relaxed);
    }
    passed
}

/// Sends without waiting for answers; returns how many passes the client has heard of.
fn pours_until_the_end(port: u16, asked: &AtomicU64) -> u64 {
    let stream = connected(port).unwrap();
    let mut writer = Resp::over(stream.try_clone().unwrap());
    let mut reader = Resp::over(stream);
    let command = Resp::command(&CHECK).repeat(16);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if writer.send(&command).is_err() {
                    return;
                }
            }
        });
        let mut passed = 0;
        while reader.reply().is_ok() {
            passed += 1;
            asked.fetch_add(1, Ordering::Relaxed);
        }
        is_over.store(true, Ordering::Relaxed);
        passed
    })
}

/// A request to read a policy again, where there is none, ends nothing.
#[test]
fn a_server_without_a_policy_outlives_a_hangup() {
    let mut builder = Daemon::builder().unwrap();
    let http = builder.port().unwrap();
    let mut command = command();
    command.args(["--http", &local(http), "--grpc", "off", "--resp", "off"]);
    let ready = Ready::Answers(http, "/readyz".to_owned());
    let daemon = builder.start(command, ready).unwrap();
    let pid = daemon.pid().expect("it runs").to_string();
    for _ in 0..3 {
        let sent = std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap();
        assert!(sent.success());
        assert_eq!(Http::post(http, "/v1/check", "{}").unwrap().status, 200);
    }
}

/// Stops a server under load; the answers at each door, and what was charged there.
fn stopped_under_load(rewrite: bool) -> [(u64, u64); 3] {
    let mut server = Tidegate::start(&policy(LIMIT), &FLAGS).unwrap();
    let path = server.daemon.folder().join("policy.yaml");
    let asked = Door::ALL.map(|_| AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let answers = thread::scope(|scope| {
        let mut clients = Vec::new();
        for door in Door::ALL {
            for _ in 0..3 {
                let talk = Talk::open(&server, door).unwrap();
                let counted = &asked[door as usize];
                clients.push((door, scope.spawn(move || asks_until_the_end(talk, counted))));
            }
        }
        let (resp, counted) = (server.resp, &asked[Door::Resp as usize]);
        let pours = scope.spawn(move || pours_until_the_end(resp, counted));
        clients.push((Door::Resp, pours));
        if rewrite {
            scope.spawn(|| {
                for turn in 0_u32.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = format!("{} # {turn}\n", policy(LIMIT));
                    // In one go, as those who deploy policies do.
                    fs::write(path.with_extension("new"), text).unwrap();
                    fs::rename(path.with_extension("new"), &path).unwrap();
                    let _ = until(Duration::from_millis(150), "the next turn", || false);
                }
            });
        }
        let enough = if rewrite { 1_500 } else { 500 };
        let has_load = |asked: &AtomicU64| enough < asked.load(Ordering::Relaxed);
        until(SOON, "there is load", || asked.iter().all(has_load)).unwrap();
        server.daemon.ask_to_stop().unwrap();
        let mut answers = [0; 3];
        for (door, client) in clients {
            answers[door as usize] += client.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        answers
    });
    let ended = server.daemon.wait_for_end(DRAINED).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", server.daemon.log());
    server.daemon.restart().unwrap();
    Door::ALL.map(|door| (answers[door as usize], u64::from(LIMIT) - server.remaining(door)))
}

#[test]
fn a_stop_under_load_loses_no_answer() {
    for (answered, charged) in stopped_under_load(false) {
        assert!(100 < answered);
        assert_eq!(answered, charged, "what was charged was answered");
    }
}

#[test]
fn neither_do_reloads_and_a_stop_amid_them() {
    for (answered, charged) in stopped_under_load(true) {
        assert!(100 < answered);
        assert_eq!(answered, charged, "what was charged was answered");
    }
}

#[test]
fn a_server_is_ready_soon_and_stops_soon() {
    let mut server = Tidegate::start(&policy(10), &[]).unwrap();
    server.daemon.kill();
    thread::scope(|scope| {
        let port = server.http;
        // A second on a machine that has nothing else to do.
        scope.spawn(move || {
            until(Duration::from_secs(5), "it is ready", || {
                tidegate_testbed::Http::get(port, "/readyz").is_ok_and(|told| told.status == 200)
            })
            .unwrap();
        });
        server.daemon.restart().unwrap();
    });
    // Silent connections hold nothing up.
    let _silent: Vec<_> = Door::ALL.map(|door| connected(server.port(door)).unwrap()).into();
    let _talked: Vec<Talk> = Door::ALL
        .map(|door| {
            let mut talk = Talk::open(&server, door).unwrap();
            assert!(talk.ask().unwrap());
            talk
        })
        .into();
    let ended = server.daemon.stop(Duration::from_secs(8)).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", server.daemon.log());
}

/// A client that asks in a pipeline, and goes on sending without having read an answer.
struct Late {
    door: Door,
    stream: TcpStream,
    asked: u32,
}

impl Late {
    const ASKED: u32 = 200;

    /// Its system takes few bytes at a time, so that most answers stay with the server.
    fn open(server: &Tidegate, door: Door) -> Late {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 4_096).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port(door)));
        connect(&socket, &address).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DRAINED)).unwrap();
        let mut late = Late { door, stream, asked: 0 };
        if door == Door::Grpc {
            let hello = [Frame::PREFACE, &Frame::bytes(Frame::SETTINGS, 0, 0, &[])].concat();
            late.stream.write_all(&hello).unwrap();
        }
        (0..Late::ASKED).for_each(|_| late.ask().unwrap());
        late
    }

    fn ask(&mut self) -> std::io::Result<()> {
        let stream = 2 * self.asked + 1;
        self.asked += 1;
        let bytes = match self.door {
            Door::Http => b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 30\r\n\
                content-type: application/json\r\n\r\n{\"attributes\":{\"door\":\"http\"}}"
                .to_vec(),
            Door::Resp => Resp::command(&CHECK),
            Door::Grpc => {
                let message = [&[0, 0, 0, 0, u8::try_from(MESSAGE.len()).unwrap()], MESSAGE];
                let data = Frame::bytes(Frame::DATA, Frame::END_STREAM, stream, &message.concat());
                [call_head(stream, Frame::END_HEADERS), data].concat()
            }
        };
        self.stream.write_all(&bytes)
    }

    /// How many answers there are, up to the end.
    fn read(&mut self) -> u64 {
        let mut told = Vec::new();
        let end = self.stream.read_to_end(&mut told);
        let answers = match self.door {
            Door::Http => {
                let head = b"HTTP/1.1 200";
                told.windows(head.len()).filter(|it| it == head).count() as u64
            }
            Door::Resp => {
                let mut replies = Resp::over(std::io::Cursor::new(told));
                std::iter::from_fn(|| replies.reply().ok()).count() as u64
            }
            Door::Grpc => calls_answered(&told),
        };
        assert!(end.is_ok(), "{:?}: {end:?} after {answers} answers", self.door);
        answers
    }
}

/// How many streams of HTTP/2 have ended with all of their frames.
fn calls_answered(mut frames: &[u8]) -> u64 {
    let mut answered = 0;
    while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = frames {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let is_last =
            [Frame::DATA, Frame::HEADERS].contains(kind) && flags & Frame::END_STREAM != 0;
        answered += u64::from(is_last && length <= rest.len());
        frames = rest.get(length..).unwrap_or_default();
    }
    answered
}

/// A client that reads late has more on its way when the connection ends, and a system that closes
/// such a connection throws away what was not read yet.
#[test]
fn a_client_that_reads_late_finds_every_answer() {
    let mut server = Tidegate::start(&policy(LIMIT), &FLAGS).unwrap();
    let mut clients = Door::ALL.map(|door| Late::open(&server, door));
    let charged = |server: &Tidegate, door| u64::from(LIMIT) - server.remaining(door);
    let are_asked = || Door::ALL.iter().all(|it| charged(&server, *it) == u64::from(Late::ASKED));
    until(SOON, "all are charged", are_asked).unwrap();
    server.daemon.ask_to_stop().unwrap();
    for _ in 0..30 {
        let _ = until(Duration::from_millis(100), "a moment has passed", || false);
        // Whether it is still taken is seen by what can be read.
        for late in &mut clients {
            let _ = late.ask();
        }
    }
    let answered = clients.each_mut().map(Late::read);
    drop(clients);
    let ended = server.daemon.wait_for_end(DRAINED).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", server.daemon.log());
    server.daemon.restart().unwrap();
    assert_eq!(answered, Door::ALL.map(|door| charged(&server, door)));
}
