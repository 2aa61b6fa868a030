//! Who may do what: everybody may check unless tokens are asked for; few may administer.
//!
//! Tokens are compared by their digests, with all that are known, in constant time: how long it
//! takes says nothing about how much of a guess was right.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use crate::limits;

/// What somebody may do.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Ask for decisions, and hold permits.
    Check,
    /// That, and reset keys, reload, and set a manual clock.
    Admin,
}

/// The tokens that are known, each with what it is good for.
#[derive(Default)]
pub struct Tokens(Vec<([u8; 32], Role)>);

/// How somebody came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// From where.
    pub(crate) peer: IpAddr,
    /// What their client certificate is good for.
    pub(crate) certified: Option<Role>,
}

/// Decides who may do what.
#[derive(Debug, Default)]
pub struct Guard {
    tokens: Tokens,
}

impl Role {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Check => "check",
            Role::Admin => "admin",
        }
    }
}

impl Tokens {
    /// Reads lines such as `admin 4Yp0…` or `check 9hTz…`; empty ones and `#` comments are skipped.
    pub fn from_text(text: &str) -> Result<Tokens, TokenError> {
        let mut tokens = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |wrong| TokenError::Line { number, wrong };
            let (role, token) = line.split_once(char::is_whitespace).ok_or(wrong(Wrong::Shape))?;
            let role = match role {
                "admin" => Role::Admin,
                "check" => Role::Check,
                _ => return Err(wrong(Wrong::Role)),
            };
            let token = token.trim();
            if token.len() < limits::TOKEN_BYTES_MIN {
                return Err(wrong(Wrong::Short));
            }
            tokens.push((fingerprint(token.as_bytes()), role));
        }
        if limits::TOKENS_MAX < tokens.len() {
            return Err(TokenError::TooMany);
        }
        if tokens.is_empty() {
            return Err(TokenError::None);
        }
        Ok(Tokens(tokens))
    }

    /// Reads a token file.
    pub fn from_file(path: &Path) -> Result<Tokens, TokenError> {
        let text =
            crate::secret::read(path).map_err(|error| TokenError::File(error.to_string()))?;
        Tokens::from_text(&String::from_utf8_lossy(&text))
    }

    /// What a token is good for. All are looked at, whichever it is.
    fn role(&self, token: &[u8]) -> Option<Role> {
        let shown = fingerprint(token);
        let mut found = None;
        for (known, role) in &self.0 {
            if bool::from(known.ct_eq(&shown)) {
                found = found.max(Some(*role));
            }
        }
        found
    }
}

impl Guard {
    /// Asks for one of these tokens, or for a client certificate.
    pub fn with_tokens(tokens: Tokens) -> Guard {
        Guard { tokens }
    }

    /// Whether it asks for tokens at all.
    pub fn asks(&self) -> bool {
        !self.tokens.0.is_empty()
    }

    /// What a token is good for.
    pub(crate) fn token(&self, token: &[u8]) -> Option<Role> {
        self.tokens.role(token)
    }

    /// What a visitor may do who shows `token`, or none.
    ///
    /// Without tokens everybody may check, and who comes from this machine may administer; but who
    /// has a certificate is what that says.
    pub(crate) fn role(&self, visitor: Visitor, token: Option<&[u8]>) -> Option<Role> {
        let by_token = token.and_then(|token| self.tokens.role(token));
        let unasked = if visitor.peer.is_loopback() { Role::Admin } else { Role::Check };
        let by_default = (!self.asks() && visitor.certified.is_none()).then_some(unasked);
        by_token.max(visitor.certified).max(by_default)
    }
}

/// The token in an `Authorization` header.
pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn fingerprint(token: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token).as_ref());
    bytes
}

impl fmt::Debug for Tokens {
    /// Says how many there are, and no more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Why a token file cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read.
    File(String),
    /// A line is not what it should be.
    Line {
        /// Which one.
        number: usize,
        /// What is wrong with it.
        wrong: Wrong,
    },
    /// There is none in it.
    None,
    /// There are too many in it.
    TooMany,
}

/// What can be wrong with a line of a token file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Wrong {
    /// It does not begin with a known role.
    Role,
    /// It is not two words.
    Shape,
    /// The token is too short.
    Short,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::File(error) => f.write_str(error),
            TokenError::Line { number, wrong } => {
                let wrong = match wrong {
                    Wrong::Role => "begin it with `check` or `admin`",
                    Wrong::Shape => "write a role and a token: `check 4Yp0…`",
                    Wrong::Short => {
                        "use a token of at least 16 bytes, such as of `openssl rand -hex 16`"
                    }
                };
                write!(f, "line {number} of the token file: {wrong}")
            }
            TokenError::None => {
                f.write_str("the token file holds no token: write lines such as `check 4Yp0…`")
            }
            TokenError::TooMany => {
                write!(f, "the token file holds more than {} tokens", limits::TOKENS_MAX)
            }
        }
    }
}

impl std::error::Error for TokenError {}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# keys\nadmin 0123456789abcdef\n\ncheck fedcba9876543210\n";

    fn visitor(peer: &str, certified: Option<Role>) -> Visitor {
        Visitor { peer: peer.parse().unwrap(), certified }
    }

    #[test]
    fn a_token_is_good_for_its_role() {
        let guard = Guard::with_tokens(Tokens::from_text(FILE).unwrap());
        let stranger = visitor("127.0.0.1", None);
        assert_eq!(guard.role(stranger, Some(b"0123456789abcdef")), Some(Role::Admin));
        assert_eq!(guard.role(stranger, Some(b"fedcba9876543210")), Some(Role::Check));
        for wrong in [None, Some(&b"0123456789abcdeF"[..]), Some(b""), Some(b"0123456789abcdef ")] {
            assert_eq!(guard.role(stranger, wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_certificate_does_as_well() {
        let guard = Guard::with_tokens(Tokens::from_text(FILE).unwrap());
        let known = visitor("192.0.2.1", Some(Role::Admin));
        assert_eq!(guard.role(known, None), Some(Role::Admin));
        assert_eq!(guard.role(known, Some(b"fedcba9876543210")), Some(Role::Admin));
    }

    #[test]
    fn without_tokens_only_this_machine_administers() {
        let guard = Guard::default();
        assert_eq!(guard.role(visitor("127.0.0.1", None), None), Some(Role::Admin));
        assert_eq!(guard.role(visitor("::1", None), None), Some(Role::Admin));
        assert_eq!(guard.role(visitor("192.0.2.1", None), None), Some(Role::Check));
        let certified = visitor("127.0.0.1", Some(Role::Check));
        assert_eq!(guard.role(certified, None), Some(Role::Check), "its certificate says so");
    }

    #[test]
    fn a_wrong_line_is_named() {
        let said = |text: &str| Tokens::from_text(text).unwrap_err().to_string();
        assert_eq!(
            said("root 0123456789abcdef"),
            "line 1 of the token file: begin it with `check` or `admin`"
        );
        assert!(
            said("\ncheck short").starts_with("line 2 of the token file: use a token of at least")
        );
        assert!(said("check").contains("write a role and a token"));
        assert!(said("# nothing\n").contains("holds no token"));
    }

    #[test]
    fn bearers_are_found_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b"Bear"), None);
    }
}
