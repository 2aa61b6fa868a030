//! The second version of HTTP: streams that are reset, windows of nothing, connections that end in
//! the middle of everything.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::stage::{PERMITS, PLACES, Program, until};

/// A client that says whatever it likes.
struct Client(TcpStream);

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
/// The end of a request without a body, and of its head.
const WHOLE: u8 = 0x5;

impl Client {
    /// A connection, with room for so many bytes of each response.
    fn new(program: &Program, window: u32) -> Client {
        let stream = TcpStream::connect(program.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Client(stream);
        client.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let [a, b, c, d] = window.to_be_bytes();
        client.frame(SETTINGS, 0, 0, &[0, 4, a, b, c, d]);
        client
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = [&length[1..], &[kind, flags][..], &stream.to_be_bytes()[..]].concat();
        frame.extend(payload);
        // A server that has had enough says so, and is gone.
        let _ = self.0.write_all(&frame);
    }

    fn get(&mut self, stream: u32, path: &str) {
        self.ask(stream, path, WHOLE);
    }

    fn ask(&mut self, stream: u32, path: &str, flags: u8) {
        // Two fields of the static table, then two with names of it and values that follow.
        let mut head = vec![0x82, 0x86];
        for (name, value) in [(0x04, path), (0x01, "localhost")] {
            head.extend([name, u8::try_from(value.len()).unwrap()]);
            head.extend(value.as_bytes());
        }
        self.frame(HEADERS, flags, stream, &head);
    }

    fn reset(&mut self, stream: u32) {
        self.frame(RESET, 0, stream, &8_u32.to_be_bytes());
    }
}

/// The numbers of so many streams.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

#[test]
fn streams_that_are_reset_while_they_are_served_leave_nothing() {
    let program = Program::new();
    for _ in 0..10 {
        let mut client = Client::new(&program, 65_535);
        streams(PERMITS).for_each(|it| client.get(it, "/hang"));
        program.wait_for(PLACES, PERMITS - PLACES);
        // Those that wait, and those that are served.
        streams(PERMITS).for_each(|it| client.reset(it));
        program.wait_for(0, 0);
    }
    program.is_over();
}

#[test]
fn streams_that_are_reset_at_once_leave_nothing() {
    let program = Program::new();
    for _ in 0..10 {
        let mut client = Client::new(&program, 65_535);
        for stream in streams(150) {
            client.get(stream, ["/hang", "/endless", "/"][stream as usize % 3]);
            client.reset(stream);
        }
        drop(client);
        program.is_quiet();
    }
    program.is_over();
}

#[test]
fn streams_end_with_their_connection() {
    let program = Program::new();
    for ends in [true, false] {
        let mut client = Client::new(&program, 65_535);
        streams(150).for_each(|it| client.get(it, "/hang"));
        program.wait_for(PLACES, PERMITS - PLACES);
        if ends {
            client.frame(GO_AWAY, 0, 0, &[0; 8]);
        }
        drop(client);
        program.is_quiet();
    }
    program.is_over();
}

/// A client without room for an answer has its place while that is not sent, and no longer.
#[test]
fn a_window_of_nothing_holds_places_until_its_streams_are_gone() {
    let program = Program::new();
    for path in ["/", "/endless", "/error"] {
        let mut client = Client::new(&program, 0);
        streams(PERMITS).for_each(|it| client.get(it, path));
        until(|| program.share(), (PLACES, PERMITS - PLACES));
        assert_eq!(program.server.ask("GET /").status(), 429);
        streams(PLACES).for_each(|it| client.reset(it));
        // The next four have their turn then.
        until(|| program.share(), (PLACES, 0));
        drop(client);
        program.is_quiet();
    }
    program.is_over();
}

/// A body is announced and never comes.
#[test]
fn an_upload_that_never_comes_keeps_its_place_as_long_as_its_stream() {
    let program = Program::new();
    let mut client = Client::new(&program, 65_535);
    streams(PLACES).for_each(|it| client.ask(it, "/reads", 0x4));
    program.wait_for(PLACES, 0);
    streams(PLACES).for_each(|it| client.reset(it));
    program.is_quiet();
    // And one whose frames make no sense: data on a stream that there is not.
    streams(PLACES).for_each(|it| client.ask(2 * PLACES + it, "/reads", 0x4));
    program.wait_for(PLACES, 0);
    client.frame(0, 0, 999, b"nonsense");
    program.is_quiet();
    program.is_over();
}

#[test]
fn a_handler_or_a_body_that_panics_ends_its_stream_only() {
    let program = Program::new();
    for number in 1..=2 * PLACES {
        let mut client = Client::new(&program, 65_535);
        for (stream, path) in streams(3).zip(["/panic", "/torn", "/"]) {
            client.get(stream, path);
        }
        until(|| program.inside.begun(), 3 * number);
        program.is_quiet();
    }
    program.is_over();
}
