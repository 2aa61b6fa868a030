//! Keys that mean the same on every node, and how they are named in Redis.
//!
//! A name is `prefix{tag}rule:key`. The tag chooses the slot of a cluster, so that all limits of a
//! tenant live together. Texts are kept readable; what could be mistaken for a mark of ours is
//! escaped, and what is long is replaced by its hash.

#[doc(hidden)]
pub mod digest;
mod readable;

use std::fmt;

use arrayvec::ArrayString;
use sha1_smol::Sha1;

use self::digest::DIGEST;
use self::readable::Readable;
use crate::key::{Key, KeyTooLong};

/// Identifies who is counted, and the tenant that its limits live together with.
///
/// ```
/// use tidegate_store::TextKey;
///
/// // A client that is its own tenant.
/// let client = TextKey::new("ada")?;
/// // A user of a tenant: the limits of both are in the same slot of a cluster.
/// let user = TextKey::in_tenant("acme", ("user", 7))?;
/// assert_ne!(client, user);
/// # Ok::<(), tidegate_store::KeyTooLong>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TextKey {
    tag: Readable,
    /// Nothing where the key is the tenant itself.
    text: Option<Readable>,
}

/// Something that a key is made of: a text, a number, or several of them.
///
/// A number is its decimal text. Parts are distinguished by marks that no part contains.
pub trait KeyPart {
    /// Writes the part.
    fn write(&self, text: &mut KeyText);
}

/// The text of a key while it is written.
#[derive(Default)]
pub struct KeyText {
    text: Readable,
    /// The hash of all of it, once it is too long to be read.
    long: Option<Box<Sha1>>,
    bytes: usize,
}

impl TextKey {
    /// A key that is its own tenant.
    #[inline]
    pub fn new(key: impl KeyPart) -> Result<TextKey, KeyTooLong> {
        Ok(TextKey { tag: tag(&key)?, text: None })
    }

    /// A key of a tenant.
    #[inline]
    pub fn in_tenant(tenant: impl KeyPart, key: impl KeyPart) -> Result<TextKey, KeyTooLong> {
        Ok(TextKey { tag: tag(&tenant)?, text: Some(readable(&key)?) })
    }

    /// The name of its tenant, as it stands in names.
    pub fn tag(&self) -> &[u8] {
        self.tag.bytes()
    }

    /// Its own text, as it stands in names; nothing where it is the tenant itself.
    pub fn text(&self) -> Option<&[u8]> {
        self.text.as_ref().map(Readable::bytes)
    }

    /// The tenant and the text as they stand in names.
    pub fn bytes(&self) -> (&[u8], &[u8]) {
        (self.tag.bytes(), self.text().unwrap_or_default())
    }
}

/// A tenant's name. Empty braces would choose no slot, so nothing is a mark that no text is.
fn tag(part: &impl KeyPart) -> Result<Readable, KeyTooLong> {
    let mut tag = readable(part)?;
    if tag.bytes().is_empty() {
        tag.push(b"%");
    }
    Ok(tag)
}

fn readable(part: &impl KeyPart) -> Result<Readable, KeyTooLong> {
    let mut text = KeyText::default();
    part.write(&mut text);
    KeyTooLong::check(text.bytes)?;
    let Some(long) = text.long else { return Ok(text.text) };
    // No text starts like this: the mark is escaped in all of them.
    let mut digest = ArrayString::<DIGEST>::new();
    digest::push(&mut digest, long.digest().bytes(), DIGEST);
    let mut short = Readable::default();
    short.push(b"#");
    short.push(digest.as_bytes());
    Ok(short)
}

impl KeyText {
    /// Adds a text; whatever is not plain is escaped.
    #[inline]
    pub fn push(&mut self, part: &str) {
        self.bytes = self.bytes.saturating_add(part.len());
        if Key::BYTES_MAX < self.bytes {
            return;
        }
        if part.bytes().all(is_plain) {
            self.add(part.as_bytes());
        } else {
            self.push_escaped(part);
        }
    }

    fn push_escaped(&mut self, part: &str) {
        for byte in part.bytes() {
            if is_plain(byte) {
                self.add(&[byte]);
            } else {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digit = |nibble: u8| HEX[usize::from(nibble & 15)];
                self.add(&[b'%', digit(byte >> 4), digit(byte)]);
            }
        }
    }

    /// Adds a number: its digits need no escape.
    #[inline]
    fn number(&mut self, number: u64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        self.bytes = self.bytes.saturating_add(digits.len());
        if self.bytes <= Key::BYTES_MAX {
            self.add(digits);
        }
    }

    /// Adds what needs no escape.
    #[inline]
    fn add(&mut self, plain: &[u8]) {
        if self.long.is_some() || !self.text.push(plain) {
            self.add_long(plain);
        }
    }

