//! Attributes: what of a request can be matched, counted by, or taken as a cost.

use std::fmt;

use crate::misread::{Misread, quoted};
use crate::path::Case;

/// Something that a request has, or has not.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// Who is known by an API key that was given out, by name.
    ApiKey,
    /// What the file of API keys says of that owner.
    ApiKeyOwner(Box<str>),
    /// A claim of a token that was checked, by its name or a dotted path.
    Claim(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// Address, endpoint and user agent: for those who have not logged in.
    Fingerprint,
    /// What the application itself knows of the request.
    Given(Box<str>),
    /// By its name in lower case.
    Header(Box<str>),
    /// The host, in lower case.
    Host,
    /// The first of several that is present, by its place among the identities of the file.
    Identity(usize),
    /// The client's address, grouped as the file says.
    Ip,
    /// The client's address as one of a network of IPv6 of so many bits; of IPv4, as `Ip`.
    Ip6(u8),
    /// The method.
    Method,
    /// The path, made plain.
    Path,
    /// A query parameter.
    Query(Box<str>),
    /// A segment of the path, by its number from 1.
    Segment(usize),
    /// The part of the path that a pattern of the rule gave a name.
    Named(Box<str>),
    /// The tier.
    Tier,
}

/// Names without a colon.
pub(crate) const PLAIN: [&str; 9] =
    ["api-key", "fingerprint", "host", "ip", "method", "path", "tier", "user", "client"];

/// Names with something behind a colon.
pub(crate) const WITH_NAME: [&str; 7] =
    ["api-key", "attribute", "cookie", "header", "jwt", "query", "segment"];

/// The owner of an API key by name: `api-key:name` is `api-key`.
pub(crate) const NAME_OF_KEY: &str = "name";
/// The tier of the owner of an API key.
pub(crate) const TIER_OF_KEY: &str = "tier";

impl Attribute {
    /// Reads a name such as `ip` or `header:x-api-key`. `identities` are the file's own names. What
    /// to write instead of a name that there is not is left to [`instead_of`].
    pub(crate) fn parse(text: &str, identities: &[Box<str>]) -> Result<Attribute, Misread> {
        if let Some(index) = identities.iter().position(|name| **name == *text) {
            return Ok(Attribute::Identity(index));
        }
        if let Some((kind, name)) = text.split_once(':') {
            return Attribute::with_name(kind.trim(), name.trim());
        }
        if let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            return Ok(Attribute::Named(name.into()));
        }
        if let Some(bits) = text.strip_prefix("ip/") {
            return network_bits(bits).map(Attribute::Ip6);
        }
        Ok(match text {
            "api-key" => Attribute::ApiKey,
            "fingerprint" => Attribute::Fingerprint,
            "host" => Attribute::Host,
            "ip" => Attribute::Ip,
            "method" => Attribute::Method,
            "path" => Attribute::Path,
            "tier" => Attribute::Tier,
            "user" => Attribute::Given("user".into()),
            _ => return Err(Misread { message: no_attribute(text), help: None }),
        })
    }

    fn with_name(kind: &str, name: &str) -> Result<Attribute, Misread> {
        if name.is_empty() {
            let message = format!("{} has no name behind the colon", quoted(&format!("{kind}:")));
            return Err(Misread::new(message, "write one, as in `header:x-api-key`"));
        }
        if NAME_BYTES_MAX < name.len() {
            let message = format!("{} is longer than 256 bytes", quoted(name));
            return Err(Misread::new(message, "choose a shorter name"));
        }
        Ok(match kind {
            "api-key" if name == NAME_OF_KEY => Attribute::ApiKey,
            "api-key" => Attribute::ApiKeyOwner(name.into()),
            "attribute" => Attribute::Given(name.into()),
            "cookie" => Attribute::Cookie(name.into()),
            "header" => Attribute::Header(header_name(name)?),
            "jwt" => Attribute::Claim(name.into()),
            "query" => Attribute::Query(name.into()),
            "segment" => Attribute::Segment(segment_number(name)?),
            _ => {
                let message = no_attribute(&format!("{kind}:…"));
                return Err(match crate::suggest::did_you_mean(kind, WITH_NAME) {
                    Some(near) => {
                        let meant = quoted(&format!("{near}:{name}"));
                        Misread::new(message, format!("did you mean {meant}?"))
                    }
                    None => Misread::new(message, accepted(&[])),
                });
            }
        })
    }

    /// Whether it is a part of the path.
    pub(crate) fn is_of_path(&self) -> bool {
        matches!(self, Attribute::Path | Attribute::Segment(_) | Attribute::Named(_))
    }

    /// Whether case tells the names that it says apart: what is taken from a path may be in lower
    /// case by now.
    pub(crate) fn case(&self) -> Case {
        if self.is_of_path() { Case::Ignored } else { Case::Kept }
    }

    /// Whether its value may be a secret: such a value is never written to a store as it is.
    pub fn may_be_secret(&self) -> bool {
        matches!(self, Attribute::Cookie(_) | Attribute::Header(_) | Attribute::Query(_))
    }
}

