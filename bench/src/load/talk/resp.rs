//! The Redis protocol: one command, and replies of as many lines.

use anyhow::{Result, bail};
use memchr::memchr_iter;

use super::pattern::Pattern;
use super::{Talk, shown};

/// A command about a client, and what a reply that lets it pass looks like.
#[derive(Debug, Clone)]
pub(crate) struct Resp {
    command: Pattern,
    /// How every reply begins.
    begins: &'static [u8],
    /// How many lines it has.
    lines: usize,
    asked: u32,
    answered: u32,
}

impl Resp {
    /// `words` hold the gap once.
    pub(crate) fn new(words: &[&str], begins: &'static str, lines: usize) -> Self {
        let said = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let command = format!("*{}\r\n{}", words.len(), said.collect::<String>());
        let begins = begins.as_bytes();
        Self { command: Pattern::new(command), begins, lines, asked: 0, answered: 0 }
    }

    /// Whether a whole reply is there, and where it ends.
    fn end_of_reply(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let seen = bytes.len().min(self.begins.len());
        if bytes[..seen] != self.begins[..seen] {
            bail!("not the reply that was expected: `{}`", shown(bytes));
        }
        Ok(memchr_iter(b'\n', bytes).nth(self.lines - 1).map(|place| place + 1))
    }
}

impl Talk for Resp {
    fn hello(&mut self, _out: &mut Vec<u8>) {}

    fn ask(&mut self, client: u32, out: &mut Vec<u8>) -> u32 {
        self.command.write(client, out);
        self.asked = self.asked.wrapping_add(1);
        self.asked
    }

    fn hear(&mut self, bytes: &[u8], answered: &mut Vec<u32>, _out: &mut Vec<u8>) -> Result<usize> {
        let mut read = 0;
        while let Some(end) = self.end_of_reply(&bytes[read..])? {
            read += end;
            self.answered = self.answered.wrapping_add(1);
            answered.push(self.answered);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle() -> Resp {
        Resp::new(&["CL.THROTTLE", "k#######", "9"], "*5\r\n:0\r\n", 6)
    }

    #[test]
    fn a_command_is_an_array_of_words() {
        let (mut talk, mut out) = (throttle(), Vec::new());
        assert_eq!(talk.ask(42, &mut out), 1);
        assert_eq!(out, b"*3\r\n$11\r\nCL.THROTTLE\r\n$8\r\nk0000042\r\n$1\r\n9\r\n");
    }

    #[test]
    fn replies_are_counted_when_they_are_whole() {
        let one = b"*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:60\r\n";
        let bytes = [&one[..], one, &one[..20]].concat();
        let (mut talk, mut answered) = (throttle(), Vec::new());
        let read = talk.hear(&bytes, &mut answered, &mut Vec::new()).unwrap();
        assert_eq!((read, answered), (2 * one.len(), vec![1, 2]));
    }

    #[test]
    fn a_refusal_and_an_error_end_the_talk() {
        for said in [&b"*5\r\n:1\r\n:10"[..], b"-ERR what?\r\n"] {
            assert!(throttle().hear(said, &mut Vec::new(), &mut Vec::new()).is_err());
        }
    }
}
