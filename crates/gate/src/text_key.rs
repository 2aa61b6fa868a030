//! Keys as they are written in a store that is shared.
//!
//! A value that may be a secret (an API key, a cookie) is never written there: its digest is. With
//! a secret of the operator's no value is: see [`KeySecret`].

use sha1_smol::Sha1;
use smallvec::SmallVec;
use tidegate_config::{Part, Value};
use tidegate_store::{KeyPart, KeyText, KeyTooLong, TextKey};

use crate::secret::KeySecret;

/// The key of these parts. The first is whose it is: all that is counted of somebody lives together
/// in a cluster.
pub(crate) fn text_key(
    parts: &[Part<'_>],
    secret: Option<&KeySecret>,
) -> Result<TextKey, KeyTooLong> {
    match parts {
        [] => TextKey::new("everybody"),
        [only] => TextKey::new(Text(only, secret)),
        [first, rest @ ..] => {
            let rest: SmallVec<[Text<'_>; 4]> = rest.iter().map(|it| Text(it, secret)).collect();
            TextKey::in_tenant(Text(first, secret), &rest[..])
        }
    }
}

/// A part as it is written: its source, and its value or the digest of it.
struct Text<'p>(&'p Part<'p>, Option<&'p KeySecret>);

impl KeyPart for Text<'_> {
    fn write(&self, text: &mut KeyText) {
        let Text(Part { source, value }, secret) = self;
        let may_be_secret = source.may_be_secret();
        let source = source.to_string();
        // Three parts, so that no value is taken for a digest.
        match (value, secret) {
            (Value::Missing, _) => source.write(text),
            (Value::Address(group), None) => (source, group.to_string()).write(text),
            (Value::Address(group), Some(secret)) => {
                let name = secret.name_of(&source, group.to_string().as_bytes());
                (source, "hmac", name).write(text);
            }
            (Value::Bytes(bytes), Some(secret)) => {
                let name = secret.name_of(&source, bytes);
                (source, "hmac", name).write(text);
            }
            (Value::Bytes(bytes), None) => match str::from_utf8(bytes) {
                Ok(plain) if !may_be_secret => (source, plain).write(text),
                _ => (source, "sha1", Sha1::from(bytes).digest().to_string()).write(text),
            },
        }
    }
}
