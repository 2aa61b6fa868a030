//! Connections that become something else with the response.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::stage::{PLACES, Program, rest, status};

/// Answers, and echoes until the connection ends.
pub fn switch(request: Request) -> Response {
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        let (mut io, mut byte) = (TokioIo::new(upgraded), [0]);
        while io.read_exact(&mut byte).await.is_ok() && io.write_all(&byte).await.is_ok() {}
    });
    let response = Response::builder().status(101).header("connection", "upgrade");
    response.header("upgrade", "echo").body(Body::empty()).unwrap()
}

const UPGRADE: &str =
    "GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";

/// The response is all that the layer sees.
#[test]
fn a_connection_that_is_upgraded_gives_its_place_back_with_the_response() {
    let program = Program::new();
    let mut upgraded = Vec::new();
    for _ in 0..2 * PLACES {
        let mut stream = program.send(UPGRADE);
        assert_eq!(status(&mut stream), 101);
        upgraded.push(stream);
    }
    program.is_quiet();
    // They go on.
    for stream in &mut upgraded {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(b"x").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
    drop(upgraded);
    program.is_quiet();
    // One that leaves before it has the answer.
    (0..PLACES).for_each(|_| drop(program.send(UPGRADE)));
    program.is_over();
}

/// A service that waits for the upgrade of a request whose client does not want one.
#[test]
fn an_upgrade_that_nobody_wants_keeps_no_place() {
    let program = Program::new();
    for _ in 0..PLACES {
        drop(rest(program.send("GET /upgrade HTTP/1.0\r\n\r\n")));
    }
    program.is_over();
}
