//! Keys as they are written in Redis.
//!
//! A value that may be a secret (an API key, a cookie) is never written there: its digest is.

use sha1_smol::Sha1;
use smallvec::SmallVec;
use tidegate_config::{Part, Value};
use tidegate_redis::{FleetKey, KeyPart, KeyText};

/// The key of these parts. The first is whose it is: all that is counted of somebody lives together
/// in a cluster.
pub(crate) fn fleet_key(parts: &[Part<'_>]) -> Result<FleetKey, tidegate_store::KeyTooLong> {
    match parts {
        [] => FleetKey::new("everybody"),
        [only] => FleetKey::new(Text(only)),
        [first, rest @ ..] => {
            let rest: SmallVec<[Text<'_>; 4]> = rest.iter().map(Text).collect();
            FleetKey::in_tenant(Text(first), &rest[..])
        }
    }
}

/// A part as it is written: its source, and its value or the digest of it.
struct Text<'p>(&'p Part<'p>);

impl KeyPart for Text<'_> {
    fn write(&self, text: &mut KeyText) {
        let Part { source, value } = self.0;
        let source = source.to_string();
        match value {
            Value::Address(group) => (source, group.to_string()).write(text),
            Value::Missing => source.write(text),
            Value::Bytes(bytes) => match str::from_utf8(bytes) {
                Ok(plain) if !self.0.source.may_be_secret() => (source, plain).write(text),
                // Three, so that no value is taken for a digest.
                _ => (source, "sha1", Sha1::from(bytes).digest().to_string()).write(text),
            },
        }
    }
}