    #[cold]
    fn add_long(&mut self, plain: &[u8]) {
        let text = &self.text;
        let start = || Box::new(Sha1::from(text.bytes()));
        self.long.get_or_insert_with(start).update(plain);
    }
}

/// Whether a byte needs no escape: it can neither end a tag nor be taken for a mark of ours. (What
/// follows a rule in a name stands behind a colon at a known place; colons elsewhere are plain.)
#[inline]
fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

/// `is_plain` of every byte, worked out beforehand: keys are made for every request.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        plain[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut others: &[u8] = b"-._~@+=,;:!*'&";
    while let [first, rest @ ..] = others {
        plain[*first as usize] = true;
        others = rest;
    }
    plain
};

impl KeyPart for str {
    fn write(&self, text: &mut KeyText) {
        text.push(self);
    }
}

impl KeyPart for String {
    fn write(&self, text: &mut KeyText) {
        text.push(self);
    }
}

impl<P: KeyPart + ?Sized> KeyPart for &P {
    fn write(&self, text: &mut KeyText) {
        (**self).write(text);
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyText").field("text", &self.text).finish_non_exhaustive()
    }
}

impl fmt::Write for KeyText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

macro_rules! small_numbers {
    ($($number:ty),*) => {$(
        impl KeyPart for $number {
            #[inline]
            fn write(&self, text: &mut KeyText) {
                text.number(u64::from(*self));
            }
        }
    )*};
}

small_numbers!(u8, u16, u32, u64);

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl KeyPart for $number {
            fn write(&self, text: &mut KeyText) {
                // A number needs no escape, and adding to a text cannot fail.
                let _ = fmt::Write::write_fmt(text, format_args!("{self}"));
            }
        }
    )*};
}

numbers!(u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! tuples {
    ($(($first:ident $(, $other:ident)+)),*) => {$(
        impl<$first: KeyPart $(, $other: KeyPart)+> KeyPart for ($first, $($other,)+) {
            #[expect(non_snake_case, reason = "one name for a type and its value")]
            fn write(&self, text: &mut KeyText) {
                let ($first, $($other,)+) = self;
                // Marked at both ends, so that tuples in tuples stay apart.
                text.add(b"(");
                $first.write(text);
                $(
                    text.add(b"/");
                    $other.write(text);
                )+
                text.add(b")");
            }
        }
    )*};
}

/// A list of parts is written as a tuple of them is; of one, too.
impl<P: KeyPart> KeyPart for [P] {
    fn write(&self, text: &mut KeyText) {
        text.add(b"(");
        for (at, part) in self.iter().enumerate() {
            if 0 < at {
                text.add(b"/");
            }
            part.write(text);
        }
        text.add(b")");
    }
}

tuples!((A, B), (A, B, C), (A, B, C, D));

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: impl KeyPart) -> String {
        String::from_utf8(TextKey::new(key).unwrap().tag().to_vec()).unwrap()
    }

    #[test]
    fn different_parts_have_different_names() {
        let mut names = vec![
            name("ab"),
            name(("ab", "c")),
            name(("a", "bc")),
            name(("a/bc", "")),
            name(("", "a/bc")),
            name(("a", "b", "c")),
            name((("a", "b"), "c")),
            name(("a", ("b", "c"))),
            name(("(a", "b)", "c")),
            name(("a:b", "c")),
            name("(a/b)"),
            name("a%2fb"),
            name("a/b"),
            name("}a"),
            name("#a"),
            name(""),
            name("ä"),
            name("x".repeat(48)),
            name("x".repeat(49)),
            name("y".repeat(49)),
        ];
        let count = names.len();
        assert!(names.iter().all(|name| !name.contains(['{', '}', ' ', '\n'])), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_number_is_its_text() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(name(number), name(number.to_string()));
            assert_eq!(name(("n", number)), name(("n", number.to_string())));
        }
    }

    #[test]
    fn what_needs_no_escape_is_what_it_always_was() {
        for byte in 0..=u8::MAX {
            let expected = byte.is_ascii_alphanumeric() || b"-._~@+=,;:!*'&".contains(&byte);
            assert_eq!(is_plain(byte), expected, "{byte}");
        }
    }

    #[test]
    fn names_stay_short_and_readable() {
        assert_eq!(name(("user", 7)), "(user/7)");
        assert_eq!(name(""), "%");
        assert_eq!(name("10.0.0.1"), "10.0.0.1");
        assert_eq!(name("x".repeat(4_096)).len(), 23);
        assert!(TextKey::new("x".repeat(4_097)).is_err());
        assert!(TextKey::in_tenant("acme", "x".repeat(4_097)).is_err());
    }

    #[test]
    fn a_tenant_is_not_its_own_user() {
        let tenant = TextKey::new("acme").unwrap();
        let nobody = TextKey::in_tenant("acme", "").unwrap();
        assert_ne!(tenant, nobody);
        assert_eq!(tenant.tag(), nobody.tag());
    }
}
