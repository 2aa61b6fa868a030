//! Tokens that were really signed, by OpenSSL and by ring, and those that were not.
//!
//! `fixtures/tokens.txt` has one token of each asymmetric algorithm, made with OpenSSL, with the
//! claims `{"sub":"ada","exp":2000000000}`. Their private keys are gone.

mod keys;

use ring::hmac;
use serde_json::json;

use super::*;

const SECRET: &[u8] = b"an example of a secret, of 32 b.";
const NOW: u64 = 1_900_000_000;
const RSA: &str = include_str!("../fixtures/rsa.pem");
const TOKENS: &str = include_str!("../fixtures/tokens.txt");

fn at(seconds: u64) -> Tick {
    Tick::from_micros(seconds * 1_000_000)
}

fn secret() -> KeySource {
    KeySource::Secret(SECRET.to_vec())
}

fn pem(text: &str) -> KeySource {
    KeySource::Pem(text.to_owned())
}

fn tokens(keys: Vec<KeySource>) -> Tokens {
    Tokens::new(TokenSettings { keys, ..TokenSettings::default() }).unwrap()
}

/// What a header and claims look like before they are signed.
fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

fn signed_with(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = message(header, claims);
    format!("{message}.{}", encode(&sign(message.as_bytes())))
}

fn hmac_token(secret: &[u8], algorithm: hmac::Algorithm, header: &Value, claims: &Value) -> String {
    let key = hmac::Key::new(algorithm, secret);
    signed_with(header, claims, |message| hmac::sign(&key, message).as_ref().to_vec())
}

/// A token of the usual secret.
fn token(claims: &Value) -> String {
    hmac_token(SECRET, hmac::HMAC_SHA256, &json!({"alg": "HS256"}), claims)
}

fn fixture(algorithm: &str) -> &'static str {
    let line = TOKENS.lines().find_map(|line| line.strip_prefix(algorithm));
    line.unwrap().trim()
}

#[track_caller]
fn check(tokens: &Tokens, token: &str, expected: Result<&str, Rejected>) {
    let found = tokens.claims(token.as_bytes(), at(NOW));
    let found = found.map(|claims| claims.get("sub").unwrap_or_default().into_owned());
    assert_eq!(found, expected.map(str::to_owned), "{token}");
}

/// Checks claims, signed with the usual secret.
#[track_caller]
fn check_claims(settings: TokenSettings, claims: &Value, expected: Result<(), Rejected>) {
    let tokens = Tokens::new(TokenSettings { keys: vec![secret()], ..settings }).unwrap();
    let found = tokens.claims(token(claims).as_bytes(), at(NOW)).map(|_| ());
    assert_eq!(found, expected, "{claims}");
}

#[track_caller]
fn refuses(keys: Vec<KeySource>, message: &str) {
    let settings = TokenSettings { keys, ..TokenSettings::default() };
    let found = Tokens::new(settings).unwrap_err().message;
    assert!(found.starts_with(message), "{found}");
}

#[test]
fn tokens_of_openssl_are_believed_by_the_right_key_alone() {
    let rsa_older = include_str!("../fixtures/rsa-pkcs1.pem");
    let p256 = include_str!("../fixtures/p256.pem");
    let p384 = include_str!("../fixtures/p384.pem");
    let ed25519 = include_str!("../fixtures/ed25519.pem");
    for (key, algorithms) in [
        (RSA, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] as &[&str]),
        (rsa_older, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
        (p256, &["ES256"]),
        (p384, &["ES384"]),
        (ed25519, &["EdDSA"]),
    ] {
        let tokens = tokens(vec![pem(key)]);
        for line in TOKENS.lines() {
            let (algorithm, token) = line.split_once(' ').unwrap();
            let fits = algorithms.contains(&algorithm);
            check(&tokens, token, if fits { Ok("ada") } else { Err(Rejected::WrongAlgorithm) });
            // Another claim under the same signature.
            let changed = token.replace("eyJzdWIiOiJhZGEi", "eyJzdWIiOiJldmUi");
            let why = if fits { Rejected::WrongSignature } else { Rejected::WrongAlgorithm };
            check(&tokens, &changed, Err(why));
        }
    }
    let all = tokens(vec![pem(&[RSA, p256, p384, ed25519].concat()), secret()]);
    for line in TOKENS.lines() {
        check(&all, line.split_once(' ').unwrap().1, Ok("ada"));
    }
}

