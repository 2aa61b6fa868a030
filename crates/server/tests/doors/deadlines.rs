//! A client that is slow, silent or one too many is let go in time, and no other client notices.
//!
//! The deadlines are those of tests: the real ones are the same code with other numbers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use prost::Message as _;
use tidegate_server::{Bounds, Settings, TlsFiles};
use tidegate_sim::rng::Rng;
use tidegate_testbed::{Certificates, Frame, Http, until};

use crate::asked::Asked;
use crate::world::{SOON, World, connected};

const POLICY: &str = "rules: [{ name: all, limit: 100000/min }]";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const SHORT: Duration = Duration::from_millis(400);

fn impatient(settings: &mut Settings) {
    settings.bounds = Bounds {
        handshake_time: SHORT,
        http_head_time: SHORT,
        body_time: SHORT,
        reply_time: SHORT,
        resp_check_every: SHORT / 2,
        ..Bounds::default()
    };
}

/// Every door answers somebody else.
fn others_are_served(world: &World) {
    assert_eq!(world.post("/v1/check", "{}").0, 200);
    assert_eq!(world.resp().call(&["PING"]).unwrap().text(), "PONG");
    let message = Asked::any(&mut Rng::new(1)).descriptor().encode_to_vec();
    assert!(world.grpc().call(METHOD, &message).is_ok());
}

/// Whether the other side has closed the connection. Looks for as long as a byte takes that nobody
/// sends, so that a loop around it goes slowly.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    loop {
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

/// Sends these bytes one by one, and the last of them again and again, until it is let go.
#[track_caller]
fn drip(to: SocketAddr, bytes: &[u8]) {
    let mut stream = connected(to);
    let mut next = bytes.iter().chain(std::iter::repeat(bytes.last().unwrap()));
    let let_go = until(SOON, "a slow client is let go", || {
        stream.write_all(&[*next.next().unwrap()]).is_err() || is_closed(&mut stream)
    });
    let_go.unwrap();
}

/// Sends these bytes in one piece, and then blanks one by one, until it is let go.
#[track_caller]
fn drip_after(to: SocketAddr, begun: &str) {
    let mut stream = connected(to);
    stream.write_all(begun.as_bytes()).unwrap();
    let let_go = until(SOON, "a slow body is let go", || {
        stream.write_all(b" ").is_err() || is_closed(&mut stream)
    });
    let_go.unwrap();
}

/// Sends these bytes and then nothing, until it is let go.
#[track_caller]
fn stall(to: SocketAddr, bytes: &[u8]) {
    let mut stream = connected(to);
    stream.write_all(bytes).unwrap();
    until(SOON, "a silent client is let go", || is_closed(&mut stream)).unwrap();
}

#[test]
fn slow_heads_and_bodies_are_given_up() {
    let world = World::with(POLICY, impatient);
    let http = world.at.http.unwrap();
    drip(http, b"GET / HTTP/1.1\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    others_are_served(&world);
    stall(http, b"GET / HTTP/1.1\r\nhost: a\r\n");
    let mut slow = Http::connect(world.http()).unwrap();
    let told = slow.send("POST", "/v1/check", &[("content-length", "100")], b"{").unwrap();
    assert_eq!(told.status, 408, "{}", told.text());
    for length in ["9999", "4000"] {
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}");
        drip_after(http, &format!("{head}\r\n\r\n{{"));
    }
    others_are_served(&world);
}

#[test]
fn a_slow_message_is_given_up_and_the_connection_goes_on() {
    let world = World::with(POLICY, impatient);
    let mut grpc = world.grpc();
    let stream = grpc.next_stream();
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let head = Frame::post(METHOD, &fields);
    grpc.send(&Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, stream, &head)).unwrap();
    grpc.send(&Frame::bytes(Frame::DATA, 0, stream, b"\0\0\0\0\x20half")).unwrap();
    // Without a message, with trailers that say why.
    assert_eq!(grpc.answer(stream).unwrap(), b"");
    let message = Asked::any(&mut Rng::new(1)).descriptor().encode_to_vec();
    assert!(grpc.call(METHOD, &message).is_ok());
}

#[test]
fn who_takes_no_reply_is_let_go() {
    let world = World::with(POLICY, impatient);
    let message = Asked::any(&mut Rng::new(1)).descriptor().encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0][..], &length, &message].concat();
    for (door, path, media_type, body) in [
        (world.at.http, "/v1/check", "application/json", &b"{}"[..]),
        (world.at.grpc, METHOD, "application/grpc", &framed),
    ] {
        let fields = [("content-type", media_type), ("te", "trailers")];
        let mut stream = connected(door.unwrap());
        // A window of zero: no byte of a body may be sent to it.
        let window = Frame::bytes(Frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let head = Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, 1, &Frame::post(path, &fields));
        let body = Frame::bytes(Frame::DATA, Frame::END_STREAM, 1, body);
        stream.write_all(&[Frame::PREFACE, &window, &head, &body].concat()).unwrap();
        until(SOON, "it is let go", || is_closed(&mut stream)).unwrap();
        others_are_served(&world);
    }
}

#[test]
fn long_bodies_that_never_end_are_in_nobodys_way() {
    let world = World::new(POLICY);
    let head = b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n";
    let begun = [&head[..], &vec![b' '; 700_000]].concat();
    // All of it together is more than there is room for.
    let mut streams: Vec<TcpStream> = (0..110)
        .map(|_| {
            let mut stream = connected(world.at.http.unwrap());
            // Clients that there is no room for are let go before they have sent it all.
            let _ = stream.write_all(&begun);
            stream
        })
        .collect();
    others_are_served(&world);
    let refused = streams.iter_mut().filter_map(said).filter(|said| said.contains(" 503 ")).count();
    assert!((1..60).contains(&refused), "{refused} were refused");
    others_are_served(&world);
}

/// The first line of what was said by now, if anything was.
fn said(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut bytes = [0; 64];
    let length = stream.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

#[test]
fn commands_may_come_slowly_but_not_for_ever() {
    let world = World::with(POLICY, impatient);
    let resp = world.at.resp.unwrap();
    let mut slow = world.resp();
    for byte in b"*1\r\n$4\r\nPING\r\n" {
        slow.send(&[*byte]).unwrap();
    }
    assert_eq!(slow.reply().unwrap().text(), "PONG");
    stall(resp, b"*2\r\n$4\r\nECHO\r\n$100\r\nabc");
    drip(resp, b"*2\r\n$4\r\nECHO\r\n$16000\r\na");
    stall(resp, b"");
    others_are_served(&world);
}

#[test]
fn who_does_not_shake_hands_is_let_go() {
    let certificates = Certificates::new().unwrap();
    let world = World::with(POLICY, |settings| {
        impatient(settings);
        settings.tls = Some(TlsFiles {
            certificate: certificates.server_certificate(),
            key: certificates.server_key(),
            client_authorities: None,
            admins: Vec::new(),
        });
    });
    for door in [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap) {
        stall(door, b"");
        stall(door, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
        stall(door, b"GET / HTTP/1.1\r\n\r\n");
        stall(door, &[0xff; 512]);
    }
}
