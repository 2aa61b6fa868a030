//! A script, and one call of it.
//!
//! A call is written down as the command that goes over the wire, so that sending it copies
//! nothing but the bytes themselves.

use redis::{Arg, Cmd};

use crate::flat::Sink;

/// A script and the name that servers know it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    sha: String,
}

/// One call of a script, ready to be sent.
#[derive(Debug)]
pub(crate) struct ScriptCall {
    pub(super) script: &'static Script,
    pub(super) slot: u16,
    pub(super) command: Cmd,
}

impl Script {
    pub(crate) fn new(text: impl Into<String>) -> Script {
        let text = text.into();
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Script { text, sha }
    }
}

impl ScriptCall {
    /// A call of `script` on so many keys, which all live in `slot`: they are pushed next, and then
    /// the arguments. About so many bytes in all.
    pub(crate) fn new(script: &'static Script, slot: u16, keys: usize, bytes: usize) -> ScriptCall {
        let mut command = Cmd::with_capacity(16 + 2 * keys, 64 + bytes);
        command.arg("EVALSHA").arg(&script.sha).arg(keys);
        ScriptCall { script, slot, command }
    }

    /// The same call with the script's text instead of its name: loads and runs it in one trip.
    pub(crate) fn with_text(&self) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(&self.script.text);
        for part in self.command.args_iter().skip(2) {
            if let Arg::Simple(bytes) = part {
                command.arg(bytes);
            }
        }
        command
    }
}

impl Sink for ScriptCall {
    fn push(&mut self, bytes: &[u8]) {
        self.command.arg(bytes);
    }
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
        assert_eq!(script.sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let mut call = ScriptCall::new(script, 0, 1, 3);
        for part in ["k", "a", "b"] {
            call.push(part.as_bytes());
        }
        let name = format!("EVALSHA {} 1 k a b", script.sha);
        assert_eq!(words(&call.command), name);
        assert_eq!(words(&call.with_text()), "EVAL return 1 1 k a b");
    }

    fn words(command: &Cmd) -> String {
        let word = |arg| match arg {
            Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => "?".to_owned(),
        };
        command.args_iter().map(word).collect::<Vec<_>>().join(" ")
    }
}
