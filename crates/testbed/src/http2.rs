//! HTTP/2 by hand: any frame that one likes to send, and as much of a client as a single call
//! needs.
//!
//! Header fields are written without compression, and none are read but the status: a server that
//! answers with 200 says so in the first byte of its head.

use std::io::{Read, Write};

use anyhow::{Context as _, Result, bail, ensure};

/// A frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// What it is.
    pub kind: u8,
    /// What that depends on.
    pub flags: u8,
    /// Of which stream it is; zero is the connection.
    pub stream: u32,
    /// What follows its head.
    pub body: Vec<u8>,
}

impl Frame {
    /// A part of a body.
    pub const DATA: u8 = 0;
    /// The head of a request or of an answer.
    pub const HEADERS: u8 = 1;
    /// Ends a stream.
    pub const RST_STREAM: u8 = 3;
    /// Settings, which are acknowledged.
    pub const SETTINGS: u8 = 4;
    /// Asks whether anybody is there.
    pub const PING: u8 = 6;
    /// Says that the connection ends.
    pub const GOAWAY: u8 = 7;
    /// Lets the other side send more.
    pub const WINDOW_UPDATE: u8 = 8;
    /// Goes on with a head.
    pub const CONTINUATION: u8 = 9;
    /// In flags: the stream ends here; a setting or a ping is acknowledged.
    pub const END_STREAM: u8 = 1;
    /// In flags: the head ends here.
    pub const END_HEADERS: u8 = 4;
    /// What a connection begins with.
    pub const PREFACE: &'static [u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    /// A frame as it is sent.
    pub fn bytes(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags];
        [&head, &stream.to_be_bytes()[..], body].concat()
    }

    /// The head of a `POST`, with these fields besides.
    pub fn post(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut head = vec![0x83, 0x86, 0x04];
        text(path, &mut head);
        head.push(0x01);
        text("localhost", &mut head);
        for (name, value) in fields {
            head.push(0);
            text(name, &mut head);
            text(value, &mut head);
        }
        head
    }
}

/// A text as header fields have them: its length in seven bits and more, then its bytes.
fn text(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len();
    if length < 127 {
        out.extend(u8::try_from(length));
    } else {
        out.push(127);
        length -= 127;
        while 128 <= length {
            out.extend(u8::try_from(128 + length % 128));
            length /= 128;
        }
        out.extend(u8::try_from(length));
    }
    out.extend_from_slice(text.as_bytes());
}

/// One connection, over TCP or whatever else carries bytes.
#[derive(Debug)]
pub struct Http2<S> {
    stream: S,
    next: u32,
    /// Whether the server has said that it ends.
    is_ending: bool,
}

impl<S: Read + Write> Http2<S> {
    /// Begins to speak over a stream that is connected.
    pub fn over(stream: S) -> Result<Http2<S>> {
        let mut http2 = Http2 { stream, next: 1, is_ending: false };
        let settings = Frame::bytes(Frame::SETTINGS, 0, 0, &[]);
        let window = Frame::bytes(Frame::WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        http2.send(&[Frame::PREFACE, &settings, &window].concat())?;
        Ok(http2)
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// The number of the next stream.
    pub fn next_stream(&mut self) -> u32 {
        let next = self.next;
        self.next += 2;
        next
    }

    /// Whether the server has said that it takes no more requests here.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// The stream below.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Reads a frame; settings and pings are acknowledged.
    pub fn frame(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).context("the connection has ended")?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut body = vec![0; usize::try_from(length)?];
        self.stream.read_exact(&mut body).context("a frame breaks off")?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let frame = Frame { kind: head[3], flags: head[4], stream, body };
        let is_asked = frame.flags & ACK == 0;
        match frame.kind {
            Frame::SETTINGS if is_asked => self.send(&Frame::bytes(frame.kind, ACK, 0, &[]))?,
            Frame::PING if is_asked => self.send(&Frame::bytes(frame.kind, ACK, 0, &frame.body))?,
            Frame::GOAWAY => self.is_ending = true,
            _ => {}
        }
        Ok(frame)
    }

    /// Posts a body, and gives that of the answer; fails unless its status is 200.
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Result<Vec<u8>> {
        let stream = self.ask(path, fields, body)?;
        self.answer(stream)
    }

    /// Sends a request; the number of its stream.
    pub fn ask(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Result<u32> {
        let stream = self.next_stream();
        let head = Frame::post(path, fields);
        let mut bytes = Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, stream, &head);
        bytes.extend(Frame::bytes(Frame::DATA, Frame::END_STREAM, stream, body));
        self.send(&bytes)?;
        Ok(stream)
    }

    /// Reads the answer to a request. What is said on other streams is lost.
    pub fn answer(&mut self, stream: u32) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        let mut status = None;
        loop {
            let frame = self.frame()?;
            if frame.kind == Frame::GOAWAY {
                let last = frame.body.first_chunk().map_or(0, |last| u32::from_be_bytes(*last));
                ensure!(stream <= last, "the server ends before it took the request");
            }
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                Frame::HEADERS => status = status.or(frame.body.first().copied()),
                Frame::DATA => body.extend_from_slice(&frame.body),
                Frame::RST_STREAM => bail!("the server breaks off: {:?}", frame.body),
                _ => {}
            }
            let has_ended = frame.flags & Frame::END_STREAM != 0;
            if has_ended && matches!(frame.kind, Frame::HEADERS | Frame::DATA) {
                ensure!(status == Some(STATUS_200), "the status is not 200: {status:?}");
                return Ok(body);
            }
        }
    }

    /// Calls a method of gRPC, with a message and for one.
    pub fn call(&mut self, path: &str, message: &[u8]) -> Result<Vec<u8>> {
        let body = self.post(path, &GRPC, &framed(message))?;
        message_of(&body).map(<[u8]>::to_vec)
    }
}

/// The fields that every call of gRPC has.
const GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat()
}

fn message_of(body: &[u8]) -> Result<&[u8]> {
    let (head, message) = body.split_at_checked(5).context("the call has failed")?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    ensure!(usize::try_from(length) == Ok(message.len()), "the message breaks off");
    Ok(message)
}

const ACK: u8 = 1;
const STATUS_200: u8 = 0x88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_in_front() {
        let bytes = Frame::bytes(Frame::PING, 0, 0, b"12345678");
        assert_eq!(bytes, b"\0\0\x08\x06\0\0\0\0\x0012345678");
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut out = Vec::new();
        text(&"a".repeat(300), &mut out);
        assert_eq!(out[..4], [127, 128 + 45, 1, b'a']);
    }

    #[test]
    fn messages_are_framed() {
        assert_eq!(message_of(&framed(b"abc")).unwrap(), b"abc");
        assert!(message_of(b"").is_err() && message_of(b"\0\0\0\0\x02a").is_err());
    }
}
