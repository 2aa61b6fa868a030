//! Who may do what: everybody may check unless tokens are asked for; administration always takes a
//! proof. An address is none: behind a proxy, everybody comes from this machine.
//!
//! Tokens are compared by their digests, with all that are known, in constant time: how long it
//! takes says nothing about how much of a guess was right.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use crate::caller::Caller;
use crate::desk::Id;
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
pub struct Tokens(Vec<Token>);

/// A token, by its digest.
struct Token {
    digest: [u8; 32],
    role: Role,
    /// Where it stands in its file.
    line: u32,
}

/// How somebody came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// From where.
    pub(crate) peer: IpAddr,
    /// What the connection itself proves: by a client certificate, or since it is on the
    /// administrators' socket.
    pub(crate) certified: Option<Role>,
    /// The beginning of that certificate's digest, if it is one.
    pub(crate) certificate: Option<u64>,
}

/// A visitor, and the token that it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) visitor: Visitor,
    pub(crate) token: Option<&'a [u8]>,
}

/// Decides who may do what.
#[derive(Debug, Default)]
pub struct Guard {
    tokens: Tokens,
    /// Whether it takes a proof to check.
    asks: bool,
    /// Names of this server by which it may be administered.
    names: Vec<String>,
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
        for (line, number) in text.lines().zip(1_u32..) {
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
            tokens.push(Token { digest: fingerprint(token.as_bytes()), role, line: number });
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
        crate::secret::warn_if_open(path, "the token file");
        let text =
            crate::secret::read(path).map_err(|error| TokenError::File(error.to_string()))?;
        Tokens::from_text(&String::from_utf8_lossy(&text))
    }

    /// The token that is shown. All are looked at, whichever it is.
    fn find(&self, token: &[u8]) -> Option<&Token> {
        let shown = fingerprint(token);
        let mut found: Option<&Token> = None;
        for known in &self.0 {
            if bool::from(known.digest.ct_eq(&shown)) && found.is_none_or(|it| it.role < known.role)
            {
                found = Some(known);
            }
        }
        found
    }
}

impl Guard {
    /// Asks for one of these tokens, or for a client certificate.
    pub fn with_tokens(tokens: Tokens) -> Guard {
        Guard { tokens, asks: true, names: Vec::new() }
    }

    /// Lets everybody check. Administration takes the token that it gives: another one each time.
    pub fn with_own_token() -> (Guard, String) {
        let token = Id::random().to_string();
        let digest = fingerprint(token.as_bytes());
        let tokens = Tokens(vec![Token { digest, role: Role::Admin, line: 1 }]);
        (Guard { tokens, ..Guard::default() }, token)
    }

    /// Lets the server be administered by these names, besides by its addresses and as `localhost`.
    #[must_use]
    pub fn known_as(mut self, names: Vec<String>) -> Guard {
        self.names = names;
        self
    }

    /// Whether it takes a proof to check.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Whether there is any token to show.
    pub(crate) fn knows_tokens(&self) -> bool {
        !self.tokens.0.is_empty()
    }

    /// Whether a host is this server for sure: a name that somebody else chose may lead here, too.
    pub(crate) fn is_known_as(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = address.unwrap_or(host).parse::<IpAddr>().is_ok();
        let mut names = self.names.iter().map(String::as_str).chain(["localhost"]);
        is_address || names.any(|name| name.eq_ignore_ascii_case(host))
    }

    /// What a token is good for.
    pub(crate) fn token(&self, token: &[u8]) -> Option<Role> {
        self.tokens.find(token).map(|token| token.role)
    }

    /// Who a visitor is who shows `token`, or none.
    pub(crate) fn caller(&self, visitor: Visitor, token: Option<&[u8]>) -> Caller {
        let token = token.and_then(|token| self.tokens.find(token));
        let by_token = token.map(|token| Caller::Token(token.line));
        let by_certificate = || visitor.certificate.map(Caller::Certificate);
        by_token.or_else(by_certificate).unwrap_or(Caller::at(visitor.peer))
    }

