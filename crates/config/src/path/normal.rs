//! A request's path made plain, so that no other spelling of it gets around a rule.
//!
//! What can be said without percent signs is, except `/` (`%2F`) and `%` (`%25`) themselves: both
//! mean something in a path, and decoding them would make two different paths the same. A `%` that
//! starts nothing is a `%25`. So making plain what is plain changes nothing.
//!
//! Not everybody agrees on what `..` and `%2F` mean. A path that has one of them has other readings
//! beside the plain one.

use std::borrow::Cow;

use smallvec::SmallVec;

/// A path with one spelling: it starts with `/`, no segment is empty, `.` or `..`, and it ends in
/// `/` only if that is all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Normal<'a> {
    path: Cow<'a, str>,
    is_disputed: bool,
}

impl<'a> Normal<'a> {
    /// Makes `path` plain: without allocation when it already is. It has no query.
    ///
    /// All of it, however long: since `/x/../x/../search` can be of any length, a bound would be a
    /// way around rules. The work grows with its length only, and doors bound that.
    pub(crate) fn new(path: &'a str) -> Normal<'a> {
        let segments = path.strip_prefix('/');
        if segments.is_some_and(|segments| segments.is_empty() || is_plain(segments)) {
            return Normal { path: Cow::Borrowed(path), is_disputed: false };
        }
        let decoded = decoded(path);
        let plain = resolved(&decoded, Dots::Followed);
        let path = if plain == path { Cow::Borrowed(path) } else { Cow::Owned(plain) };
        Normal { path, is_disputed: has_dots(&decoded) || decoded.contains(SLASH) }
    }

    /// A path that is known to be plain.
    pub(crate) fn known(path: &'a str) -> Normal<'a> {
        Normal { path: Cow::Borrowed(path), is_disputed: false }
    }

    /// Whether it is what was sent.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.path, Cow::Borrowed(_)) && !self.is_disputed
    }

    /// Whether it led through `.`, `..` or `%2F`, which applications read in one way or another.
    pub(crate) fn is_disputed(&self) -> bool {
        self.is_disputed
    }

    /// What else applications take `sent` for, of which this is the plain reading: at most three
    /// other paths.
    ///
    /// First with each `%2F` taken for a slash before dots are followed, as proxies do that decode
    /// a path and send it on. Then with `.` and `..` as names like others, as they are for
    /// applications that do not know better. Last with both: decoded, and nothing followed.
    #[cold]
    pub(crate) fn others(&self, sent: &str) -> SmallVec<[Normal<'static>; 3]> {
        let decoded = decoded(sent);
        let slashes = decoded.replace(SLASH, "/");
        let mut others: SmallVec<[Normal<'static>; 3]> = SmallVec::new();
        for (text, dots) in
            [(&*slashes, Dots::Followed), (&*decoded, Dots::Kept), (&*slashes, Dots::Kept)]
        {
            let path = resolved(text, dots);
            if path != *self.path && others.iter().all(|other| *other.path != *path) {
                others.push(Normal { path: Cow::Owned(path), is_disputed: false });
            }
        }
        others
    }

    /// The whole of it.
    pub(crate) fn as_str(&self) -> &str {
        &self.path
    }

    /// What stands between the slashes; nothing in `/`.
    pub(crate) fn segments(&self) -> Segments<'_> {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        Segments { rest: (!path.is_empty()).then_some(path) }
    }
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

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Whether nothing in it is odd. All requests come by here, so each byte is looked at once, and
/// segments only where one begins like an odd one.
fn is_plain(segments: &str) -> bool {
    let mut before = b'/';
    for byte in segments.bytes() {
        if byte == b'%' || before == b'/' && matches!(byte, b'/' | b'.') {
            return has_no_odd(segments);
        }
        before = byte;
    }
    before != b'/'
}

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
