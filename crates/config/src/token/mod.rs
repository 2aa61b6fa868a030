//! Claims of a JSON Web Token, once its signature has been checked.
//!
//! Signatures are `ring`'s; what surrounds them is little, and is here, because time is a parameter
//! and no library may choose its arithmetic for the whole process.

mod base64;
mod jwks;
mod key;
mod pem;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use tidegate_core::{Span, Tick};

use self::base64::{Alphabet, decode, decode_signature};
use self::key::{Algorithm, Key, Material, Signed};
use crate::misread::Misread;

/// The most bytes of a token.
const BYTES_MAX: usize = 8 << 10;
/// The most keys.
const KEYS_MAX: usize = 64;
/// The most keys that a token is tried with: anybody can send one, and each takes its time.
const TRIES_MAX: usize = 8;

/// Which tokens to believe.
#[derive(Clone)]
pub(crate) struct TokenSettings {
    pub(crate) keys: Vec<KeySource>,
    /// Who may have issued a token; anybody when empty.
    pub(crate) issuer: Vec<String>,
    /// Which audiences a token may be for; any when empty.
    pub(crate) audience: Vec<String>,
    /// How wrong the issuer's clock may be.
    pub(crate) leeway: Span,
    /// Believe tokens that never expire.
    pub(crate) allow_without_expiry: bool,
    /// Believe tokens without looking at their signature: somebody else already has.
    pub(crate) dangerously_trust_unverified: bool,
}

/// Where a key comes from.
#[derive(Clone)]
pub(crate) enum KeySource {
    /// The secret of HS256, HS384 and HS512.
    Secret(Vec<u8>),
    /// Public keys in PEM.
    Pem(String),
    /// A JSON Web Key Set.
    Jwks(String),
}

/// Reads tokens.
#[derive(Clone)]
pub(crate) struct Tokens {
    settings: TokenSettings,
    keys: Vec<Key>,
}

/// What a token says about who sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claims {
    claims: Map<String, Value>,
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rejected {
    TooLong,
    Malformed,
    /// It says that it is not signed.
    AlgorithmNone,
    /// It is signed in a way that its key is not for.
    WrongAlgorithm,
    UnknownKey,
    /// It does not say which of many keys it is signed with.
    TooManyKeys,
    WrongSignature,
    NoExpiry,
    Expired,
    NotYet,
    WrongIssuer,
    WrongAudience,
}

impl Default for TokenSettings {
    fn default() -> TokenSettings {
        TokenSettings {
            keys: Vec::new(),
            issuer: Vec::new(),
            audience: Vec::new(),
            leeway: Span::from_secs(30),
            allow_without_expiry: false,
            dangerously_trust_unverified: false,
        }
    }
}

impl Tokens {
    pub(crate) fn new(mut settings: TokenSettings) -> Result<Tokens, Misread> {
        let mut keys = Vec::new();
        for source in std::mem::take(&mut settings.keys) {
            keys.extend(source.keys()?);
        }
        if KEYS_MAX < keys.len() {
            let message = format!("there are {} keys", keys.len());
            return Err(Misread::new(message, "write at most 64"));
        }
        let unnamed = keys.iter().filter(|key| key.id.is_none()).count();
        if TRIES_MAX < unnamed {
            let message = format!("{unnamed} keys have no name, and each token is tried with all");
            return Err(Misread::new(
                message,
                "write at most 8, or a key set with a `kid` for each",
            ));
        }
        match (keys.is_empty(), settings.dangerously_trust_unverified) {
            (true, false) => {
                let message = "there is no key to verify tokens with";
                Err(Misread::new(message, "write a secret, a public key or a key set"))
            }
            (false, true) => {
                let message = "there are keys, and yet tokens are trusted unverified";
                Err(Misread::new(message, "remove one or the other"))
            }
            _ => Ok(Tokens { settings, keys }),
        }
    }

    /// What `token` claims at the moment `now`, if it is to be believed.
    pub(crate) fn claims(&self, token: &[u8], now: Tick) -> Result<Claims, Rejected> {
        if BYTES_MAX < token.len() {
            return Err(Rejected::TooLong);
        }
        let parts = Parts::of(token).ok_or(Rejected::Malformed)?;
        self.verify(&parts)?;
        let claims = object(&parts.claims).ok_or(Rejected::Malformed)?;
        self.in_time(&claims, now)?;
        self.between_the_right_parties(&claims)?;
        Ok(Claims { claims })
    }

    fn verify(&self, parts: &Parts<'_>) -> Result<(), Rejected> {
        let name = parts.header.get("alg").and_then(Value::as_str).ok_or(Rejected::Malformed)?;
        if name.eq_ignore_ascii_case("none") {
            return Err(Rejected::AlgorithmNone);
        }
        // We know no extension, and one that is critical must not be passed over.
        if parts.header.contains_key("crit") {
            return Err(Rejected::Malformed);
        }
        if self.settings.dangerously_trust_unverified {
            return Ok(());
        }
        let algorithm = Algorithm::named(name).ok_or(Rejected::WrongAlgorithm)?;
        let id = match parts.header.get("kid") {
            Some(id) => Some(id.as_str().ok_or(Rejected::Malformed)?),
            None => None,
        };
        let known = || self.keys.iter().filter(|key| key.answers_to(id));
        let tried = || known().filter(|key| key.allows(algorithm));
        let signed = Signed { message: parts.message, signature: &parts.signature };
        match tried().count() {
            0 if known().next().is_none() => Err(Rejected::UnknownKey),
            0 => Err(Rejected::WrongAlgorithm),
            1..=TRIES_MAX if tried().any(|key| key.verifies(algorithm, signed)) => Ok(()),
            1..=TRIES_MAX => Err(Rejected::WrongSignature),
            _ => Err(Rejected::TooManyKeys),
        }
    }

