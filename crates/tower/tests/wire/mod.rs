//! A server on a free port of this machine, and as much of an HTTP client as tests need.

#![allow(dead_code, unreachable_pub, reason = "each test uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A server; dropped, it stops.
pub struct Server {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves on a free port.
    pub fn new<F, O>(serve: impl FnOnce(TcpListener) -> F) -> Server
    where
        F: Future<Output = O> + Send + 'static,
        O: Send + 'static,
    {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener));
        Server { address, runtime: Some(runtime) }
    }

    /// Sends a request such as `GET /` without a body.
    pub fn ask(&self, line: &str) -> Reply {
        self.send(line, &[], "")
    }

    /// Sends a request as `ask` does, with headers.
    pub fn ask_with(&self, line: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(line, headers, "")
    }

    /// Sends a request as `ask` does, with headers and a body.
    pub fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut upload = Upload::begin(self, line, headers, body.len());
        upload.send(body);
        upload.finish()
    }

    pub fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A request that is being sent.
pub struct Upload(BufReader<TcpStream>);

impl Upload {
    /// Sends the head.
    pub fn begin(server: &Server, line: &str, headers: &[(&str, &str)], length: usize) -> Upload {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let mut head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if 0 < length {
            head.extend(["content-length: ", &length.to_string(), "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        Upload(BufReader::new(stream))
    }

    /// Waits until the server asks for the body, as it does if `expect: 100-continue` was sent.
    pub fn wait_until_wanted(&mut self) {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
        self.0.read_line(&mut line).unwrap();
    }

    /// Sends a piece of the body.
    pub fn send(&mut self, piece: &str) {
        self.0.get_mut().write_all(piece.as_bytes()).unwrap();
    }

    /// Reads the reply until the server closes the connection.
    pub fn finish(mut self) -> Reply {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        Reply { head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    head: String,
    pub body: String,
}

impl Reply {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// How much is left.
    pub fn remaining(&self) -> u32 {
        self.header("x-ratelimit-remaining").and_then(|it| it.parse().ok()).expect("a number")
    }
}
