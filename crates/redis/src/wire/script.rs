//! A script, and one call of it.
//!
//! A call is written down as the bytes that go over the wire, so that sending it copies nothing.

use arrayvec::ArrayVec;

use super::run::ServerRun;
use crate::flat::{Sink, decimal};

/// A script and the name that servers know it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    /// What every call of it by name begins with, behind the number of its parts.
    head: String,
}

/// One call of a script, ready to be sent.
#[derive(Debug)]
pub(crate) struct ScriptCall {
    pub(super) script: &'static Script,
    pub(super) slot: u16,
    /// It is sent in this run, or not at all.
    pub(super) run: Option<ServerRun>,
    /// The command, behind room for the number of its parts.
    bytes: Vec<u8>,
    parts: u64,
}

/// As long as `*`, a number of parts and the end of a line can be.
const ROOM: usize = 24;

impl Script {
    pub(crate) fn new(text: impl Into<String>) -> Script {
        let text = text.into();
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        let head = format!("$7\r\nEVALSHA\r\n${}\r\n{sha}\r\n", sha.len());
        Script { text, head }
    }
}

impl ScriptCall {
    /// A call of `script` on so many keys, which all live in `slot`: they are pushed next, and then
    /// the arguments. About so many bytes in all.
    pub(crate) fn new(script: &'static Script, slot: u16, keys: usize, bytes: usize) -> ScriptCall {
        let mut written = Vec::with_capacity(ROOM + 192 + 12 * keys + bytes);
        written.resize(ROOM, 0);
        written.extend_from_slice(script.head.as_bytes());
        let mut call = ScriptCall { script, slot, run: None, bytes: written, parts: 2 };
        call.number(keys as u64);
        call
    }

    /// This call, to be sent in no other run, if one is named.
    pub(crate) fn only_in(self, run: Option<ServerRun>) -> ScriptCall {
        ScriptCall { run, ..self }
    }

    /// The command, for once it is written.
    pub(super) fn command(&mut self) -> &[u8] {
        let head = head(self.parts, &mut itoa::Buffer::new());
        let from = ROOM - head.len();
        self.bytes[from..ROOM].copy_from_slice(&head);
        &self.bytes[from..]
    }

    /// This call with the script's text instead of its name: loads and runs it in one trip.
    pub(crate) fn with_text(&self) -> Vec<u8> {
        let text = &self.script.text;
        let mut bytes = head(self.parts, &mut itoa::Buffer::new()).to_vec();
        push(&mut bytes, b"EVAL");
        push(&mut bytes, text.as_bytes());
        bytes.extend_from_slice(&self.bytes[ROOM + self.script.head.len()..]);
        bytes
    }
}

impl Sink for ScriptCall {
    fn push(&mut self, bytes: &[u8]) {
        self.parts += 1;
        push(&mut self.bytes, bytes);
    }
}

/// The first line of a command of so many parts.
fn head(parts: u64, digits: &mut itoa::Buffer) -> ArrayVec<u8, ROOM> {
    let mut head = ArrayVec::new();
    // A mark, twenty digits at most, and the end of a line.
    let fits = "there is room for the longest number";
    head.push(b'*');
    head.try_extend_from_slice(decimal(parts, digits)).expect(fits);
    head.try_extend_from_slice(b"\r\n").expect(fits);
    head
}

/// Adds a part to a command.
fn push(command: &mut Vec<u8>, part: &[u8]) {
    command.push(b'$');
    command.extend_from_slice(decimal(part.len() as u64, &mut itoa::Buffer::new()));
    command.extend_from_slice(b"\r\n");
    command.extend_from_slice(part);
    command.extend_from_slice(b"\r\n");
}

/// The slot of a key in a cluster: a checksum of what stands in the first braces, if anything does.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM, bit by bit: tags are a few bytes long.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // The first is the check value of CRC-16/XMODEM, the others are what CLUSTER KEYSLOT says.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"a{foo}b{bar}"), 12182);
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
    }

    #[test]
    fn the_text_takes_the_place_of_the_name() {
        let script: &'static Script = Box::leak(Box::new(Script::new("return 1")));
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        let mut call = ScriptCall::new(script, 0, 1, 3);
        for part in ["k", "a", ""] {
            call.push(part.as_bytes());
        }
        let packed = |words: [&str; 6]| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            command.get_packed_command()
        };
        assert_eq!(call.with_text(), packed(["EVAL", "return 1", "1", "k", "a", ""]));
        assert_eq!(call.command(), packed(["EVALSHA", sha, "1", "k", "a", ""]));
        for _ in 0..1_000 {
            call.push(b"more");
        }
        let first = format!("*1006\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n");
        assert!(call.command().starts_with(first.as_bytes()));
        assert!(call.with_text().starts_with(b"*1006\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n"));
    }
}
