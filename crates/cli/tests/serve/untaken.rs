//! Replies that nobody takes: they have a bound, and what has no room is not decided.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_testbed::{Frame, Http, until};

use crate::stand::{Door, METHOD, Talk, Tidegate, connected};

/// For the server to end connections whose peers take nothing.
const LATE: Duration = Duration::from_mins(1);

const LIMIT: u64 = 1_000_000_000;
const ACK: u8 = 1;
const CHECKS: usize = 256;
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A server whose answers are as long as they get: 16 rules speak in each.
fn server() -> Tidegate {
    let rule = |at| {
        format!("{{ name: a-rule-with-a-name-{at}, limit: {LIMIT}/day, algorithm: fixed-window }}")
    };
    let rules: Vec<String> = (0..16).map(rule).collect();
    let policy = format!("rules: [{}]", rules.join(", "));
    Tidegate::start(&policy, &["--log-level", "warn"]).unwrap()
}

/// The longest batch in the fewest bytes.
fn batch() -> String {
    format!("{{\"checks\":[{}]}}", vec!["{}"; CHECKS].join(","))
}

/// A connection of HTTP/2 with a window of zero: no byte of a body may be sent to it.
struct Shut {
    stream: TcpStream,
    /// How much the server has room for: as much as HTTP/2 begins with.
    window: usize,
    id: u32,
}

impl Shut {
    fn open(port: u16) -> Shut {
        let mut stream = connected(port).unwrap();
        let window = Frame::bytes(Frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let taken = Frame::bytes(Frame::SETTINGS, ACK, 0, &[]);
        stream.write_all(&[Frame::PREFACE, &window, &taken].concat()).unwrap();
        Shut { stream, window: 65_535, id: 1 }
    }

    /// Posts a body, as far as the server has room for it. Nothing once it has ended.
    fn post(&mut self, head: &[u8], body: &[u8]) -> Option<()> {
        let (id, end) = (self.id, Frame::END_STREAM);
        self.id += 2;
        self.stream.write_all(&Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, id, head)).ok()?;
        let mut pieces = body.chunks(16 << 10).peekable();
        while let Some(piece) = pieces.next() {
            while self.window < piece.len() {
                self.window += self.widened()?;
            }
            self.window -= piece.len();
            let flags = if pieces.peek().is_some() { 0 } else { end };
            self.stream.write_all(&Frame::bytes(Frame::DATA, flags, id, piece)).ok()?;
        }
        Some(())
    }

    /// Reads a frame; by how much it widens the window of the connection.
    fn widened(&mut self) -> Option<usize> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        self.stream.read_exact(&mut body).ok()?;
        let widens = head[3] == Frame::WINDOW_UPDATE && head[5..] == [0; 4];
        let more = body.first_chunk().map_or(0, |more| u32::from_be_bytes(*more));
        Some(if widens { usize::try_from(more).ok()? } else { 0 })
    }
}

/// Reads until the server ends the connection; whether it does.
fn ends(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(LATE)).unwrap();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

/// Attacks in several connections, each of which the server ends. Meanwhile others are answered,
/// and memory grows by no more than `mib_max`. How many checks of the attackers were charged.
#[track_caller]
fn attack(server: &Tidegate, count: usize, mib_max: u64, one: fn(Ports) -> bool) -> u64 {
    let mut others = Door::ALL.map(|door| Talk::open(server, door).unwrap());
    let start = server.memory();
    let ports = Ports { http: server.http, grpc: server.grpc };
    let attacks: Vec<JoinHandle<bool>> =
        (0..count).map(|_| thread::spawn(move || one(ports))).collect();
    let (mut most, mut answered) = (0, 0);
    until(LATE * 2, "the server ends them", || {
        most = most.max(server.memory().saturating_sub(start) >> 20);
        assert!(most <= mib_max, "it grew by {most} MiB");
        for (door, other) in Door::ALL.into_iter().zip(&mut others) {
            assert!(other.ask().unwrap(), "others are answered: {door:?}");
            answered += 1;
        }
        attacks.iter().all(JoinHandle::is_finished)
    })
    .unwrap();
    for attack in attacks {
        assert!(attack.join().unwrap(), "a connection goes on whose peer takes nothing");
    }
    let log = server.daemon.log();
    assert!(!log.contains("panicked"), "{log}");
    charged(server) - answered
}

#[derive(Clone, Copy)]
struct Ports {
    http: u16,
    grpc: u16,
}

/// How many checks were charged.
fn charged(server: &Tidegate) -> u64 {
    let told = Http::post(server.http, "/v1/peek", "{}").unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
    LIMIT - told["remaining"].as_u64().unwrap()
}

#[test]
fn a_window_of_zero_holds_little_memory() {
    let server = server();
    let charged = attack(&server, 4, 48, |ports| {
        let (mut shut, head) = (Shut::open(ports.http), Frame::post("/v1/check", &JSON));
        let body = batch();
        let _ = (0..200).try_for_each(|_| shut.post(&head, body.as_bytes()));
        ends(shut.stream)
    });
    // Of 204,800: what had no room was not charged.
    assert!(charged < 20_000, "{charged} checks were charged");
}

/// Short answers, but many connections: what each may have, and what those of an address share. Who
/// asks one thing at a time has room for its answer meanwhile, at whatever address.
#[test]
fn many_streams_that_take_nothing_have_a_bound_together() {
    let server = server();
    let charged = attack(&server, 100, 192, |ports| {
        let (mut shut, head) = (Shut::open(ports.http), Frame::post("/v1/check", &JSON));
        let _ = (0..200).try_for_each(|_| shut.post(&head, b"{}"));
        ends(shut.stream)
    });
    assert!(charged < 8_000, "{charged} of 20,000 checks were charged");
}

#[test]
fn a_window_of_zero_holds_little_memory_at_the_grpc_door() {
    let server = server();
    // A hundred kilobytes of descriptors without entries, and twice that is said of them.
    attack(&server, 4, 160, |ports| {
        let message = [&b"\x0a\x01d"[..], &b"\x12\x00".repeat(49_990)].concat();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0][..], &length, &message].concat();
        let head = Frame::post(METHOD, &[("content-type", "application/grpc"), ("te", "trailers")]);
        let mut shut = Shut::open(ports.grpc);
        let _ = (0..400).try_for_each(|_| shut.post(&head, &body));
        ends(shut.stream)
    });
}

#[test]
fn pipelines_that_nobody_reads_hold_little_memory() {
    let server = server();
    // As one reads a connection: eighteen batches at once.
    for path in ["/v1/check", "/v1/peek"] {
        let head = "HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length:";
        let body = batch();
        let one = format!("POST {path} {head} {}\r\n\r\n{body}", body.len());
        let streams: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut stream = connected(server.http).unwrap();
                stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
                let _ = stream.write_all(one.repeat(200).as_bytes());
                stream
            })
            .collect();
        let mut others = Door::ALL.map(|door| Talk::open(&server, door).unwrap());
        for _ in 0..200 {
            let memory = server.memory() >> 20;
            assert!(memory < 128, "{path}: it has {memory} MiB");
            for other in &mut others {
                assert!(other.ask().unwrap(), "others are answered");
            }
        }
        drop(streams);
    }
}
