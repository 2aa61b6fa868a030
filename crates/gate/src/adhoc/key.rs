//! Keys of plain limits: of any bytes, however long.

use std::hash::{Hash, Hasher};

use sha1_smol::Sha1;
use smallvec::SmallVec;
use tidegate_store::{Key, KeyPart, KeyText, KeyTooLong, Keys, StoreKey, TextKey};

use crate::gate::Home;
use crate::secret::KeySecret;

impl Home {
    /// The key of these parts, as the store wants it. The first is the tenant.
    #[inline]
    pub(super) fn adhoc_key(&self, parts: &[&[u8]]) -> Option<StoreKey> {
        let text = || text_key(parts, self.secret.as_ref());
        self.store.key_form().key(|keys| hash_key(keys, parts), text).ok()
    }
}

/// The parts of a key, hashed each with its length.
struct Hashed<'a>(&'a [&'a [u8]]);

impl Hash for Hashed<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One part is all that most keys have; the number of others says how many there are.
        if let [only] = self.0 {
            state.write(only);
        } else {
            state.write_usize(self.0.len());
            self.0.iter().for_each(|part| state.write(part));
        }
    }
}

#[inline]
pub(super) fn hash_key(keys: &Keys, parts: &[&[u8]]) -> Result<Key, KeyTooLong> {
    if fits(parts) { keys.key(Hashed(parts)) } else { long_hash(keys, parts) }
}

/// The key of parts that are too long to be hashed at once: piece by piece, each with what was
/// before it.
#[cold]
fn long_hash(keys: &Keys, parts: &[&[u8]]) -> Result<Key, KeyTooLong> {
    let mut key = keys.key(("long", parts.len()))?;
    for part in parts {
        key = keys.key((key, part.len()))?;
        for piece in part.chunks(PIECE_BYTES_MAX) {
            key = keys.key((key, piece))?;
        }
    }
    Ok(key)
}

fn text_key(parts: &[&[u8]], secret: Option<&KeySecret>) -> Result<TextKey, KeyTooLong> {
    match parts {
        // A pair, which no text is.
        [] => TextKey::new(("", "")),
        [only] => TextKey::new(Text(only, secret)),
        [first, rest @ ..] if !fits(rest) => {
            TextKey::in_tenant(Text(first, secret), Long(rest, secret))
        }
        [first, rest @ ..] => {
            let rest: SmallVec<[Text<'_>; 4]> =
                rest.iter().map(|part| Text(part, secret)).collect();
            TextKey::in_tenant(Text(first, secret), &rest[..])
        }
    }
}

/// Bytes as they are written: the text that they are, or their digest where they are none or long.
struct Text<'a>(&'a [u8], Option<&'a KeySecret>);

/// Parts that are too long together: one digest stands for all of them.
struct Long<'a>(&'a [&'a [u8]], Option<&'a KeySecret>);

impl KeyPart for Text<'_> {
    fn write(&self, text: &mut KeyText) {
        let Text(bytes, secret) = *self;
        // Two parts, so that no text is taken for a digest.
        match (str::from_utf8(bytes), secret) {
            (_, Some(secret)) => ("hmac", secret.name_of("plain", bytes)).write(text),
            (Ok(plain), None) if plain.len() <= PIECE_BYTES_MAX => plain.write(text),
            _ => ("sha1", Sha1::from(bytes).digest().to_string()).write(text),
        }
    }
}

impl KeyPart for Long<'_> {
    fn write(&self, text: &mut KeyText) {
        let mut sum = Sha1::new();
        for part in self.0 {
            // With their lengths: a part never runs into the next.
            sum.update(&part.len().to_be_bytes());
            sum.update(part);
        }
        // A pair in a pair, so that no list of texts is taken for it.
        let sum = sum.digest();
        match self.1 {
            Some(secret) => ("hmac", ("parts", secret.name_of("parts", &sum.bytes()))).write(text),
            None => ("sha1", ("parts", sum.to_string())).write(text),
        }
    }
}

/// Whether the parts are short enough for a store to make a key of them at once. Of longer ones it
/// is made piece by piece: clients write them, and there is no error to get out of a limit by.
#[inline]
fn fits(key: &[&[u8]]) -> bool {
    let bytes = key.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    bytes <= PIECE_BYTES_MAX
}

/// Bytes of parts that are taken at once: less than what stores take, for the marks between them.
const PIECE_BYTES_MAX: usize = 4_000;