#[test]
fn secrets_verify_all_of_their_algorithms() {
    let tokens = tokens(vec![secret()]);
    let claims = json!({"sub": "ada", "exp": NOW + 60});
    for (name, algorithm) in
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
    {
        let header = json!({"alg": name, "typ": "JWT"});
        check(&tokens, &hmac_token(SECRET, algorithm, &header, &claims), Ok("ada"));
        let other = hmac_token(b"another secret", algorithm, &header, &claims);
        check(&tokens, &other, Err(Rejected::WrongSignature));
    }
    // One algorithm's signature under another's name.
    let mixed = hmac_token(SECRET, hmac::HMAC_SHA512, &json!({"alg": "HS256"}), &claims);
    check(&tokens, &mixed, Err(Rejected::WrongSignature));
}

#[test]
fn a_public_key_is_never_taken_for_a_secret() {
    let claims = json!({"sub": "eve", "exp": NOW + 60});
    let block = RSA.replace("-----BEGIN PUBLIC KEY-----", "");
    let block = block.replace("-----END PUBLIC KEY-----", "").replace('\n', "");
    let der = decode(block.as_bytes(), Alphabet::Standard).unwrap();
    let tokens = tokens(vec![pem(RSA)]);
    for guess in [RSA.as_bytes(), RSA.trim().as_bytes(), &der, block.as_bytes()] {
        for name in ["HS256", "RS256", "hs256", "ES256"] {
            let header = json!({"alg": name});
            let forged = hmac_token(guess, hmac::HMAC_SHA256, &header, &claims);
            let found = tokens.claims(forged.as_bytes(), at(NOW)).unwrap_err();
            let signature = name == "RS256";
            let expected =
                if signature { Rejected::WrongSignature } else { Rejected::WrongAlgorithm };
            assert_eq!(found, expected, "{name}");
        }
    }
    let rsa = KeySource::Secret(RSA.as_bytes().to_vec());
    refuses(vec![rsa], "the secret is a key in PEM");
}

#[test]
fn unsigned_tokens_are_never_believed() {
    let claims = json!({"sub": "eve", "exp": NOW + 60});
    let unverified =
        TokenSettings { dangerously_trust_unverified: true, ..TokenSettings::default() };
    let unverified = Tokens::new(unverified).unwrap();
    for name in ["none", "None", "NONE", "nOnE"] {
        let message = message(&json!({"alg": name}), &claims);
        for tokens in [&tokens(vec![secret()]), &tokens(vec![pem(RSA)]), &unverified] {
            check(tokens, &format!("{message}."), Err(Rejected::AlgorithmNone));
            check(tokens, &format!("{message}.AAAA"), Err(Rejected::AlgorithmNone));
        }
    }
    // An empty signature is none either.
    let empty = format!("{}.", message(&json!({"alg": "HS256"}), &claims));
    check(&tokens(vec![secret()]), &empty, Err(Rejected::WrongSignature));
}

#[test]
fn unverified_tokens_are_believed_only_when_asked_for() {
    let settings = TokenSettings { dangerously_trust_unverified: true, ..TokenSettings::default() };
    let unverified = Tokens::new(settings.clone()).unwrap();
    check(&unverified, fixture("RS256"), Ok("ada"));
    check(&unverified, &token(&json!({"sub": "ada", "exp": 1})), Err(Rejected::Expired));
    let both = TokenSettings { keys: vec![secret()], ..settings };
    let message = Tokens::new(both).unwrap_err().message;
    assert_eq!(message, "there are keys, and yet tokens are trusted unverified");
}

