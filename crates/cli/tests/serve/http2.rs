//! Floods of HTTP/2, frame by frame, at the doors that speak it.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use tidegate_testbed::Frame;

use crate::hostile::Attacked;
use crate::stand::{Door, call_head, connected};

const DOORS: [Door; 2] = [Door::Http, Door::Grpc];
const WHOLE: u8 = Frame::END_HEADERS | Frame::END_STREAM;

/// A connection of HTTP/2 whose answers nobody reads.
struct Flood(TcpStream);

impl Flood {
    fn open(port: u16) -> Flood {
        let stream = connected(port).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut flood = Flood(stream);
        assert!(flood.send(Frame::PREFACE));
        assert!(flood.send(&Frame::bytes(Frame::SETTINGS, 0, 0, &[])));
        flood
    }

    /// Whether it is still taken.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Sends what is made, again and again; whether all of it was taken.
    fn pour(&mut self, times: u32, mut make: impl FnMut(u32) -> Vec<u8>) -> bool {
        for chunk in 0..times / 50 {
            let bytes: Vec<u8> = (0..50).flat_map(|at| make(chunk * 50 + at)).collect();
            if !self.send(&bytes) {
                return false;
            }
        }
        true
    }
}

/// At both doors, each from a connection of its own.
fn flood(attack: impl Fn(&mut Flood, Door) + Sync) {
    let server = Attacked::start();
    server.by(2, |number| {
        let door = DOORS[number];
        attack(&mut Flood::open(server.0.port(door)), door);
    });
}

#[test]
fn streams_that_are_reset_at_once_end_the_connection() {
    flood(|flood, _| {
        let taken = flood.pour(40_000, |number| {
            let stream = 2 * number + 1;
            let reset = Frame::bytes(Frame::RST_STREAM, 0, stream, &[0, 0, 0, 8]);
            [call_head(stream, WHOLE), reset].concat()
        });
        assert!(!taken, "nobody puts up with that");
    });
}

#[test]
fn there_are_only_so_many_streams() {
    flood(|flood, _| {
        flood.pour(5_000, |number| call_head(2 * number + 1, Frame::END_HEADERS));
    });
}

#[test]
fn heads_without_an_end_are_not_collected() {
    flood(|flood, _| {
        assert!(flood.send(&call_head(1, 0)));
        let piece = Frame::bytes(Frame::CONTINUATION, 0, 1, &[0; 16_000]);
        assert!(!flood.pour(20_000, |_| piece.clone()), "nobody puts up with that");
    });
    // Nor if there is nothing in them.
    flood(|flood, _| {
        assert!(flood.send(&call_head(1, 0)));
        let empty = Frame::bytes(Frame::CONTINUATION, 0, 1, &[]);
        flood.pour(200_000, |_| empty.clone());
    });
}

#[test]
fn long_heads_are_refused() {
    let value = "a".repeat(1_000);
    flood(|flood, _| {
        flood.pour(2_000, |number| {
            let fields: Vec<(&str, &str)> = vec![("x-long", value.as_str()); 15];
            let head = Frame::post("/v1/check", &fields);
            let stream = 2 * number + 1;
            let more = Frame::bytes(Frame::CONTINUATION, 0, stream, &head[..0]);
            let rest = Frame::bytes(Frame::CONTINUATION, Frame::END_HEADERS, stream, &head[..0]);
            let first = Frame::bytes(Frame::HEADERS, Frame::END_STREAM, stream, &head);
            [first, more, rest].concat()
        });
    });
}

#[test]
fn frames_that_want_an_answer_pile_up_nowhere() {
    let settings = Frame::bytes(Frame::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]);
    flood(|flood, _| {
        flood.pour(100_000, |_| settings.clone());
    });
    let ping = Frame::bytes(Frame::PING, 0, 0, b"12345678");
    flood(|flood, _| {
        flood.pour(100_000, |_| ping.clone());
    });
}

#[test]
fn nonsense_ends_the_connection() {
    let server = Attacked::start();
    for nonsense in [
        Frame::bytes(Frame::DATA, 0, 0, b"of no stream"),
        Frame::bytes(Frame::CONTINUATION, 4, 1, b"of no head"),
        Frame::bytes(Frame::HEADERS, WHOLE, 2, b"of a server"),
        Frame::bytes(Frame::HEADERS, WHOLE, 1, &[0xff; 64]),
        Frame::bytes(Frame::WINDOW_UPDATE, 0, 0, &[0; 4]),
        Frame::bytes(Frame::SETTINGS, 0, 0, &[0; 5]),
        Frame::bytes(0xfe, 0xff, 0x7fff_ffff, &[0; 100]),
    ] {
        server.by(2, |number| {
            let mut flood = Flood::open(server.0.port(DOORS[number]));
            flood.send(&nonsense);
        });
    }
}
