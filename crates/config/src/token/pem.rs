//! Public keys in PEM: `BEGIN PUBLIC KEY`, and `BEGIN RSA PUBLIC KEY` of older tools.
//!
//! Only the few shapes of DER that such keys have are read, and every byte has to be accounted for.

use super::base64::{Alphabet, decode};
use super::key::{Key, Material};
use crate::misread::{Misread, quoted};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const NULL: u8 = 0x05;
const OBJECT_ID: u8 = 0x06;

/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
/// 1.2.840.10045.2.1
const ELLIPTIC: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01];
/// 1.2.840.10045.3.1.7
const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
/// 1.3.132.0.34
const P384: &[u8] = &[0x2B, 0x81, 0x04, 0x00, 0x22];
/// 1.3.101.112
const ED25519: &[u8] = &[0x2B, 0x65, 0x70];

/// The public keys in `text`: at least one.
pub(super) fn keys(text: &str) -> Result<Vec<Key>, Misread> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let (label, after) = after.split_once("-----").ok_or_else(unreadable)?;
        let end = format!("-----END {label}-----");
        let (body, after) = after.split_once(&end).ok_or_else(unreadable)?;
        keys.push(Key { id: None, only: None, material: material(label, body)? });
        rest = after;
    }
    if keys.is_empty() { Err(unreadable()) } else { Ok(keys) }
}

fn material(label: &str, body: &str) -> Result<Material, Misread> {
    let letters: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = decode(&letters, Alphabet::Standard).ok_or_else(unreadable)?;
    let material = match label {
        "PUBLIC KEY" => subject_public_key(&bytes),
        "RSA PUBLIC KEY" => rsa_public_key(&bytes),
        "CERTIFICATE" => {
            let message = "this is a certificate, not a public key";
            let help = "write what `openssl x509 -pubkey -noout` prints of it";
            return Err(Misread::new(message, help));
        }
        _ if label.ends_with("PRIVATE KEY") => {
            let message = "this is a private key: it should not leave whoever signs";
            let help = "write what `openssl pkey -pubout` prints of it";
            return Err(Misread::new(message, help));
        }
        _ => {
            let message = format!("{} is not a public key", quoted(label));
            return Err(Misread::new(message, "write a `BEGIN PUBLIC KEY` block"));
        }
    };
    material.ok_or_else(|| {
        let help = "write an RSA key of 2048 to 8192 bits, EC P-256 or P-384, or Ed25519";
        Misread::new("the public key is of a kind that cannot be used", help)
    })
}

fn unreadable() -> Misread {
    let help = "write it from `-----BEGIN PUBLIC KEY-----` to `-----END PUBLIC KEY-----`";
    Misread::new("the public key cannot be read", help)
}

fn subject_public_key(bytes: &[u8]) -> Option<Material> {
    let mut fields = Fields::of_all(bytes)?;
    let mut kind = Fields(fields.take(SEQUENCE)?);
    let (0, key) = fields.take(BIT_STRING)?.split_first()? else { return None };
    fields.end()?;
    let name = kind.take(OBJECT_ID)?;
    if name == RSA {
        kind.take(NULL)?;
        kind.end()?;
        return rsa_public_key(key);
    }
    if name == ED25519 {
        kind.end()?;
        return Material::ed25519(key);
    }
    let curve = kind.take(OBJECT_ID).filter(|_| name == ELLIPTIC)?;
    kind.end()?;
    match Material::point(key)? {
        point @ Material::P256(_) if curve == P256 => Some(point),
        point @ Material::P384(_) if curve == P384 => Some(point),
        _ => None,
    }
}

fn rsa_public_key(bytes: &[u8]) -> Option<Material> {
    let mut numbers = Fields::of_all(bytes)?;
    let modulus = numbers.take(INTEGER)?;
    let exponent = numbers.take(INTEGER)?;
    numbers.end()?;
    Material::rsa(modulus, exponent)
}

/// The fields of a DER sequence that are still to be read.
struct Fields<'d>(&'d [u8]);

impl<'d> Fields<'d> {
    /// The fields of a sequence that is all there is.
    fn of_all(bytes: &'d [u8]) -> Option<Fields<'d>> {
        let mut outer = Fields(bytes);
        let inside = outer.take(SEQUENCE)?;
        outer.end()?;
        Some(Fields(inside))
    }

    /// The next field, if it has this tag.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let [found, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match (*first, rest) {
            (short @ 0..=0x7F, rest) => (usize::from(short), rest),
            (0x81, [length @ 0x80..=0xFF, rest @ ..]) => (usize::from(*length), rest),
            (0x82, [high @ 1..=0xFF, low, rest @ ..]) => {
                (usize::from(u16::from_be_bytes([*high, *low])), rest)
            }
            _ => return None,
        };
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(field)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
