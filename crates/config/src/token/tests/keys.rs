//! Where keys come from, which of them a token is for, and those that cannot be used.

use ring::rand::{self, SystemRandom};
use ring::signature::{self, KeyPair as _};

use super::*;

/// A key set with keys of ring, and a token of each key, with its `kid`.
fn key_set() -> (Value, Vec<(&'static str, String)>) {
    let random = SystemRandom::new();
    let claims = json!({"sub": "ada", "exp": NOW + 60});
    let p256 = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = signature::EcdsaKeyPair::generate_pkcs8(p256, &random).unwrap();
    let elliptic = signature::EcdsaKeyPair::from_pkcs8(p256, pkcs8.as_ref(), &random).unwrap();
    let (x, y) = elliptic.public_key().as_ref()[1..].split_at(32);
    let pkcs8 = signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let edwards = signature::Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let secret: [u8; 32] = rand::generate(&random).unwrap().expose();
    let set = json!({"keys": [
        {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "alg": "ES256",
            "x": encode(x), "y": encode(y)},
        {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(edwards.public_key().as_ref())},
        {"kty": "oct", "kid": "secret", "alg": "HS512", "k": encode(&secret)},
        // Not for us.
        {"kty": "RSA", "use": "enc", "n": "", "e": ""},
        {"kty": "OKP", "crv": "X25519", "x": ""},
        {"kty": "oct", "kid": "wrap", "alg": "A256KW", "k": encode(&secret)},
        {"kty": "oct", "kid": "signs", "key_ops": ["sign"], "k": encode(&secret)},
        {"kty": "post-quantum"},
    ]});
    let header = |algorithm, id| json!({"alg": algorithm, "kid": id});
    let from_elliptic = signed_with(&header("ES256", "ec"), &claims, |message| {
        elliptic.sign(&random, message).unwrap().as_ref().to_vec()
    });
    let with_edwards = signed_with(&header("EdDSA", "ed"), &claims, |message| {
        edwards.sign(message).as_ref().to_vec()
    });
    let by_secret = hmac_token(&secret, hmac::HMAC_SHA512, &header("HS512", "secret"), &claims);
    // The algorithm that the set gives to the key is not this one.
    let other = hmac_token(&secret, hmac::HMAC_SHA256, &header("HS256", "secret"), &claims);
    (
        set,
        vec![("ec", from_elliptic), ("ed", with_edwards), ("secret", by_secret), ("other", other)],
    )
}

#[test]
fn the_key_id_selects_the_key() {
    let (set, made) = key_set();
    let jwks = tokens(vec![KeySource::Jwks(set.to_string())]);
    for (name, token) in &made {
        let expected = if *name == "other" { Err(Rejected::WrongAlgorithm) } else { Ok("ada") };
        check(&jwks, token, expected);
    }
    let claims = json!({"sub": "ada", "exp": NOW + 60});
    for id in ["ec", "ed"] {
        let header = json!({"alg": "HS512", "kid": id});
        let forged = hmac_token(SECRET, hmac::HMAC_SHA512, &header, &claims);
        check(&jwks, &forged, Err(Rejected::WrongAlgorithm));
    }
    for id in ["unknown", "", "EC", "wrap", "signs"] {
        let header = json!({"alg": "HS512", "kid": id});
        let unknown = hmac_token(SECRET, hmac::HMAC_SHA512, &header, &claims);
        check(&jwks, &unknown, Err(Rejected::UnknownKey));
        // A key without an id may be anybody's.
        let both = tokens(vec![KeySource::Jwks(set.to_string()), secret()]);
        check(&both, &unknown, Ok("ada"));
    }
    // Without an id, every key is tried.
    let header = json!({"alg": "HS512"});
    let anonymous = hmac_token(SECRET, hmac::HMAC_SHA512, &header, &claims);
    check(&jwks, &anonymous, Err(Rejected::WrongSignature));
    check(&tokens(vec![secret(), secret()]), &anonymous, Ok("ada"));
}

/// Anybody can send a token, and each key that it is tried with takes its time.
#[test]
fn a_token_is_tried_with_a_few_keys_only() {
    let set = |keys: usize, id: &dyn Fn(usize) -> String| {
        let key =
            |it| json!({"kty": "oct", "kid": id(it), "k": encode(format!("{it}").as_bytes())});
        let keys: Vec<_> = (0..keys).map(key).collect();
        KeySource::Jwks(json!({ "keys": keys }).to_string())
    };
    let by_last = |last: usize, header| {
        let claims = json!({"sub": "ada", "exp": NOW + 60});
        hmac_token(last.to_string().as_bytes(), hmac::HMAC_SHA256, &header, &claims)
    };
    let unnamed = json!({"alg": "HS256"});
    let (few, many) = (set(8, &|it| it.to_string()), set(64, &|it| it.to_string()));
    check(&tokens(vec![few.clone()]), &by_last(7, unnamed.clone()), Ok("ada"));
    check(&tokens(vec![few, secret()]), &by_last(7, unnamed.clone()), Err(Rejected::TooManyKeys));
    let named = json!({"alg": "HS256", "kid": "63"});
    check(&tokens(vec![many.clone()]), &by_last(63, named.clone()), Ok("ada"));
    check(&tokens(vec![many]), &by_last(63, unnamed), Err(Rejected::TooManyKeys));
    let alike = set(9, &|_| "63".to_owned());
    check(&tokens(vec![alike]), &by_last(8, named), Err(Rejected::TooManyKeys));
}

#[test]
fn an_rsa_key_of_a_set_is_the_one_in_pem() {
    let Some(Key { material: Material::Rsa { modulus, exponent }, .. }) =
        pem::keys(RSA).unwrap().pop()
    else {
        unreachable!("the fixture is an RSA key")
    };
    let padded = [&[0], modulus.as_slice()].concat();
    let set = json!({"keys": [{"kty": "RSA", "n": encode(&padded), "e": encode(&exponent)}]});
    let tokens = tokens(vec![KeySource::Jwks(set.to_string())]);
    check(&tokens, fixture("RS256"), Ok("ada"));
    check(&tokens, fixture("PS512"), Ok("ada"));
    check(&tokens, fixture("ES256"), Err(Rejected::WrongAlgorithm));
}

#[test]
fn keys_that_cannot_be_used_say_why() {
    let jwks = |text: &str| KeySource::Jwks(text.to_owned());
    refuses(vec![], "there is no key to verify tokens with");
    refuses(vec![KeySource::Secret(b" \n".to_vec())], "the secret is empty");
    refuses(vec![secret(); 65], "there are 65 keys");
    refuses(vec![secret(); 9], "9 keys have no name, and each token is tried with all");
    let private = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    refuses(vec![pem(private)], "this is a private key");
    refuses(vec![pem(&private.replace("PRIVATE", "EC PRIVATE"))], "this is a private key");
    refuses(vec![pem(&private.replace("PRIVATE KEY", "CERTIFICATE"))], "this is a certificate");
    refuses(vec![pem(&private.replace("PRIVATE KEY", "CRL"))], "`CRL` is not a public key");
    for text in ["", "key", "-----BEGIN PUBLIC KEY-----", "-----BEGIN ", &RSA.replace('I', "?")] {
        refuses(vec![pem(text)], "the public key cannot be read");
    }
    let weak = include_str!("../fixtures/rsa1024.pem");
    let exotic = include_str!("../fixtures/p521.pem");
    let empty = private.replace("PRIVATE", "PUBLIC");
    for text in [weak, exotic, &empty] {
        refuses(vec![pem(text)], "the public key is of a kind that cannot be used");
    }
    refuses(vec![jwks("{")], "the key set is not JSON: EOF");
    refuses(vec![jwks("[]")], "the key set has no `keys`");
    refuses(vec![jwks("{\"keys\":[5]}")], "the key set has a key that is not an object");
    refuses(vec![jwks("{\"keys\":[]}")], "the key set has no key that verifies tokens");
    for key in [
        json!({"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "EC", "kid": "a", "crv": "P-256", "x": "AA", "y": "AA"}),
        json!({"kty": "OKP", "kid": "a", "crv": "Ed25519", "x": "AA"}),
        json!({"kty": "oct", "kid": "a", "k": ""}),
    ] {
        refuses(vec![jwks(&json!({"keys": [key]}).to_string())], "the key `a` cannot be used");
    }
}

/// Every cut and every flipped bit of a key is either refused or another key; none panics.
#[test]
fn a_damaged_public_key_is_refused() {
    let good = token(&json!({"sub": "ada", "exp": NOW + 60}));
    for key in [RSA, include_str!("../fixtures/p256.pem"), include_str!("../fixtures/ed25519.pem")]
    {
        for end in 0..key.trim_end().len() {
            assert!(pem::keys(&key[..end]).is_err(), "{end}");
        }
        for at_byte in 0..key.len() {
            let mut changed = key.as_bytes().to_vec();
            changed[at_byte] ^= 1;
            let Ok(text) = String::from_utf8(changed) else { continue };
            let settings = TokenSettings { keys: vec![pem(&text)], ..TokenSettings::default() };
            if let Ok(tokens) = Tokens::new(settings) {
                check(&tokens, &good, Err(Rejected::WrongAlgorithm));
            }
        }
    }
}
