//! Keys that mean the same on every node, and how they are named in Redis.
//!
//! A name is `prefix{tag}rule:key`. The tag chooses the slot of a cluster, so that all limits of a
//! tenant live together. Texts are kept readable; what could be mistaken for a mark of ours is
//! escaped, and what is long is replaced by its hash.

use std::fmt;

use tidegate_store::{Key, KeyTooLong};

use crate::digest::{self, DIGEST};

/// Whom we count, and with whom its limits live together.
///
/// ```
/// use tidegate_redis::FleetKey;
///
/// // A client that is its own tenant.
/// let client = FleetKey::new("ada")?;
/// // A user of a tenant: the limits of both are in the same slot of a cluster.
/// let user = FleetKey::in_tenant("acme", ("user", 7))?;
/// assert_ne!(client, user);
/// # Ok::<(), tidegate_store::KeyTooLong>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct FleetKey {
    tag: Box<str>,
    /// Empty where the key is the tenant itself.
    text: Box<str>,
}

/// Something that a key is made of: a text, a number, or several of them.
///
/// A number is its decimal text. Parts are told apart by marks that no part contains.
pub trait KeyPart {
    /// Writes the part.
    fn write(&self, text: &mut KeyText);
}

/// The text of a key while it is written.
#[derive(Debug, Default)]
pub struct KeyText {
    text: String,
    bytes: usize,
}

impl FleetKey {
    /// Texts longer than this are named by their hash.
    const READABLE_MAX: usize = 48;

    /// A key that is its own tenant.
    pub fn new(key: impl KeyPart) -> Result<FleetKey, KeyTooLong> {
        Ok(FleetKey { tag: readable(&key)?, text: "".into() })
    }

    /// A key of a tenant.
    pub fn in_tenant(tenant: impl KeyPart, key: impl KeyPart) -> Result<FleetKey, KeyTooLong> {
        // The mark says that a text follows, even an empty one.
        Ok(FleetKey { tag: readable(&tenant)?, text: format!(":{}", readable(&key)?).into() })
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn readable(part: &impl KeyPart) -> Result<Box<str>, KeyTooLong> {
    let mut text = KeyText::default();
    part.write(&mut text);
    KeyTooLong::check(text.bytes)?;
    if text.text.len() <= FleetKey::READABLE_MAX {
        return Ok(text.text.into());
    }
    // No text starts like this: the mark is escaped in all of them.
    let mut short = String::with_capacity(1 + DIGEST);
    short.push('#');
    digest::push(&mut short, text.text.as_bytes(), DIGEST);
    Ok(short.into())
}

impl KeyText {
    /// Adds a text; whatever is not plain is escaped.
    pub fn push(&mut self, part: &str) {
        self.bytes = self.bytes.saturating_add(part.len());
        if Key::BYTES_MAX < self.bytes {
            return;
        }
        if part.bytes().all(is_plain) {
            self.text.push_str(part);
            return;
        }
        for byte in part.bytes() {
            if is_plain(byte) {
                self.text.push(char::from(byte));
            } else {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digit = |nibble: u8| char::from(HEX[usize::from(nibble & 15)]);
                self.text.extend(['%', digit(byte >> 4), digit(byte)]);
            }
        }
    }
}

/// Whether a byte needs no escape: it can neither end a tag nor be taken for a mark.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~@+=,;!*'()&".contains(&byte)
}

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

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl KeyPart for $number {
            fn write(&self, text: &mut KeyText) {
                use fmt::Write as _;
                // Writing to a string cannot fail, and a number needs no escape.
                let _ = write!(text.text, "{self}");
                text.bytes += size_of::<$number>();
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! tuples {
    ($(($first:ident $(, $other:ident)+)),*) => {$(
        impl<$first: KeyPart $(, $other: KeyPart)+> KeyPart for ($first, $($other,)+) {
            #[expect(non_snake_case, reason = "one name for a type and its value")]
            fn write(&self, text: &mut KeyText) {
                let ($first, $($other,)+) = self;
                // Marked at both ends, so that tuples in tuples stay apart.
                text.text.push('(');
                $first.write(text);
                $(
                    text.text.push('/');
                    $other.write(text);
                )+
                text.text.push(')');
            }
        }
    )*};
}

tuples!((A, B), (A, B, C), (A, B, C, D));

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: impl KeyPart) -> String {
        FleetKey::new(key).unwrap().tag.into()
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
    fn names_stay_short_and_readable() {
        assert_eq!(name(("user", 7)), "(user/7)");
        assert_eq!(name("10.0.0.1"), "10.0.0.1");
        assert_eq!(name("x".repeat(4_096)).len(), 23);
        assert!(FleetKey::new("x".repeat(4_097)).is_err());
        assert!(FleetKey::in_tenant("acme", "x".repeat(4_097)).is_err());
    }

    #[test]
    fn a_tenant_is_not_its_own_user() {
        let tenant = FleetKey::new("acme").unwrap();
        let nobody = FleetKey::in_tenant("acme", "").unwrap();
        assert_ne!(tenant, nobody);
        assert_eq!(tenant.tag(), nobody.tag());
    }
}