#[test]
fn time_is_what_the_caller_says() {
    let usual = TokenSettings::default;
    for (claims, expected) in [
        (json!({"exp": NOW + 1}), Ok(())),
        (json!({"exp": NOW - 29}), Ok(())),
        (json!({"exp": NOW - 30}), Err(Rejected::Expired)),
        (json!({"exp": 1_899_999_970.5}), Ok(())),
        (json!({"exp": 0}), Err(Rejected::Expired)),
        (json!({"exp": -1}), Err(Rejected::Expired)),
        (json!({"exp": -1e300}), Err(Rejected::Expired)),
        (json!({"exp": 1e300}), Ok(())),
        (json!({"exp": u64::MAX}), Ok(())),
        (json!({"exp": "2000000000"}), Err(Rejected::Malformed)),
        (json!({"exp": null}), Err(Rejected::Malformed)),
        (json!({}), Err(Rejected::NoExpiry)),
        (json!({"exp": NOW + 60, "nbf": NOW + 30}), Ok(())),
        (json!({"exp": NOW + 60, "nbf": NOW + 31}), Err(Rejected::NotYet)),
        (json!({"exp": NOW + 60, "nbf": 1e300}), Err(Rejected::NotYet)),
        (json!({"exp": NOW + 60, "nbf": "soon"}), Err(Rejected::Malformed)),
    ] {
        check_claims(usual(), &claims, expected);
    }
    let lasting = || TokenSettings { allow_without_expiry: true, ..usual() };
    check_claims(lasting(), &json!({}), Ok(()));
    check_claims(lasting(), &json!({"exp": 1}), Err(Rejected::Expired));
    let strict = TokenSettings { leeway: Span::ZERO, ..usual() };
    check_claims(strict, &json!({"exp": NOW}), Err(Rejected::Expired));
    let endless = TokenSettings { leeway: Span::MAX, ..usual() };
    check_claims(endless, &json!({"exp": 1, "nbf": NOW + 1}), Ok(()));
}

#[test]
fn issuer_and_audience_are_checked_when_named() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let ours = || TokenSettings {
        issuer: names(&["https://a.example", "https://b.example"]),
        audience: names(&["api", "web"]),
        ..TokenSettings::default()
    };
    for (issuer, audience, expected) in [
        (json!("https://a.example"), json!("api"), Ok(())),
        (json!("https://b.example"), json!(["other", "web"]), Ok(())),
        (json!("https://a.example/"), json!("api"), Err(Rejected::WrongIssuer)),
        (json!(["https://a.example"]), json!("api"), Err(Rejected::WrongIssuer)),
        (json!(null), json!("api"), Err(Rejected::WrongIssuer)),
        (json!("https://a.example"), json!("other"), Err(Rejected::WrongAudience)),
        (json!("https://a.example"), json!([]), Err(Rejected::WrongAudience)),
        (json!("https://a.example"), json!([["api"]]), Err(Rejected::WrongAudience)),
        (json!("https://a.example"), json!(null), Err(Rejected::WrongAudience)),
    ] {
        let claims = json!({"exp": NOW + 60, "iss": issuer, "aud": audience});
        check_claims(ours(), &claims, expected);
        check_claims(TokenSettings::default(), &claims, Ok(()));
    }
    check_claims(ours(), &json!({"exp": NOW + 60, "aud": "api"}), Err(Rejected::WrongIssuer));
    let no_audience = json!({"exp": NOW + 60, "iss": "https://a.example"});
    check_claims(ours(), &no_audience, Err(Rejected::WrongAudience));
}

