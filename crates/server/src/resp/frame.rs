//! Bytes in, commands out: one pass, nothing copied, and no byte looked at again and again.
//!
//! What a check says depends only on the bytes before it, never on how they came in pieces, so a
//! command that arrives byte by byte gives the same result as one that arrives whole.
//!
//! A command that is too long is passed over to its end, so that those behind it are not lost.

use std::fmt;

use memchr::memchr;
use smallvec::SmallVec;

use super::inline;
use crate::limits::{
    RESP_ARGUMENT_BYTES_MAX, RESP_ARGUMENTS_MAX, RESP_COMMAND_BYTES_MAX, RESP_INLINE_BYTES_MAX,
    RESP_PASSED_ARGUMENTS_MAX, RESP_PASSED_BYTES_MAX,
};

/// The arguments of a command, its name first. Six are what a throttle has at most, and more would
/// make it too large to be moved by a few instructions.
pub type Arguments<'a> = SmallVec<[&'a [u8]; 6]>;

/// What stands at the start of some input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// What it is.
    pub found: Found<'a>,
    /// How many bytes it took.
    pub used: usize,
}

/// A command, or what is left of one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// The arguments of a command as it was sent. None for a blank line, which asks for nothing and
    /// gets no reply.
    Command(Arguments<'a>),
    /// A part of a command that is too long.
    Part,
    /// The end of such a command: it is refused.
    TooLong(Excess),
}

/// What there is too much of in a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Excess {
    /// It has too many arguments.
    Arguments,
    /// An argument is too long.
    Argument,
    /// It is too long as a whole.
    Command,
}

/// A command that is being passed over.
#[derive(Clone, Copy, Debug)]
struct Passing {
    excess: Excess,
    /// Arguments that are to come after the present one.
    count: usize,
    /// Bytes of the present one that are to come, with the end of its line.
    bytes: usize,
}

/// Reads commands from a buffer, and remembers how far it came in one that is not complete.
#[derive(Debug, Default)]
pub struct Frames {
    /// Arguments that are to come in all; none is known of between commands.
    count: usize,
    /// Where the arguments that are there stand, from the start of the command.
    spans: SmallVec<[(u32, u32); 8]>,
    /// How far the command has been read.
    at: usize,
    passing: Option<Passing>,
}

/// Why a connection cannot go on: where the next command begins is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Misframed {
    /// The number of arguments is none, or too large.
    Arguments,
    /// The length of an argument is none, or too large.
    ArgumentLength,
    /// An argument is not a bulk string.
    ArgumentType(u8),
    /// A bulk string goes on after its end.
    BulkEnd,
    /// Neither an array nor a word.
    Start(u8),
    /// A line without an end.
    InlineLength,
    /// A quote without another.
    Quotes,
    /// A quoted word with a backslash.
    Escape,
    /// A browser was made to talk to us: there is nobody to answer.
    CrossProtocol,
}

impl Frames {
    /// The command at the start of `input`, if all of it is there.
    ///
    /// If it is not, the next call has to be with the same bytes and more.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Option<Frame<'a>>, Misframed> {
        if let Some(passing) = self.passing {
            return self.pass(passing, input);
        }
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.array(input),
            Some(byte) if inline::may_start(*byte) => self.inline(input),
            Some(byte) => Err(Misframed::Start(*byte)),
        }
    }

    /// Whether the last call ended in the middle of a command that is passed over.
    pub fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    #[inline]
    fn array<'a>(&mut self, input: &'a [u8]) -> Result<Option<Frame<'a>>, Misframed> {
        if self.at == 0 {
            let Some((count, at)) = count(input)? else { return Ok(None) };
            if RESP_ARGUMENTS_MAX < count {
                return Ok(Some(self.begin_to_pass(Excess::Arguments, (count, 0), at)));
            }
            (self.count, self.at) = (count, at);
        }
        while self.spans.len() < self.count {
            let Some((length, start)) = bulk(input, self.at)? else { return Ok(None) };
            let end = start + length;
            if let Some(excess) = excess(length, end) {
                let rest = (self.count - self.spans.len() - 1, length + 2);
                return Ok(Some(self.begin_to_pass(excess, rest, start)));
            }
            match input.get(end..) {
                Some([b'\r', b'\n', ..]) => {}
                None | Some([] | [b'\r']) => return Ok(None),
                Some(_) => return Err(Misframed::BulkEnd),
            }
            // The bound on a command is far below the largest number of this width.
            let word = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
            self.spans.push((word(start), word(end)));
            self.at = end + 2;
        }
        let slice = |(start, end): &(u32, u32)| &input[*start as usize..*end as usize];
        let arguments = self.spans.iter().map(slice).collect();
        let frame = Frame { found: Found::Command(arguments), used: self.at };
        self.spans.clear();
        self.at = 0;
        Ok(Some(frame))
    }

    /// Passes over the rest of a command: so many arguments, and so many bytes before them.
    #[cold]
    fn begin_to_pass<'a>(
        &mut self,
        excess: Excess,
        (count, bytes): (usize, usize),
        used: usize,
    ) -> Frame<'a> {
        self.spans.clear();
        self.at = 0;
        self.passing = Some(Passing { excess, count, bytes });
        Frame { found: Found::Part, used }
    }

    #[cold]
    fn pass<'a>(
        &mut self,
        mut passing: Passing,
        input: &'a [u8],
    ) -> Result<Option<Frame<'a>>, Misframed> {
        let mut at = 0;
        loop {
            let text = passing.bytes.saturating_sub(2).min(input.len() - at);
            (at, passing.bytes) = (at + text, passing.bytes - text);
            while let (1..=2, Some(byte)) = (passing.bytes, input.get(at)) {
                if *byte != b"\n\r"[passing.bytes - 1] {
                    return Err(Misframed::BulkEnd);
                }
                (at, passing.bytes) = (at + 1, passing.bytes - 1);
            }
            if passing.bytes == 0 && passing.count == 0 {
                self.passing = None;
                return Ok(Some(Frame { found: Found::TooLong(passing.excess), used: at }));
            }
            let next = if passing.bytes == 0 { bulk(input, at)? } else { None };
            let Some((length, start)) = next else {
                self.passing = Some(passing);
                return Ok((0 < at).then_some(Frame { found: Found::Part, used: at }));
            };
            at = start;
            (passing.count, passing.bytes) = (passing.count - 1, length + 2);
        }
    }

    fn inline<'a>(&mut self, input: &'a [u8]) -> Result<Option<Frame<'a>>, Misframed> {
        let upto = input.len().min(RESP_INLINE_BYTES_MAX);
        let Some(end) = memchr(b'\n', &input[self.at..upto]) else {
            self.at = upto;
            return if upto == RESP_INLINE_BYTES_MAX {
                Err(Misframed::InlineLength)
            } else {
                Ok(None)
            };
        };
        let end = self.at + end;
        self.at = 0;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        Ok(Some(Frame { found: Found::Command(inline::words(line)?), used: end + 1 }))
    }
}

