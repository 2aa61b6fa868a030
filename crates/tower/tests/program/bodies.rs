//! Bodies that end early, are never read, never end, or fail on their way.

use std::io::Write as _;

use crate::stage::{PLACES, Program, rest, status, until};

#[test]
fn an_upload_that_ends_early_keeps_no_place() {
    let program = Program::new();
    for head in ["content-length: 1000", "transfer-encoding: chunked"] {
        for _ in 0..PLACES {
            let half = format!("POST /reads HTTP/1.1\r\nhost: a\r\n{head}\r\n\r\n5\r\nhello\r\n");
            let stream = program.send(&half);
            program.wait_for(1, 0);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let reply = rest(stream);
            assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 400"), "{reply}");
        }
    }
    assert_eq!(program.inside.begun(), 2 * PLACES);
    program.is_over();
}

#[test]
fn an_upload_that_nobody_reads_keeps_no_place() {
    let program = Program::new();
    for number in 1..=PLACES {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n";
        let mut stream = program.send(head);
        let _ = (0..100).try_for_each(|_| stream.write_all(&[b'x'; 16_384]));
        // It is answered, though its body is still on its way.
        until(|| program.inside.begun(), number);
        program.is_quiet();
    }
    // One of a client that waits to be asked for it, and never is.
    let expects = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    let mut stream = program.send(expects);
    assert_eq!(status(&mut stream), 200);
    program.is_over();
}

#[test]
fn an_upload_whose_framing_is_nonsense_keeps_no_place() {
    let program = Program::new();
    for chunks in ["zz\r\nhello\r\n", "fffffffffffffffffff\r\n", "5\r\nhelloXX", "0\r\nx: y\r\n"] {
        let head = "POST /reads HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let stream = program.send(&[head, chunks].concat());
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reply = rest(stream);
        assert!(!reply.contains(" 200 "), "{reply}");
    }
    program.is_over();
}

#[test]
fn a_response_whose_body_fails_keeps_no_place() {
    let program = Program::new();
    for number in 1..=2 * PLACES {
        // What was not sent by then may be lost with it.
        assert!(!rest(program.begin("GET /error")).contains(" 429 "));
        assert_eq!(program.inside.begun(), number);
    }
    program.is_over();
}

/// Nothing is asked of the body of such a response: it is dropped as it is.
#[test]
fn a_response_whose_body_is_not_wanted_keeps_no_place() {
    let program = Program::new();
    for path in ["/endless", "/stalls", "/error", "/torn", "/"] {
        let mut stream = program.begin(&format!("HEAD {path}"));
        assert_eq!(status(&mut stream), 200);
        program.is_quiet();
    }
    program.is_over();
}