const NAME_BYTES_MAX: usize = 256;

fn network_bits(text: &str) -> Result<u8, Misread> {
    let bits = text.parse().ok().filter(|bits| (1..=128).contains(bits));
    bits.ok_or_else(|| {
        let message = format!("{} is no network of IPv6", quoted(&format!("ip/{text}")));
        Misread::new(message, "write its bits, from 1 to 128, as in `ip/48`")
    })
}

fn segment_number(text: &str) -> Result<usize, Misread> {
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| {
        let message = format!("{} is not the number of a segment", quoted(text));
        Misread::new(message, "write one from 1 to 64, as in `segment:1`")
    })
}

/// The name of a header as it is looked up; anything else than a token of HTTP names none.
pub(crate) fn header_name(name: &str) -> Result<Box<str>, Misread> {
    if name.is_empty() || !name.bytes().all(is_token) {
        let message = format!("{} is not the name of a header", quoted(name));
        return Err(Misread::new(message, "write it alone, as in `x-api-key`"));
    }
    Ok(name.to_ascii_lowercase().into())
}

/// Whether a byte may stand in a token of HTTP: the name of a header, or of a parameter.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn no_attribute(text: &str) -> String {
    format!("there is no attribute {}", quoted(text))
}

/// What to write instead of a name that there is not. Every name is looked at, so ask only for a
/// message that somebody reads.
pub(crate) fn instead_of(text: &str, identities: &[Box<str>]) -> String {
    let own = identities.iter().map(|name| &**name);
    let near = crate::suggest::did_you_mean(text, PLAIN.into_iter().chain(own));
    near.map_or_else(|| accepted(identities), |near| format!("did you mean `{near}`?"))
}

fn accepted(identities: &[Box<str>]) -> String {
    // A file may have hundreds.
    let own = identities.iter().take(8).fold(String::new(), |names, name| names + name + ", ");
    format!(
        "use {own}api-key, ip, user, tier, method, host, path, fingerprint, api-key:NAME, \
         header:NAME, cookie:NAME, query:NAME, jwt:CLAIM, segment:NUMBER or attribute:NAME"
    )
}

impl fmt::Display for Attribute {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::ApiKey => f.write_str("api-key"),
            Attribute::ApiKeyOwner(name) => write!(f, "api-key:{name}"),
            Attribute::Claim(name) => write!(f, "jwt:{name}"),
            Attribute::Cookie(name) => write!(f, "cookie:{name}"),
            Attribute::Fingerprint => f.write_str("fingerprint"),
            Attribute::Given(name) if **name == *"user" => f.write_str("user"),
            Attribute::Given(name) => write!(f, "attribute:{name}"),
            Attribute::Header(name) => write!(f, "header:{name}"),
            Attribute::Host => f.write_str("host"),
            Attribute::Identity(index) => write!(f, "identity {index}"),
            Attribute::Ip => f.write_str("ip"),
            Attribute::Ip6(bits) => write!(f, "ip/{bits}"),
            Attribute::Method => f.write_str("method"),
            Attribute::Named(name) => write!(f, "{{{name}}}"),
            Attribute::Path => f.write_str("path"),
            Attribute::Query(name) => write!(f, "query:{name}"),
            Attribute::Segment(number) => write!(f, "segment:{number}"),
            Attribute::Tier => f.write_str("tier"),
        }
    }
}
