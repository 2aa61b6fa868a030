//! A blocking client of HTTP/1.1, no more than tests need: one connection, kept open.
//!
//! It reads what is framed by a length, by chunks or by the end of the connection, and gives the
//! answer as it came: no redirects, no retries, no decoding.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::net::{self, AddressFamily, SocketType};

/// One connection, over TCP or whatever else carries bytes.
#[derive(Debug)]
pub struct Http<S = TcpStream> {
    stream: BufReader<S>,
    host: String,
}

/// What was answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in order, with their values.
    pub headers: Vec<(String, String)>,
    /// What followed the headers.
    pub body: Vec<u8>,
}

impl Http {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> Result<Http> {
        Http::connect_within(port, ANSWER_WITHIN)
    }

    /// Like [`Http::connect`], but gives up when nothing comes for that time.
    pub fn connect_within(port: u16, within: Duration) -> Result<Http> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Http::within(TcpStream::connect_timeout(&address, within)?, within)
    }

    /// Connects from another address of this machine, such as 127.0.0.2: another client.
    pub fn connect_from(from: Ipv4Addr, port: u16) -> Result<Http> {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        net::bind(&socket, &SocketAddrV4::new(from, 0))?;
        net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Http::within(TcpStream::from(socket), ANSWER_WITHIN)
    }

    fn within(stream: TcpStream, within: Duration) -> Result<Http> {
        let address = stream.peer_addr()?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        stream.set_nodelay(true)?;
        Ok(Http { stream: BufReader::new(stream), host: address.to_string() })
    }

    /// A `GET` on a connection of its own.
    pub fn get(port: u16, target: &str) -> Result<HttpAnswer> {
        Http::connect(port)?.send("GET", target, &[], b"")
    }

    /// A `POST` of JSON on a connection of its own.
    pub fn post(port: u16, target: &str, json: &str) -> Result<HttpAnswer> {
        let headers = [("content-type", "application/json")];
        Http::connect(port)?.send("POST", target, &headers, json.as_bytes())
    }
}

impl<S: Read + Write> Http<S> {
    /// Speaks over a stream that is connected already, to a host of that name.
    pub fn over(stream: S, host: &str) -> Http<S> {
        Http { stream: BufReader::new(stream), host: host.to_owned() }
    }

    /// Sends a request and reads its answer. `host` and the length are added unless they are given.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpAnswer> {
        let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !has("host") {
            write!(head, "host: {}\r\n", self.host)?;
        }
        if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
            write!(head, "content-length: {}\r\n", body.len())?;
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        head.push_str("\r\n");
        self.say(&[head.as_bytes(), body].concat(), method == "HEAD")
    }

    /// Sends a request as it is, byte for byte, and reads its answer.
    pub fn send_bytes(&mut self, request: &[u8]) -> Result<HttpAnswer> {
        self.say(request, false)
    }

    fn say(&mut self, request: &[u8], headless: bool) -> Result<HttpAnswer> {
        // In one piece, so that a server that answers early breaks no second write.
        let stream = self.stream.get_mut();
        stream.write_all(request)?;
        stream.flush()?;
        self.answer(headless)
    }

    fn answer(&mut self, headless: bool) -> Result<HttpAnswer> {
        loop {
            let (status, headers) = self.head()?;
            let mut answer = HttpAnswer { status, headers, body: Vec::new() };
            // Others of this kind come before the answer.
            if (100..200).contains(&status) && status != 101 {
                continue;
            }
            if !headless && !matches!(status, 101 | 204 | 304) {
                answer.body = self.body(&answer)?;
            }
            return Ok(answer);
        }
    }

    fn head(&mut self) -> Result<(u16, Vec<(String, String)>)> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|code| code.parse().ok());
        let status = status.with_context(|| format!("not a status line: `{first}`"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((status, headers));
            }
            ensure!(headers.len() < HEADERS_MAX, "more than {HEADERS_MAX} headers");
            let (name, value) = line.split_once(':').context("a header without a colon")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn body(&mut self, answer: &HttpAnswer) -> Result<Vec<u8>> {
        if answer.header("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            return self.chunks();
        }
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length") {
            let length: u64 = length.parse().context("a length that is no number")?;
            ensure!(length <= BODY_MAX, "a body of {length} bytes");
            self.stream.by_ref().take(length).read_to_end(&mut body)?;
            ensure!(u64::try_from(body.len()) == Ok(length), "the body breaks off");
        } else {
            self.stream.by_ref().take(BODY_MAX).read_to_end(&mut body)?;
        }
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).context("a chunk without its size")?;
            ensure!(size <= BODY_MAX, "a chunk of {size} bytes");
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            self.stream.by_ref().take(size).read_to_end(&mut body)?;
            ensure!(self.line()?.is_empty(), "a chunk of another size than it said");
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.by_ref().take(LINE_MAX).read_line(&mut line)?;
        let Some(line) = line.strip_suffix('\n') else {
            bail!("the answer breaks off after `{line}`");
        };
        Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }
}

impl HttpAnswer {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// The body as text; what is not text is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 100;
const LINE_MAX: u64 = 64 << 10;
const BODY_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Reads one head a request and answers with what is given for it, then hangs up.
    fn serve(answers: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for answer in answers {
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    assert_ne!(reader.read_line(&mut line).unwrap(), 0);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        port
    }

    #[test]
    fn one_connection_carries_answers_of_every_framing() {
        let port = serve(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\nhi",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            "HTTP/1.1 204 Nothing\r\n\r\n",
            "HTTP/1.1 502 Bad\r\n\r\nuntil the end",
        ]);
        let mut http = Http::connect(port).unwrap();
        let mut get = || http.send("GET", "/", &[], b"").unwrap();
        let first = get();
        assert_eq!((first.status, first.text()), (200, "hi".to_owned()));
        assert_eq!(first.header("a"), Some("b"));
        let second = get();
        assert_eq!((second.status, second.text()), (429, "abcde".to_owned()));
        assert_eq!(get().status, 204);
        assert_eq!(get().text(), "until the end");
    }

    #[test]
    fn an_answer_that_breaks_off_is_an_error() {
        let port = serve(&["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi"]);
        let error = Http::get(port, "/").expect_err("three bytes are missing");
        assert_eq!(error.to_string(), "the body breaks off");
    }
}
