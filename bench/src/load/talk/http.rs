//! HTTP/1.1 with keep-alive: one request after the other, bodies with a length.

use anyhow::{Context, Result, ensure};
use memchr::memmem::Finder;

use super::pattern::{GAP, Pattern};
use super::{Talk, shown};

/// A request about a client, and what the body says when it passes.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    request: Pattern,
    passes: Finder<'static>,
    head_end: Finder<'static>,
    length: Finder<'static>,
    asked: u32,
    answered: u32,
}

impl Http {
    /// `body` holds the gap once.
    pub(crate) fn post(path: &str, body: &str, passes: &'static str) -> Self {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        debug_assert!(body.contains(GAP), "a body about somebody");
        Self::new(request, passes)
    }

    /// `path` holds the gap once.
    pub(crate) fn get(path: &str, passes: &'static str) -> Self {
        debug_assert!(path.contains(GAP), "a path about somebody");
        Self::new(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"), passes)
    }

    fn new(request: String, passes: &'static str) -> Self {
        Self {
            request: Pattern::new(request),
            passes: Finder::new(passes),
            head_end: Finder::new("\r\n\r\n"),
            length: Finder::new("\r\ncontent-length: "),
            asked: 0,
            answered: 0,
        }
    }

    /// Whether a whole response is there, and where it ends.
    fn end_of_response(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(head) = self.head_end.find(bytes) else { return Ok(None) };
        let said = || format!("not the response that was expected: `{}`", shown(bytes));
        ensure!(bytes.starts_with(OK), said());
        let length = self.length.find(&bytes[..head]).with_context(said)?;
        let digits = &bytes[length + self.length.needle().len()..head];
        let digits = digits.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let length: usize = std::str::from_utf8(digits)?.parse().with_context(said)?;
        let (start, end) = (head + 4, head + 4 + length);
        let Some(body) = bytes.get(start..end) else { return Ok(None) };
        ensure!(self.passes.find(body).is_some(), said());
        Ok(Some(end))
    }
}

impl Talk for Http {
    fn hello(&mut self, _out: &mut Vec<u8>) {}

    fn ask(&mut self, client: u32, out: &mut Vec<u8>) -> u32 {
        self.request.write(client, out);
        self.asked = self.asked.wrapping_add(1);
        self.asked
    }

    fn hear(&mut self, bytes: &[u8], answered: &mut Vec<u32>, _out: &mut Vec<u8>) -> Result<usize> {
        let mut read = 0;
        while let Some(end) = self.end_of_response(&bytes[read..])? {
            read += end;
            self.answered = self.answered.wrapping_add(1);
            answered.push(self.answered);
        }
        Ok(read)
    }
}

const OK: &[u8] = b"HTTP/1.1 200 ";

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Http {
        Http::post("/throttle", "{\"key\":\"#######\"}", r#""allowed":true"#)
    }

    #[test]
    fn a_request_has_the_length_of_its_body() {
        let mut out = Vec::new();
        talk().ask(7, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("content-length: 17\r\n\r\n{\"key\":\"0000007\"}"), "{text}");
    }

    #[test]
    fn a_response_counts_when_its_body_is_whole() {
        let said = b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\ndate: x\r\n\r\n{\"allowed\":true}";
        let (mut talk, mut answered) = (talk(), Vec::new());
        let mut hear = |bytes: &[u8]| talk.hear(bytes, &mut answered, &mut Vec::new()).unwrap();
        assert_eq!(hear(&said[..said.len() - 1]), 0);
        assert_eq!(hear(said), said.len());
        assert_eq!(answered, [1]);
    }

    #[test]
    fn a_refusal_ends_the_talk() {
        let said = b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"allowed\":false}";
        assert!(talk().hear(said, &mut Vec::new(), &mut Vec::new()).is_err());
        let said = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
        assert!(talk().hear(said, &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
