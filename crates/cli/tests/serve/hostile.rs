//! Whatever is thrown at the doors, others are served meanwhile, and memory stays below a bound.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tidegate_testbed::{Http, Resp, until};

use crate::stand::{CHECK, Door, SOON, Talk, Tidegate, connected, policy};

/// The most memory that the process has, whatever happens.
const MEMORY_MAX: u64 = 256 << 20;

const JSON: &str = "content-type: application/json\r\n";

/// A server that is attacked.
pub(crate) struct Attacked(pub(crate) Tidegate);

impl Attacked {
    pub(crate) fn start() -> Attacked {
        Attacked(Tidegate::start(&policy(1_000_000_000), &["--log-level", "error"]).unwrap())
    }

    /// Attacks from several threads; meanwhile and afterwards every door answers, in connections
    /// that are there and in new ones, and there is not too much memory.
    pub(crate) fn by(&self, threads: usize, attack: impl Fn(usize) + Sync) {
        let mut talks = Door::ALL.map(|door| Talk::open(&self.0, door).unwrap());
        thread::scope(|scope| {
            let attack = &attack;
            let attacks: Vec<_> =
                (0..threads).map(|number| scope.spawn(move || attack(number))).collect();
            loop {
                let are_over = attacks.iter().all(thread::ScopedJoinHandle::is_finished);
                for (talk, door) in talks.iter_mut().zip(Door::ALL) {
                    assert!(talk.ask().unwrap(), "who is there is served");
                    assert!(Talk::open(&self.0, door).unwrap().ask().unwrap(), "who comes, too");
                }
                let memory = self.0.memory() >> 20;
                assert!(self.0.memory() < MEMORY_MAX, "it has {memory} MiB");
                if are_over {
                    break;
                }
            }
        });
        assert!(self.0.daemon.is_up());
        let log = self.0.daemon.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Sends bytes, and reads until the other side hangs up, or for a moment.
pub(crate) fn throw(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connected(port).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // Some have heard enough before the end.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn giant_frames_are_refused_at_their_first_bytes() {
    let server = Attacked::start();
    let resp = server.0.resp;
    server.by(1, |_| {
        for frame in [
            "*1000000000\r\n",
            "*2\r\n$99999999999\r\n",
            "*99999999999999999999999999\r\n",
            "*-99999999999999999999\r\n",
            "%1000000\r\n",
            "*1\r\n:5\r\n",
        ] {
            let said = String::from_utf8(throw(resp, frame.as_bytes())).unwrap();
            assert!(said.starts_with("-ERR Protocol error"), "{frame:?}: {said:?}");
        }
        // Lists in lists, in either version of the protocol.
        for nested in ["*1\r\n", "%1\r\n+a\r\n", "~1\r\n", ">1\r\n", "|1\r\n"] {
            let said = throw(resp, nested.repeat(100_000).as_bytes());
            assert!(said.starts_with(b"-ERR Protocol error"), "{nested:?}");
        }
        let endless = throw(resp, "a".repeat(1 << 20).as_bytes());
        assert!(endless.starts_with(b"-ERR Protocol error"));
    });
}

#[test]
fn giant_requests_are_refused() {
    let server = Attacked::start();
    let http = server.0.http;
    let status = |head: &str, body: &[u8]| {
        let request =
            format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{JSON}connection: close\r\n{head}\r\n");
        let said = throw(http, &[request.as_bytes(), body].concat());
        String::from_utf8_lossy(said.get(9..12).unwrap_or_default()).into_owned()
    };
    server.by(1, |_| {
        for nested in ["[".repeat(100_000), "{\"checks\":[".repeat(50_000)] {
            let length = format!("content-length: {}\r\n", nested.len());
            assert_eq!(status(&length, nested.as_bytes()), "400");
        }
        assert_eq!(status("content-length: 99999999999999\r\n", b"{"), "413");
        assert_eq!(status("content-length: 99999999999999999999999\r\n", b"{"), "400");
        assert_eq!(status("content-length: 1\r\ncontent-length: 2\r\n", b"{}"), "400");
        let chunked = "transfer-encoding: chunked\r\n";
        assert_eq!(status(chunked, b"ffffffffffffffffffff\r\n"), "400");
        assert_eq!(status(&format!("x: {}\r\n", "a".repeat(1 << 20)), b""), "431");
        assert_eq!(status(&"x: y\r\n".repeat(5_000), b""), "431");
    });
}

#[test]
fn half_open_connections_hold_nobody_up() {
    let server = Attacked::start();
    let halves: Vec<TcpStream> = (0..600)
        .map(|number| {
            let door = Door::ALL[number % 3];
            let mut stream = connected(server.0.port(door)).unwrap();
            let begun: &[u8] = match (door, number % 2) {
                (_, 0) => b"",
                (Door::Http, _) => b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-le",
                (Door::Grpc, _) => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0",
                (Door::Resp, _) => b"*2\r\n$4\r\nECHO\r\n$1000\r\nhalf of it",
            };
            stream.write_all(begun).unwrap();
            stream
        })
        .collect();
    server.by(1, |_| {
        let mut talk = Talk::open(&server.0, Door::Http).unwrap();
        (0..200).for_each(|_| assert!(talk.ask().unwrap()));
    });
    drop(halves);
}

#[test]
fn garbage_harms_nobody() {
    let server = Attacked::start();
    server.by(2, |number| {
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64 + number as u64;
        for turn in 0..120 {
            let garbage: Vec<u8> = (0..4_000)
                .map(|_| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    seed.to_le_bytes()[3]
                })
                .collect();
            let mut stream = connected(server.0.port(Door::ALL[turn % 3])).unwrap();
            let _ = stream.write_all(&garbage);
        }
    });
}

#[test]
fn a_storm_of_opens_and_closes_passes() {
    let server = Attacked::start();
    server.by(3, |number| {
        let port = server.0.port(Door::ALL[number]);
        for _ in 0..7_000 {
            // The system may be out of ports for a moment: they are free again after a reset.
            let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    });
    let page = |name: &str| {
        let text = Http::get(server.0.http, "/metrics").unwrap().text();
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        lines.find(|line| line.contains("resp")).map(str::to_owned)
    };
    until(SOON, "all have gone", || {
        page("tidegate_connections").is_none_or(|line| line.ends_with(" 0"))
    })
    .unwrap();
}

#[test]
fn a_client_that_does_not_read_is_not_kept_for() {
    let server = Attacked::start();
    let command = Resp::command(&["COMMAND"]).repeat(2_000);
    server.by(2, |_| {
        let mut stream = connected(server.0.resp).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        // Until nobody takes any more of it.
        for _ in 0..200 {
            if stream.write_all(&command).is_err() {
                break;
            }
        }
    });
}

/// What it sent and was not answered, its replies, what a connection takes anyway, and pages that
/// the allocator keeps for some seconds. Without bounds it was a hundred KiB.
const HELD_MAX: u64 = 48 << 10;

#[test]
fn pipelines_that_nobody_reads_hold_little() {
    const PIPELINES: usize = 500;
    let server = Attacked::start();
    let start = server.0.memory();
    let pipeline = Resp::command(&CHECK).repeat(1_000);
    let mut streams: Vec<TcpStream> =
        (0..PIPELINES).map(|_| connected(server.0.resp).unwrap()).collect();
    for stream in &mut streams {
        stream.set_nonblocking(true).unwrap();
    }
    let answered = || {
        let page = Http::get(server.0.http, "/metrics").unwrap().text();
        let name = "tidegate_door_requests_total{door=\"resp\"} ";
        page.lines().find_map(|it| it.strip_prefix(name)?.parse::<usize>().ok()).unwrap()
    };
    let (mut before, mut held) = (0, 0);
    // Those who take nothing are let go after ten seconds: most is held before.
    until(Duration::from_mins(2), "nobody is answered any more", || {
        for stream in &mut streams {
            while stream.write(&pipeline).is_ok_and(|sent| sent == pipeline.len()) {}
        }
        held = held.max(server.0.memory().saturating_sub(start));
        let now = answered();
        PIPELINES * 100 < now && std::mem::replace(&mut before, now) == now
    })
    .unwrap();
    let each = held / PIPELINES as u64;
    assert!(each <= HELD_MAX, "{each} bytes are held for each");
    // And when they end, what they held goes back to the system, though nobody asks for anything.
    drop(streams);
    let is_given_back = || server.0.memory().saturating_sub(start) <= held / 4;
    until(Duration::from_mins(2), "memory goes back", is_given_back).unwrap();
}
