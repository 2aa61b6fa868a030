//! Keys in a JSON Web Key Set (RFC 7517).
//!
//! Issuers publish keys of many kinds and uses in one set. What cannot verify tokens is passed
//! over; a key that can, but is damaged, is a mistake.

use serde_json::{Map, Value};

use super::base64::{Alphabet, decode};
use super::key::{Algorithm, Key, Material};
use crate::misread::{Misread, quoted};

/// The keys of a set that can verify tokens: at least one.
pub(super) fn keys(text: &str) -> Result<Vec<Key>, Misread> {
    let help = "write a JSON Web Key Set, as in `{\"keys\": [{\"kty\": \"RSA\", ...}]}`";
    let set: Value = serde_json::from_str(text)
        .map_err(|error| Misread::new(format!("the key set is not JSON: {error}"), help))?;
    let Some(entries) = set.get("keys").and_then(Value::as_array) else {
        return Err(Misread::new("the key set has no `keys`", help));
    };
    let mut keys = Vec::new();
    for entry in entries {
        let entry = entry
            .as_object()
            .ok_or_else(|| Misread::new("the key set has a key that is not an object", help))?;
        keys.extend(key(entry)?);
    }
    if keys.is_empty() {
        let help = "add an RSA, EC P-256 or P-384, Ed25519 or symmetric key that is for signatures";
        return Err(Misread::new("the key set has no key that verifies tokens", help));
    }
    Ok(keys)
}

/// A key, or none if it is for something else.
fn key(entry: &Map<String, Value>) -> Result<Option<Key>, Misread> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    let operations = entry.get("key_ops").and_then(Value::as_array);
    if operations.is_some_and(|operations| !operations.iter().any(|name| name == "verify")) {
        return Ok(None);
    }
    let only = text("alg").map(Algorithm::named);
    let number = |name: &str| decode(text(name)?.as_bytes(), Alphabet::Url);
    let material = match (text("kty"), text("crv")) {
        (Some("oct"), _) => number("k").filter(|secret| !secret.is_empty()).map(Material::Secret),
        (Some("RSA"), _) => number("n").zip(number("e")).and_then(|(n, e)| Material::rsa(&n, &e)),
        (Some("EC"), Some("P-256")) => point(number("x"), number("y"), 32),
        (Some("EC"), Some("P-384")) => point(number("x"), number("y"), 48),
        (Some("OKP"), Some("Ed25519")) => number("x").and_then(|x| Material::ed25519(&x)),
        _ => return Ok(None),
    };
    let id = text("kid").map(str::to_owned);
    let material = material.ok_or_else(|| {
        let shown = id.as_deref().map_or_else(|| "without a `kid`".to_owned(), quoted);
        let help = "copy the set again; RSA keys have 2048 to 8192 bits";
        Misread::new(format!("the key {shown} cannot be used"), help)
    })?;
    let key = Key { id, only: only.flatten(), material };
    // An algorithm that we do not know, or that is not of this kind, is not for signatures.
    let fits = only.is_none_or(|only| only.is_some_and(|only| key.allows(only)));
    Ok(fits.then_some(key))
}

fn point(x: Option<Vec<u8>>, y: Option<Vec<u8>>, length: usize) -> Option<Material> {
    let (x, y) = x.zip(y).filter(|(x, y)| x.len() == length && y.len() == length)?;
    Material::point(&[&[4], x.as_slice(), y.as_slice()].concat())
}