/// The number of arguments, and where the first begins. Fewer than none are none.
#[inline]
fn count(input: &[u8]) -> Result<Option<(usize, usize)>, Misframed> {
    if input.get(1) == Some(&b'-') {
        let negative = number(input, 2, RESP_PASSED_ARGUMENTS_MAX, Misframed::Arguments)?;
        return Ok(negative.map(|(_, at)| (0, at)));
    }
    number(input, 1, RESP_PASSED_ARGUMENTS_MAX, Misframed::Arguments)
}

/// What there is too much of, with an argument of this length that ends here.
#[inline]
fn excess(length: usize, end: usize) -> Option<Excess> {
    if RESP_ARGUMENT_BYTES_MAX < length {
        return Some(Excess::Argument);
    }
    (RESP_COMMAND_BYTES_MAX < end + 2).then_some(Excess::Command)
}

/// How long the bulk string at `at` is, and where its bytes begin.
#[inline]
fn bulk(input: &[u8], at: usize) -> Result<Option<(usize, usize)>, Misframed> {
    match input.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(other) => return Err(Misframed::ArgumentType(*other)),
    }
    number(input, at + 1, RESP_PASSED_BYTES_MAX, Misframed::ArgumentLength)
}

/// The number at `at`, and what comes after its line. It is refused at the first byte that makes
/// it wrong.
#[inline]
fn number(
    input: &[u8],
    at: usize,
    max: usize,
    wrong: Misframed,
) -> Result<Option<(usize, usize)>, Misframed> {
    let mut value = 0;
    for (place, byte) in (at..).zip(&input[at.min(input.len())..]) {
        match byte {
            // As Redis has it: a number has one spelling.
            b'0'..=b'9' if place == at || value != 0 => {
                value = value * 10 + usize::from(byte - b'0');
                if max < value {
                    return Err(wrong);
                }
            }
            b'\r' if at < place => {
                return match input.get(place + 1) {
                    None => Ok(None),
                    Some(b'\n') => Ok(Some((value, place + 2))),
                    Some(_) => Err(wrong),
                };
            }
            _ => return Err(wrong),
        }
    }
    Ok(None)
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Arguments => {
                write!(f, "a command takes at most {RESP_ARGUMENTS_MAX} arguments")
            }
            Excess::Argument => write!(
                f,
                "an argument takes at most {RESP_ARGUMENT_BYTES_MAX} bytes; send the hash of a \
                 longer key"
            ),
            Excess::Command => {
                write!(f, "a command takes at most {RESP_COMMAND_BYTES_MAX} bytes in all")
            }
        }
    }
}

impl fmt::Display for Misframed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Misframed::Arguments => f.write_str("invalid multibulk length"),
            Misframed::ArgumentLength => f.write_str("invalid bulk length"),
            Misframed::ArgumentType(got) => {
                write!(f, "expected '$', got '{}'", got.escape_ascii())
            }
            Misframed::BulkEnd => f.write_str("expected the end of a bulk string"),
            Misframed::Start(got) => {
                write!(f, "expected '*' or a command, got '{}'", got.escape_ascii())
            }
            Misframed::InlineLength => f.write_str("too big inline request"),
            Misframed::Quotes => f.write_str("unbalanced quotes in request"),
            Misframed::Escape => {
                f.write_str("no escapes in an inline request; send it as an array of bulk strings")
            }
            Misframed::CrossProtocol => f.write_str("this is not HTTP"),
        }
    }
}

impl std::error::Error for Misframed {}

#[cfg(test)]
mod tests;
