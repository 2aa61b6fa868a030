//! A key, and the algorithms that it may be used with.
//!
//! The kind of the key decides, never the token: a public key is no secret, so it must not be taken
//! for one because a token says `HS256`.

use ring::{hmac, signature};

/// How a token is signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// Something to verify signatures with.
#[derive(Clone)]
pub(super) struct Key {
    /// Tokens that name another key are not for this one.
    pub(super) id: Option<String>,
    /// The only algorithm it is meant for, if it says so.
    pub(super) only: Option<Algorithm>,
    pub(super) material: Material,
}

/// The key itself.
#[derive(Clone)]
pub(super) enum Material {
    Secret(Vec<u8>),
    /// Big-endian, without leading zeros.
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// What an algorithm does with a key of its kind.
enum Check {
    Hmac(hmac::Algorithm),
    Rsa(&'static signature::RsaParameters),
    Public(&'static dyn signature::VerificationAlgorithm),
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "HS256" => Algorithm::Hs256,
            "HS384" => Algorithm::Hs384,
            "HS512" => Algorithm::Hs512,
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "PS256" => Algorithm::Ps256,
            "PS384" => Algorithm::Ps384,
            "PS512" => Algorithm::Ps512,
            "ES256" => Algorithm::Es256,
            "ES384" => Algorithm::Es384,
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }
}

impl Key {
    /// Whether a token that names the key `id`, or none, may be for this one.
    pub(super) fn answers_to(&self, id: Option<&str>) -> bool {
        id.is_none() || self.id.is_none() || self.id.as_deref() == id
    }

    pub(super) fn allows(&self, algorithm: Algorithm) -> bool {
        self.only.is_none_or(|only| only == algorithm) && self.material.check(algorithm).is_some()
    }

    pub(super) fn verifies(&self, algorithm: Algorithm, signed: Signed<'_>) -> bool {
        self.allows(algorithm) && self.material.verifies(algorithm, signed)
    }
}

/// What was signed, and with what.
#[derive(Clone, Copy)]
pub(super) struct Signed<'t> {
    pub(super) message: &'t [u8],
    pub(super) signature: &'t [u8],
}

impl Material {
    /// The only place where kinds and algorithms meet.
    fn check(&self, algorithm: Algorithm) -> Option<Check> {
        use Algorithm as A;
        use Material as M;
        Some(match (self, algorithm) {
            (M::Secret(_), A::Hs256) => Check::Hmac(hmac::HMAC_SHA256),
            (M::Secret(_), A::Hs384) => Check::Hmac(hmac::HMAC_SHA384),
            (M::Secret(_), A::Hs512) => Check::Hmac(hmac::HMAC_SHA512),
            (M::Rsa { .. }, A::Rs256) => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            (M::Rsa { .. }, A::Rs384) => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            (M::Rsa { .. }, A::Rs512) => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            (M::Rsa { .. }, A::Ps256) => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            (M::Rsa { .. }, A::Ps384) => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            (M::Rsa { .. }, A::Ps512) => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            (M::P256(_), A::Es256) => Check::Public(&signature::ECDSA_P256_SHA256_FIXED),
            (M::P384(_), A::Es384) => Check::Public(&signature::ECDSA_P384_SHA384_FIXED),
            (M::Ed25519(_), A::EdDsa) => Check::Public(&signature::ED25519),
            _ => return None,
        })
    }

    fn verifies(&self, algorithm: Algorithm, signed: Signed<'_>) -> bool {
        let Signed { message, signature } = signed;
        match (self, self.check(algorithm)) {
            (Material::Secret(secret), Some(Check::Hmac(algorithm))) => {
                hmac::verify(&hmac::Key::new(algorithm, secret), message, signature).is_ok()
            }
            (Material::Rsa { modulus, exponent }, Some(Check::Rsa(parameters))) => {
                let key = signature::RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }
            (
                Material::P256(key) | Material::P384(key) | Material::Ed25519(key),
                Some(Check::Public(algorithm)),
            ) => {
                let key = signature::UnparsedPublicKey::new(algorithm, key);
                key.verify(message, signature).is_ok()
            }
            _ => false,
        }
    }

    /// An RSA key of its numbers, if it is neither too weak nor too long to verify.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Material> {
        let plain = |number: &[u8]| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.get(zeros..).unwrap_or(&[]).to_vec()
        };
        let (modulus, exponent) = (plain(modulus), plain(exponent));
        // 2,048 to 8,192 bits.
        let strong = match modulus.first() {
            Some(0x80..) => (256..=1_024).contains(&modulus.len()),
            _ => (257..=1_024).contains(&modulus.len()),
        };
        (strong && !exponent.is_empty()).then_some(Material::Rsa { modulus, exponent })
    }

    /// The point of a curve, by the length of its coordinates.
    pub(super) fn point(point: &[u8]) -> Option<Material> {
        match (point.first(), point.len()) {
            (Some(4), 65) => Some(Material::P256(point.to_vec())),
            (Some(4), 97) => Some(Material::P384(point.to_vec())),
            _ => None,
        }
    }

    pub(super) fn ed25519(key: &[u8]) -> Option<Material> {
        (key.len() == 32).then(|| Material::Ed25519(key.to_vec()))
    }
}