/// What an application believes, we have to: who is somebody there would be nobody here.
#[test]
fn a_signature_may_be_spelled_in_another_way() {
    let tokens = tokens(vec![secret()]);
    let good = token(&json!({"sub": "ada", "exp": NOW + 60}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let plain = signature.replace('-', "+").replace('_', "/");
    for text in [
        format!("{good}="),
        format!("{good}===="),
        format!("{good}****"),
        format!("{message}.{plain}"),
        format!("{message}.*{signature}"),
    ] {
        check(&tokens, &text, Ok("ada"));
    }
    let mut other = signature.to_owned().into_bytes();
    other.swap(0, 1);
    let other = String::from_utf8(other).unwrap();
    check(&tokens, &format!("{message}.{other}"), Err(Rejected::WrongSignature));
}

#[test]
fn damaged_tokens_are_rejected() {
    let tokens = tokens(vec![secret()]);
    let good = token(&json!({"sub": "ada", "exp": NOW + 60}));
    check(&tokens, &good, Ok("ada"));
    for end in 0..good.len() {
        assert!(tokens.claims(&good.as_bytes()[..end], at(NOW)).is_err(), "{end}");
    }
    for at_byte in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at_byte] ^= 1;
        assert!(tokens.claims(&changed, at(NOW)).is_err(), "{at_byte}");
    }
    let (header, rest) = good.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    for text in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        "....".to_owned(),
        format!("{good}."),
        format!(" {good}"),
        format!("Bearer {good}"),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.{signature}.{signature}"),
        format!("{header}=.{claims}.{signature}"),
        format!("{header}.{claims}!.{signature}"),
        format!("{}.{claims}.{signature}", encode(b"[]")),
        format!("{}.{claims}.{signature}", encode(b"{}")),
        format!("{}.{claims}.{signature}", encode(b"{\"alg\":5}")),
        format!("{}.{claims}.{signature}", encode(b"\xff")),
        "\u{1F980}.\u{1F980}.\u{1F980}".to_owned(),
        hmac_token(SECRET, hmac::HMAC_SHA256, &json!({"alg": "HS256"}), &json!("text")),
        hmac_token(SECRET, hmac::HMAC_SHA256, &json!({"alg": "HS256"}), &json!([1])),
        hmac_token(SECRET, hmac::HMAC_SHA256, &json!({"alg": "HS256", "kid": 7}), &json!({})),
        hmac_token(SECRET, hmac::HMAC_SHA256, &json!({"alg": "HS256", "crit": []}), &json!({})),
    ] {
        check(&tokens, &text, Err(Rejected::Malformed));
    }
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    check(&tokens, &format!("{}.e30.", encode(deep.as_bytes())), Err(Rejected::TooLong));
    let deep = "{\"a\":".repeat(1_000);
    check(&tokens, &format!("{}.e30.", encode(deep.as_bytes())), Err(Rejected::Malformed));
    let giant = token(&json!({"sub": "a".repeat(8_192), "exp": NOW + 60}));
    check(&tokens, &giant, Err(Rejected::TooLong));
    check(&tokens, &token(&json!({"sub": "äda 🦀", "exp": NOW + 60})), Ok("äda 🦀"));
}

#[test]
fn claims_are_found_by_their_path() {
    let claims = token(&json!({
        "exp": NOW + 60, "sub": "ada", "admin": true, "level": 7, "share": 0.5, "nothing": null,
        "realm": {"tenant": "blue", "deep": {"er": "yes"}}, "roles": ["a"],
        "https://example.org/tenant": "green", "realm.tenant.x": "dotted", "": "empty",
    }));
    let claims = tokens(vec![secret()]).claims(claims.as_bytes(), at(NOW)).unwrap();
    for (path, expected) in [
        ("sub", Some("ada")),
        ("admin", Some("true")),
        ("level", Some("7")),
        ("share", Some("0.5")),
        ("exp", Some("1900000060")),
        ("realm.tenant", Some("blue")),
        ("realm.deep.er", Some("yes")),
        ("https://example.org/tenant", Some("green")),
        ("realm.tenant.x", Some("dotted")),
        ("", Some("empty")),
        ("realm", None),
        ("roles", None),
        ("roles.0", None),
        ("nothing", None),
        ("other", None),
        ("sub.x", None),
        ("realm.", None),
        (".", None),
    ] {
        assert_eq!(claims.get(path).as_deref(), expected, "{path}");
    }
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{:?}", tokens(vec![secret()])), "Tokens { keys: 1, .. }");
    assert_eq!(Rejected::Expired.to_string(), "the token has expired: get a new one");
}
