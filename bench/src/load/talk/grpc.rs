//! gRPC on HTTP/2, as much of it as one unary call needs.
//!
//! Both services that are called begin their answer with the field 1 = 1 when a request passes, and
//! send no message when a call fails: so the trailers need not be decoded.

use anyhow::{Result, bail, ensure};

use super::pattern::Pattern;
use super::{Talk, shown};

/// Calls of one method about a client.
#[derive(Debug, Clone)]
pub(crate) struct Grpc {
    /// Header fields that enter the connection's table.
    first_head: Vec<u8>,
    message: Pattern,
    next_stream: u32,
    /// Messages that came and whose trailers did not yet.
    open: u32,
    /// Bytes that the server may still send.
    window: u32,
}

impl Grpc {
    /// `message` is the request in Protocol Buffers' form, and holds the gap once.
    pub(crate) fn new(path: &str, message: &[u8]) -> Self {
        let length = u8::try_from(message.len()).expect("our messages are short");
        let framed = [&[0, 0, 0, 0, length], message].concat();
        Self {
            first_head: first_head(path),
            message: Pattern::new(framed),
            next_stream: 1,
            open: 0,
            window: 0,
        }
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        answered: &mut Vec<u32>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let ends = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA => {
                ensure!(frame.body.get(5..7) == Some(PASSES), "refused: {:?}", frame.body);
                self.open += 1;
                self.spend(u32::try_from(frame.body.len())?, out);
            }
            HEADERS if ends => {
                ensure!(self.open > 0, "a call failed: `{}`", shown(frame.body));
                self.open -= 1;
                answered.push(frame.stream);
            }
            SETTINGS if frame.flags & ACK == 0 => write_frame(SETTINGS, ACK, 0, &[], out),
            PING if frame.flags & ACK == 0 => write_frame(PING, ACK, 0, frame.body, out),
            RST_STREAM | GOAWAY => bail!("the server ends the talk: {:?}", shown(frame.body)),
            _ => {}
        }
        Ok(())
    }

    /// Lets the server send on before it has to stop.
    fn spend(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.window = self.window.saturating_sub(bytes);
        if self.window < WINDOW / 2 {
            write_frame(WINDOW_UPDATE, 0, 0, &(WINDOW - self.window).to_be_bytes(), out);
            self.window = WINDOW;
        }
    }
}

impl Talk for Grpc {
    fn hello(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        write_frame(SETTINGS, 0, 0, &[], out);
        self.spend(0, out);
    }

    fn ask(&mut self, client: u32, out: &mut Vec<u8>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let head = if stream == 1 { &self.first_head[..] } else { NEXT_HEAD };
        write_frame(HEADERS, END_HEADERS, stream, head, out);
        let start = out.len();
        write_frame(DATA, END_STREAM, stream, &[], out);
        self.message.write(client, out);
        out[start + 2] = u8::try_from(out.len() - start - FRAME_HEAD).expect("a short message");
        stream
    }

    fn hear(&mut self, bytes: &[u8], answered: &mut Vec<u32>, out: &mut Vec<u8>) -> Result<usize> {
        let mut read = 0;
        while let Some(frame) = Frame::first_of(&bytes[read..]) {
            self.frame(&frame, answered, out)?;
            read += FRAME_HEAD + frame.body.len();
        }
        Ok(read)
    }
}

struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    fn first_of(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<FRAME_HEAD>()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let body = rest.get(..usize::try_from(length).ok()?)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Self { kind: head[3], flags: head[4], stream, body })
    }
}

fn write_frame(kind: u8, flags: u8, stream: u32, body: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(body.len()).expect("our frames are short").to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(body);
}

/// POST, http, and four fields that are numbered from then on, the last as 62.
fn first_head(path: &str) -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    field(&[0x44], path, &mut head);
    field(&[0x41], "127.0.0.1", &mut head);
    field(&[0x5f], "application/grpc", &mut head);
    field(&[0x40, 2, b't', b'e'], "trailers", &mut head);
    head
}

fn field(name: &[u8], value: &str, head: &mut Vec<u8>) {
    head.extend_from_slice(name);
    head.push(u8::try_from(value.len()).ok().filter(|length| *length < 127).expect("short"));
    head.extend_from_slice(value.as_bytes());
}

/// The same fields by their numbers.
const NEXT_HEAD: &[u8] = &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PASSES: &[u8] = &[0x08, 0x01];
const FRAME_HEAD: usize = 9;
const WINDOW: u32 = 1 << 30;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Grpc {
        Grpc::new("/a.B/C", b"\x0a\x07#######")
    }

    fn answer(stream: u32, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(HEADERS, END_HEADERS, stream, &[0x88], &mut bytes);
        write_frame(DATA, 0, stream, message, &mut bytes);
        write_frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0xbe], &mut bytes);
        bytes
    }

    #[test]
    fn calls_have_odd_streams_and_a_message_with_its_length() {
        let (mut talk, mut out) = (talk(), Vec::new());
        assert_eq!((talk.ask(5, &mut Vec::new()), talk.ask(6, &mut out)), (1, 3));
        let head = Frame::first_of(&out).unwrap();
        assert_eq!((head.kind, head.stream, head.body), (HEADERS, 3, NEXT_HEAD));
        let data = Frame::first_of(&out[FRAME_HEAD + head.body.len()..]).unwrap();
        assert_eq!((data.kind, data.flags), (DATA, END_STREAM));
        assert_eq!(data.body, b"\0\0\0\0\x09\x0a\x070000006");
    }

    #[test]
    fn an_answer_counts_with_its_trailers() {
        let bytes = answer(3, &[0, 0, 0, 0, 2, 8, 1]);
        let (mut talk, mut answered) = (talk(), Vec::new());
        let read = talk.hear(&bytes[..bytes.len() - 1], &mut answered, &mut Vec::new()).unwrap();
        assert!(answered.is_empty());
        talk.hear(&bytes[read..], &mut answered, &mut Vec::new()).unwrap();
        assert_eq!(answered, [3]);
    }

    #[test]
    fn a_refusal_and_a_failure_end_the_talk() {
        let mut failed = Vec::new();
        write_frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x88], &mut failed);
        for bytes in [answer(1, &[0, 0, 0, 0, 2, 8, 2]), failed] {
            assert!(talk().hear(&bytes, &mut Vec::new(), &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn the_server_is_answered_and_given_room() {
        let (mut talk, mut out) = (talk(), Vec::new());
        talk.hello(&mut out);
        assert!(out.ends_with(&WINDOW.to_be_bytes()));
        let (mut said, mut reply) = (Vec::new(), Vec::new());
        write_frame(PING, 0, 0, b"12345678", &mut said);
        talk.hear(&said, &mut Vec::new(), &mut reply).unwrap();
        assert_eq!(Frame::first_of(&reply).unwrap().flags, ACK);
        assert_eq!(Frame::first_of(&reply).unwrap().body, b"12345678");
    }
}