    /// What a visitor may do who shows `token`, or none.
    ///
    /// Where no proof is asked for everybody may check; but who has a certificate is what that
    /// says.
    pub(crate) fn role(&self, visitor: Visitor, token: Option<&[u8]>) -> Option<Role> {
        let by_token = token.and_then(|token| self.token(token));
        let by_default = (!self.asks && visitor.certified.is_none()).then_some(Role::Check);
        by_token.max(visitor.certified).max(by_default)
    }
}

/// The token in an `Authorization` header.
pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// The beginning of a certificate's digest, by which a caller is known.
pub(crate) fn known_by(certificate: &[u8]) -> u64 {
    let digest = fingerprint(certificate);
    digest[..8].iter().fold(0, |known, byte| known << 8 | u64::from(*byte))
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
        number: u32,
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
        Visitor { peer: peer.parse().unwrap(), certified, certificate: None }
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

    /// One byte of a digest is guessed in 256 tries.
    #[test]
    fn a_token_is_compared_by_all_of_its_digest() {
        let guard = Guard::with_tokens(Tokens::from_text("check 0123456789abcdef").unwrap());
        let known = fingerprint(b"0123456789abcdef");
        let mut alike = [0; 32];
        for number in 0..20_000 {
            let guess = format!("a token of {number}");
            let shown = fingerprint(guess.as_bytes());
            (0..32).for_each(|at| alike[at] += u32::from(shown[at] == known[at]));
            assert_eq!(guard.token(guess.as_bytes()), None, "{guess}");
        }
        assert!(alike.iter().all(|many| 20 < *many), "each byte was met by some: {alike:?}");
    }

    #[test]
    fn a_certificate_does_as_well() {
        let guard = Guard::with_tokens(Tokens::from_text(FILE).unwrap());
        let known = visitor("192.0.2.1", Some(Role::Admin));
        assert_eq!(guard.role(known, None), Some(Role::Admin));
        assert_eq!(guard.role(known, Some(b"fedcba9876543210")), Some(Role::Admin));
    }

    #[test]
    fn an_address_is_no_proof() {
        let guard = Guard::default();
        for address in ["127.0.0.1", "::1", "192.0.2.1"] {
            assert_eq!(guard.role(visitor(address, None), None), Some(Role::Check), "{address}");
        }
        let socket = visitor("127.0.0.1", Some(Role::Admin));
        assert_eq!(guard.role(socket, None), Some(Role::Admin));
    }

    #[test]
    fn its_own_token_administers_and_nobody_needs_it_to_check() {
        let (guard, token) = Guard::with_own_token();
        let anybody = visitor("192.0.2.1", None);
        assert_eq!(guard.role(anybody, None), Some(Role::Check));
        assert_eq!(guard.role(anybody, Some(b"0123456789abcdef")), Some(Role::Check));
        assert_eq!(guard.role(anybody, Some(token.as_bytes())), Some(Role::Admin));
        let (_, another) = Guard::with_own_token();
        assert_ne!(token, another);
    }

    #[test]
    fn a_server_is_known_by_addresses_and_by_names_that_were_said() {
        let guard = Guard::default().known_as(vec!["tidegate.internal".to_owned()]);
        for known in ["127.0.0.1", "[::1]", "10.0.0.1", "LocalHost", "Tidegate.internal"] {
            assert!(guard.is_known_as(known), "{known}");
        }
        for unknown in ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example"] {
            assert!(!guard.is_known_as(unknown), "{unknown}");
        }
        assert!(!Guard::default().is_known_as("tidegate.internal"));
    }

    #[test]
    fn a_caller_is_known_by_the_best_that_it_shows() {
        let guard = Guard::with_tokens(Tokens::from_text(FILE).unwrap());
        let plain = visitor("192.0.2.1", None);
        let certified = Visitor { certificate: Some(7), ..plain };
        let at = Caller::at(plain.peer);
        assert_eq!(guard.caller(plain, None), at);
        assert_eq!(guard.caller(plain, Some(b"0123456789abcdeX")), at, "a guess is no name");
        assert_eq!(guard.caller(certified, None), Caller::Certificate(7));
        assert_eq!(guard.caller(certified, Some(b"fedcba9876543210")), Caller::Token(4));
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
