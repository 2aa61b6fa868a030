//! Frames of HTTP/2 that make the server work and ask nothing of it: they have a budget.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use tidegate_testbed::{Frame, Http2};

use crate::stand::{Door, METHOD, SOON, Talk, Tidegate, call_head, connected, policy};

const DOORS: [Door; 2] = [Door::Http, Door::Grpc];
const WHOLE: u8 = Frame::END_HEADERS | Frame::END_STREAM;
const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];
/// Far more than anybody has a use for.
const FLOOD: usize = 2_000_000;

fn server() -> Tidegate {
    Tidegate::start(&policy(1_000_000_000), &["--log-level", "warn"]).unwrap()
}

/// Reads to the end of the connection; the last frame that came.
fn last_word(mut stream: TcpStream) -> Option<Frame> {
    let mut last = None;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            break;
        }
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        last = Some(Frame { kind: head[3], flags: head[4], stream, body });
    }
    last
}

/// Floods each door with a frame, reading all that it answers, until the server ends it.
#[track_caller]
fn is_ended(frames: &[(&str, Vec<u8>)]) {
    let server = server();
    for door in DOORS {
        for (name, frame) in frames {
            let mut stream = connected(server.port(door)).unwrap();
            let settings = Frame::bytes(Frame::SETTINGS, 0, 0, &[]);
            stream.write_all(&[Frame::PREFACE, &settings].concat()).unwrap();
            let reader = stream.try_clone().unwrap();
            let reader = thread::spawn(move || last_word(reader));
            let chunk = frame.repeat(100);
            let was_ended = (0..FLOOD / 100).any(|_| stream.write_all(&chunk).is_err());
            assert!(was_ended, "{door:?}: a flood of {name} goes on");
            let last = reader.join().unwrap().expect("a frame");
            let why = last.body.get(4..8);
            assert_eq!((last.kind, why), (Frame::GOAWAY, Some(&ENHANCE_YOUR_CALM[..])), "{name}");
            assert!(Talk::open(&server, door).unwrap().ask().unwrap());
        }
    }
}

#[test]
fn a_flood_of_pings_is_ended_although_their_answers_are_read() {
    is_ended(&[
        ("pings", Frame::bytes(Frame::PING, 0, 0, b"12345678")),
        ("answers to pings", Frame::bytes(Frame::PING, 1, 0, b"12345678")),
    ]);
}

#[test]
fn a_flood_of_settings_is_ended() {
    is_ended(&[("settings", Frame::bytes(Frame::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]))]);
}

#[test]
fn a_flood_of_frames_that_nobody_knows_is_ended() {
    is_ended(&[
        ("unknown frames", Frame::bytes(0xfe, 0, 0, b"12345678")),
        ("priorities", Frame::bytes(2, 0, 1, &[0, 0, 0, 0, 1])),
    ]);
}

/// As Envoy and gRPC do: a ping for each frame of data that comes, and one now and then. Streams
/// are cancelled, too.
#[test]
fn pings_and_resets_beside_requests_are_no_flood() {
    let server = server();
    let body = br#"{"attributes":{"door":"http"}}"#;
    let ping = Frame::bytes(Frame::PING, 0, 0, b"12345678");
    for door in DOORS {
        let mut http2 = Http2::over(connected(server.port(door)).unwrap()).unwrap();
        for _ in 0..4_000 {
            http2.send(&ping.repeat(3)).unwrap();
            match door {
                Door::Http => {
                    let fields = [("content-type", "application/json")];
                    http2.post("/v1/check", &fields, body).unwrap();
                }
                _ => drop(
                    http2
                        .call(METHOD, b"\x0a\x01d\x12\x0e\x0a\x0c\x0a\x04door\x12\x04grpc")
                        .unwrap(),
                ),
            }
            let late = Frame::bytes(Frame::RST_STREAM, 0, http2.next_stream() - 2, &[0, 0, 0, 8]);
            http2.send(&late).unwrap();
        }
        assert!(!http2.is_ending());
    }
}

/// What a peer does wrong is not worth a line for each time.
#[test]
fn a_peer_that_does_wrong_again_and_again_fills_no_log() {
    let server = server();
    let before = server.daemon.log().len();
    for round in 0..60_u32 {
        let mut stream = connected(server.port(DOORS[(round % 2) as usize])).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        let settings = Frame::bytes(Frame::SETTINGS, 0, 0, &[]);
        stream.write_all(&[Frame::PREFACE, &settings].concat()).unwrap();
        let pong = Frame::bytes(Frame::PING, 1, 0, b"unasked!");
        let _ = stream.write_all(&pong.repeat(50));
        let resets: Vec<u8> = (0..2_000)
            .flat_map(|number| {
                let id = 2 * number + 1;
                let reset = Frame::bytes(Frame::RST_STREAM, 0, id, &[0, 0, 0, 8]);
                [call_head(id, WHOLE), reset].concat()
            })
            .collect();
        let _ = stream.write_all(&resets);
        last_word(stream);
    }
    let log = server.daemon.log();
    let more = log.len() - before;
    assert!(more < 2_000, "{more} bytes were written: {}", &log[..2_000.min(log.len())]);
}
