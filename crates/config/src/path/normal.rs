//! A request's path made plain, so that no other spelling of it gets around a rule.
//!
//! What can be said without percent signs is, except `/` (`%2F`) and `%` (`%25`) themselves: both
//! mean something in a path, and decoding them would make two different paths the same. A `%` that
//! starts nothing is a `%25`. So making plain what is plain changes nothing.
//!
//! Not everybody agrees on what `..`, `%2F`, `;`, `\` and the end of a name mean, nor on upper and
//! lower case. A path that has one of them has other readings beside the plain one.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::spelled::{cut, folded, is_odd};

/// A path with one spelling: it starts with `/`, no segment is empty, `.` or `..`, and it ends in
/// `/` only if that is all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Normal<'a> {
    path: Cow<'a, str>,
    /// The path in lower case, where that is another text and some servers take both for one path.
    folded: Option<Box<str>>,
    is_disputed: bool,
}

/// For which servers a path is read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Servers {
    /// Any that are common.
    #[default]
    Any,
    /// One that tells upper from lower case, and takes `;`, `\` and blanks for letters.
    Strict,
}

/// Whether letters are the same in upper and lower case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Case {
    Ignored,
    Kept,
}

impl Case {
    /// How rules are compared that may be for a request.
    pub(crate) fn compared(servers: Servers) -> Case {
        match servers {
            Servers::Any => Case::Ignored,
            Servers::Strict => Case::Kept,
        }
    }
}