    fn in_time(&self, claims: &Map<String, Value>, now: Tick) -> Result<(), Rejected> {
        let leeway = self.settings.leeway;
        match claims.get("exp") {
            None if self.settings.allow_without_expiry => {}
            None => return Err(Rejected::NoExpiry),
            Some(expiry) if moment(expiry)?.after(leeway) <= now => return Err(Rejected::Expired),
            Some(_) => {}
        }
        match claims.get("nbf") {
            Some(start) if now.after(leeway) < moment(start)? => Err(Rejected::NotYet),
            _ => Ok(()),
        }
    }

    fn between_the_right_parties(&self, claims: &Map<String, Value>) -> Result<(), Rejected> {
        let TokenSettings { issuer, audience, .. } = &self.settings;
        let is_one_of = |names: &[String], value: &Value| {
            value.as_str().is_some_and(|value| names.iter().any(|name| name == value))
        };
        if !issuer.is_empty() && !claims.get("iss").is_some_and(|iss| is_one_of(issuer, iss)) {
            return Err(Rejected::WrongIssuer);
        }
        let is_for_us = match claims.get("aud") {
            _ if audience.is_empty() => true,
            Some(Value::Array(names)) => names.iter().any(|name| is_one_of(audience, name)),
            Some(name) => is_one_of(audience, name),
            None => false,
        };
        if is_for_us { Ok(()) } else { Err(Rejected::WrongAudience) }
    }
}

impl KeySource {
    fn keys(&self) -> Result<Vec<Key>, Misread> {
        match self {
            KeySource::Pem(text) => pem::keys(text),
            KeySource::Jwks(text) => jwks::keys(text),
            KeySource::Secret(secret) if secret.trim_ascii().is_empty() => Err(Misread::new(
                "the secret is empty",
                "write the secret that tokens are signed with",
            )),
            KeySource::Secret(secret) if secret.trim_ascii_start().starts_with(b"-----BEGIN") => {
                let message = "the secret is a key in PEM, and everybody may know it";
                Err(Misread::new(message, "write it as a public key instead"))
            }
            KeySource::Secret(secret) => {
                let material = Material::Secret(secret.clone());
                Ok(vec![Key { id: None, only: None, material }])
            }
        }
    }
}

/// A token taken apart.
struct Parts<'t> {
    header: Map<String, Value>,
    claims: Vec<u8>,
    signature: Vec<u8>,
    /// What was signed: all but the signature.
    message: &'t [u8],
}

impl<'t> Parts<'t> {
    fn of(token: &'t [u8]) -> Option<Parts<'t>> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let dot = 1_usize;
        let message = token.len().checked_sub(signature.len())?.checked_sub(dot)?;
        if parts.next().is_some() {
            return None;
        }
        Some(Parts {
            header: object(&decode(header, Alphabet::Url)?)?,
            claims: decode(claims, Alphabet::Url)?,
            signature: decode_signature(signature)?,
            message: token.get(..message)?,
        })
    }
}

fn object(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(json).ok()
}

/// A moment in seconds of Unix time, as tokens have it: whole or not.
fn moment(seconds: &Value) -> Result<Tick, Rejected> {
    if let Some(seconds) = seconds.as_u64() {
        return Ok(Tick::from_micros(seconds.saturating_mul(1_000_000)));
    }
    let seconds = seconds.as_f64().ok_or(Rejected::Malformed)?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(since) => Ok(Tick::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))),
        Err(_) if seconds < 0.0 => Ok(Tick::from_micros(0)),
        Err(_) => Ok(Tick::MAX),
    }
}

impl Claims {
    /// The claim at `path`, such as `sub` or `realm.tenant`: of a text, a number, true or false.
    ///
    /// A claim whose own name has dots, such as `https://example.org/tenant`, comes first.
    pub(crate) fn get(&self, path: &str) -> Option<Cow<'_, str>> {
        let mut claims = &self.claims;
        let mut path = path;
        let found = loop {
            if let Some(found) = claims.get(path) {
                break found;
            }
            let (name, rest) = path.split_once('.')?;
            claims = claims.get(name)?.as_object()?;
            path = rest;
        };
        match found {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl fmt::Debug for Tokens {
    /// Leaves the keys out: some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::TooLong => "the token has more than 8192 bytes: send a shorter one",
            Rejected::Malformed => "the token is malformed: send it as it was issued",
            Rejected::AlgorithmNone => "the token is not signed: send one that is",
            Rejected::WrongAlgorithm => "the token's algorithm is not one of its key: sign anew",
            Rejected::UnknownKey => "the token's key is not known: add it, or sign with another",
            Rejected::TooManyKeys => "the token does not name its key: sign it with a `kid`",
            Rejected::WrongSignature => "the token's signature is wrong: send it as it was issued",
            Rejected::NoExpiry => "the token never expires: send one with `exp`",
            Rejected::Expired => "the token has expired: get a new one",
            Rejected::NotYet => "the token is not valid yet: wait, or check the issuer's clock",
            Rejected::WrongIssuer => "the token is from another issuer: get one from the right one",
            Rejected::WrongAudience => "the token is for somebody else: get one for this service",
        })
    }
}

impl std::error::Error for Rejected {}

#[cfg(test)]
pub(crate) use self::base64::encode;

#[cfg(test)]
mod tests;
