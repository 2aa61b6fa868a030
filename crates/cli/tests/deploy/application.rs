//! What stands behind a proxy: says that it was reached, and by what.

use std::io::{BufRead, BufReader, Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// Answers every request with 200, the method and the target. Ends with the test process.
pub(crate) fn start() -> u16 {
    answering(200)
}

/// Answers as `start` does, but with the given status.
pub(crate) fn answering(status: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that hangs up in the middle is none of our business.
            thread::spawn(move || serve(stream, status).unwrap_or_default());
        }
    });
    port
}

fn serve(stream: TcpStream, status: u16) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_ascii_lowercase());
        }
        if head.iter().any(|line| line == "transfer-encoding: chunked") {
            skip_chunks(&mut reader)?;
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut sent = String::new();
        reader.by_ref().take(length).read_to_string(&mut sent)?;
        let request = head.first().and_then(|line| line.rsplit_once(' '));
        let (request, _version) = request.unwrap_or_default();
        let body = format!("{REACHED} {request} {sent}");
        let length = body.len();
        write!(writer, "HTTP/1.1 {status} So\r\ncontent-length: {length}\r\n\r\n{body}")?;
    }
}

/// Reads a body that comes in pieces.
fn skip_chunks(reader: &mut impl BufRead) -> Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(Error::other)?;
        // With the end of its line.
        let mut piece = Vec::new();
        reader.by_ref().take(size + 2).read_to_end(&mut piece)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// What every answer begins with.
pub(crate) const REACHED: &str = "the application:";