impl<'a> Normal<'a> {
    /// Makes `path` plain: without allocation when it already is. It has no query.
    ///
    /// All of it, however long: since `/x/../x/../search` can be of any length, a bound would be a
    /// way around rules. The work grows with its length only, and doors bound that.
    pub(crate) fn new(path: &'a str, servers: Servers) -> Normal<'a> {
        let segments = path.strip_prefix('/');
        if segments.is_some_and(|segments| segments.is_empty() || is_usual(segments, servers)) {
            return Normal::known(path);
        }
        let decoded = decoded(path);
        let plain = resolved(&decoded, Dots::Followed);
        let is_disputed = has_dots(&decoded)
            || decoded.contains(SLASH)
            || without_host(&decoded, servers).is_some()
            || servers == Servers::Any && is_odd(&decoded);
        let path = if plain == path { Cow::Borrowed(path) } else { Cow::Owned(plain) };
        Normal { is_disputed, ..Normal::of(path, servers) }
    }

    /// A path that is known to be plain.
    pub(crate) fn known(path: &'a str) -> Normal<'a> {
        Normal { path: Cow::Borrowed(path), folded: None, is_disputed: false }
    }

    fn of(path: Cow<'a, str>, servers: Servers) -> Normal<'a> {
        let folded = (servers == Servers::Any).then(|| folded(&path)).flatten();
        Normal { path, folded: folded.map(String::into), is_disputed: false }
    }

    /// Whether it is what was sent, and all that it can be taken for.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.path, Cow::Borrowed(_)) && !self.is_disputed && self.folded.is_none()
    }

    /// Whether it has something that applications read in one way or another, beside case.
    pub(crate) fn is_disputed(&self) -> bool {
        self.is_disputed
    }

    /// What applications take `sent` for: at most four paths, or eight if it may begin with a host.
    ///
    /// First without parameters (`;x`) and what is cut from the ends of names, and with backslashes
    /// as slashes: keys are taken from that, so that what can be added at will is no new key. Then
    /// the plain one. Then as the first, with each `%2F` taken for a slash before, as proxies do
    /// that decode a path and send it on. Last decoded, with nothing cut, and with `.` and `..` as
    /// names like others, as they are for applications that do not know better.
    ///
    /// For a strict server: the plain one, the same with `%2F` as slashes, and both with `.` and
    /// `..` as names.
    ///
    /// What begins with two slashes begins with a host for applications that read it as a
    /// reference to a URL. All of these without that go before the others, since any name will do
    /// for a host.
    #[cold]
    pub(crate) fn readings(sent: &str, servers: Servers) -> SmallVec<[Normal<'a>; 4]> {
        let decoded = decoded(sent);
        let slashes = decoded.replace(SLASH, "/");
        let bare = [&decoded, &*slashes].map(|path| without_host(path, servers));
        let mut readings: SmallVec<[Normal<'a>; 4]> = SmallVec::new();
        let mut add = |paths: [String; 4]| {
            for path in paths {
                if readings.iter().all(|other| *other.path != path) {
                    readings.push(Normal::of(Cow::Owned(path), servers));
                }
            }
        };
        if bare != [None, None] {
            let [decoded, slashes] = [bare[0].unwrap_or(&decoded), bare[1].unwrap_or(&slashes)];
            add(ways(decoded, slashes, servers));
        }
        add(ways(&decoded, &slashes, servers));
        readings
    }

    /// The whole of it.
    pub(crate) fn text(&self, case: Case) -> &str {
        match (&self.folded, case) {
            (Some(folded), Case::Ignored) => folded,
            _ => &self.path,
        }
    }

    /// What stands between the slashes; nothing in `/`.
    pub(crate) fn segments(&self, case: Case) -> Segments<'_> {
        let text = self.text(case);
        let path = text.strip_prefix('/').unwrap_or(text);
        Segments { rest: (!path.is_empty()).then_some(path) }
    }
}

/// A decoded path by each way to read it; `slashes` is the same with each `%2F` as a slash.
fn ways(decoded: &str, slashes: &str, servers: Servers) -> [String; 4] {
    match servers {
        Servers::Any => [
            resolved(&cut(decoded), Dots::Followed),
            resolved(decoded, Dots::Followed),
            resolved(&cut(slashes), Dots::Followed),
            resolved(slashes, Dots::Kept),
        ],
        Servers::Strict => [
            resolved(decoded, Dots::Followed),
            resolved(slashes, Dots::Followed),
            resolved(decoded, Dots::Kept),
            resolved(slashes, Dots::Kept),
        ],
    }
}

/// What follows the first name of a path that begins with two slashes or more: `/login` in
/// `//x/login`, where `x` is the host to those who read it as a reference to a URL.
fn without_host(path: &str, servers: Servers) -> Option<&str> {
    let is_slash = |letter| letter == '/' || letter == '\\' && servers == Servers::Any;
    let names = path.trim_start_matches(is_slash);
    let begins_with_host = names.len().saturating_add(1) < path.len() && !names.is_empty();
    begins_with_host.then(|| names.find(is_slash).map_or("", |end| names.split_at(end).1))
}

/// The segments of a path, from either end. By bytes: most are a few letters long, and looking for
/// a character takes longer to begin with than they have.
#[derive(Clone, Debug)]
pub(crate) struct Segments<'n> {
    rest: Option<&'n str>,
}

impl<'n> Iterator for Segments<'n> {
    type Item = &'n str;

    #[inline]
    fn next(&mut self) -> Option<&'n str> {
        let rest = self.rest?;
        if let Some(at) = rest.bytes().position(|byte| byte == b'/') {
            self.rest = Some(&rest[at + 1..]);
            return Some(&rest[..at]);
        }
        self.rest.take()
    }
}

impl DoubleEndedIterator for Segments<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        if let Some(at) = rest.bytes().rposition(|byte| byte == b'/') {
            self.rest = Some(&rest[..at]);
            return Some(&rest[at + 1..]);
        }
        self.rest.take()
    }
}

/// What becomes of `.` and `..`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Dots {
    Followed,
    Kept,
}

/// A slash that was written as an escape, as it is left in a path that was decoded.
const SLASH: &str = "%2F";

fn has_dots(decoded: &str) -> bool {
    decoded.split('/').any(is_dots)
}

pub(super) fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Whether it can be read in one way only, and is what was sent. All requests come by here, so each
/// byte is looked at once, and segments only where one begins like an odd one.
fn is_usual(segments: &str, servers: Servers) -> bool {
    let mut before = b'/';
    for byte in segments.bytes() {
        let is_odd = match servers {
            Servers::Any => MAY_BE_ODD[usize::from(byte)] || before == b'.' && byte == b'/',
            Servers::Strict => byte == b'%',
        };
        if is_odd || before == b'/' && matches!(byte, b'/' | b'.') {
            return servers == Servers::Strict && has_no_odd(segments);
        }
        before = byte;
    }
    before != b'/' && (before != b'.' || servers == Servers::Strict)
}

/// Bytes that may be another spelling of something: all but lower case, digits and most signs.
const MAY_BE_ODD: [bool; 256] = {
    let mut odd = [true; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        odd[byte as usize] = byte.is_ascii_uppercase() || matches!(byte, b'%' | b';' | b'\\');
        byte += 1;
    }
    odd
};

#[cold]
fn has_no_odd(segments: &str) -> bool {
    let is_odd = |segment: &str| segment.is_empty() || is_dots(segment);
    !segments.contains('%') && !segments.split('/').any(is_odd)
}

/// Without empty segments, and without dots if they are followed.
fn resolved(path: &str, dots: Dots) -> String {
    let mut plain = String::with_capacity(path.len().saturating_add(1));
    for segment in path.split('/') {
        match segment {
            "" => {}
            "." if dots == Dots::Followed => {}
            ".." if dots == Dots::Followed => plain.truncate(plain.rfind('/').unwrap_or(0)),
            _ => {
                plain.push('/');
                plain.push_str(segment);
            }
        }
    }
    if plain.is_empty() {
        plain.push('/');
    }
    plain
}

/// Percent-decoded, but for `%2F`, `%25` and what is not UTF-8.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('%') else { return Cow::Borrowed(text) };
    let (plain, mut rest) = text.split_at(first);
    let mut decoded = String::with_capacity(text.len());
    decoded.push_str(plain);
    // Each round starts at a percent sign and ends before the next.
    while !rest.is_empty() {
        let taken = push_escape(&mut decoded, rest).unwrap_or_else(|| {
            decoded.push_str("%25");
            1
        });
        let (_, after) = rest.split_at(taken);
        let (plain, next) = after.split_at(after.find('%').unwrap_or(after.len()));
        decoded.push_str(plain);
        rest = next;
    }
    Cow::Owned(decoded)
}

/// Decodes the character that `text` starts with, and says how many bytes of `text` it was.
fn push_escape(decoded: &mut String, text: &str) -> Option<usize> {
    let first = escaped(text, 0)?;
    let mut bytes = [first, 0, 0, 0];
    let mut length = 1_usize;
    while let Some(slot) = bytes.get_mut(length) {
        let Some(byte) = escaped(text, length) else { break };
        *slot = byte;
        length = length.saturating_add(1);
    }
    let run = bytes.get(..length).unwrap_or(&[]);
    let character = run.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    match character {
        Some(character) if character != '/' && character != '%' => {
            decoded.push(character);
            Some(character.len_utf8().saturating_mul(3))
        }
        _ => {
            let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
            decoded.push('%');
            decoded.push(digit(first >> 4).to_ascii_uppercase());
            decoded.push(digit(first & 0xF).to_ascii_uppercase());
            Some(3)
        }
    }
}

/// The byte of the escape number `at` in a run of them.
fn escaped(text: &str, at: usize) -> Option<u8> {
    let start = at.checked_mul(3)?;
    let escape = text.as_bytes().get(start..start.checked_add(3)?)?;
    let &[b'%', high, low] = escape else { return None };
    let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|d| u8::try_from(d).ok());
    digit(high)?.checked_mul(16)?.checked_add(digit(low)?)
}
