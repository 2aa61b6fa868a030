//! `jwt`: how tokens are checked before their claims are believed.

use tidegate_core::Span as Time;

use super::Reading;
use super::tables::{DURATION, NAMES};
use crate::attribute::Attribute;
use crate::lint::Lint;
use crate::quantity;
use crate::read::{Fields, Table, Takes, table_fields};
use crate::source::Node;
use crate::token::{KeySource, TokenSettings, Tokens};

/// The fewest bytes of a secret that nobody guesses: as many as HS256 gives.
const SECRET_BYTES_MIN: usize = 32;

/// Where a token may be.
const TOKEN_PLACE: Takes = Takes::Form {
    like: &["header:authorization", "cookie:token"],
    pattern: "^(header|cookie):.+$",
};

pub(super) static JWT: Table = Table {
    what: "`jwt`",
    about: "How tokens are checked before their claims are believed.",
    fields: table_fields! {
        "in": TOKEN_PLACE, "Where the token is. Default: `header:authorization`.";
        "secret_env": Takes::Text,
            "The environment variable with the secret of HS256, HS384 and HS512. Default: none.";
        "secret_file": Takes::Text, "The file with that secret. Default: none.";
        "key_file": NAMES, "PEM files with public keys: RSA, EC or Ed25519. Default: none.";
        "jwks_file": Takes::Text, "A file with a JSON Web Key Set. Default: none.";
        "issuer": NAMES,
            "Whose tokens are believed. Default: everybody's, if the signature is right.";
        "audience": NAMES, "For whom tokens have to be. Default: for anybody.";
        "leeway": DURATION, "How far clocks may be apart. Default: `30s`.";
        "allow_without_expiry": Takes::Flag,
            "Whether a token that never expires is believed. Default: `false`.";
        "dangerously_trust_unverified": Takes::Flag,
            "Believes every claim without checking a signature. Only behind something that has \
             checked it: otherwise a client can claim to be anybody. Default: `false`.";
    },
    required: &[],
};

impl Reading<'_> {
    pub(super) fn read_jwt(&mut self, node: &Node) -> (Option<Tokens>, Option<Attribute>) {
        // Where it is wrong, that is said once, and not again wherever a claim is named.
        self.has_tokens = true;
        let Some(fields) = Fields::of(node, &JWT, &mut self.problems) else { return (None, None) };
        let token_in = match fields.get("in") {
            Some(node) => self.read_token_in(node),
            None => Some(Attribute::Header("authorization".into())),
        };
        let settings = self.read_token_settings(&fields);
        let keys = ["secret_env", "secret_file", "key_file", "jwks_file"];
        if settings.keys.is_empty() && keys.into_iter().any(|name| fields.has(name)) {
            // What is wrong with the keys has been said.
            return (None, token_in);
        }
        match Tokens::new(settings) {
            Ok(tokens) => (Some(tokens), token_in),
            Err(misread) => {
                self.misread(fields.at(), misread);
                (None, token_in)
            }
        }
    }

    fn read_token_in(&mut self, node: &Node) -> Option<Attribute> {
        let attribute = self.read_attribute(node)?;
        if !matches!(attribute, Attribute::Header(_) | Attribute::Cookie(_)) {
            let problem = self.problems.error(node.at, "a token is in a header or a cookie");
            problem.help("write `header:authorization` or `cookie:NAME`");
            return None;
        }
        Some(attribute)
    }

    fn read_token_settings(&mut self, fields: &Fields<'_>) -> TokenSettings {
        let mut settings = TokenSettings::default();
        if let Some(node) = fields.get("secret_env")
            && let Some(name) = node.text("secret_env", &mut self.problems)
        {
            match self.outside.variable(name) {
                Some(secret) if !secret.is_empty() => {
                    settings.keys.push(self.read_secret(secret.into_bytes(), node));
                }
                _ => {
                    let message = format!("the environment variable `{name}` is not set");
                    self.problems
                        .error(node.at, message)
                        .help("set it to the secret of the tokens");
                }
            }
        }
        if let Some(node) = fields.get("secret_file")
            && let Some(secret) = self.read_outside(node)
        {
            settings.keys.push(self.read_secret(secret.trim_ascii().to_vec(), node));
        }
        for one in fields.get("key_file").map_or(&[][..], Node::one_or_more) {
            settings.keys.extend(self.read_outside_text(one).map(KeySource::Pem));
        }
        let key_set = fields.get("jwks_file").and_then(|node| self.read_outside_text(node));
        settings.keys.extend(key_set.map(KeySource::Jwks));
        settings.issuer = self.read_names(fields.get("issuer"), "issuer");
        settings.audience = self.read_names(fields.get("audience"), "audience");
        if let Some(leeway) = fields.get("leeway").and_then(|it| self.read_duration(it, "leeway")) {
            settings.leeway = leeway;
        }
        let mut flag = |name: &'static str| {
            let flag = fields.get(name).and_then(|node| node.flag(name, &mut self.problems));
            flag.unwrap_or(false)
        };
        settings.allow_without_expiry = flag("allow_without_expiry");
        settings.dangerously_trust_unverified = flag("dangerously_trust_unverified");
        settings
    }

    fn read_secret(&mut self, secret: Vec<u8>, node: &Node) -> KeySource {
        if (1..SECRET_BYTES_MIN).contains(&secret.len()) {
            let message = format!("the secret has only {} bytes: it can be guessed", secret.len());
            let help = format!("use at least {SECRET_BYTES_MIN} random bytes");
            self.problems.lint(Lint::WeakSecret, node.at, message).help(help);
        }
        KeySource::Secret(secret)
    }

    fn read_names(&mut self, node: Option<&Node>, what: &str) -> Vec<String> {
        let nodes = node.map_or(&[][..], Node::one_or_more).iter();
        nodes.filter_map(|one| Some(one.text(what, &mut self.problems)?.to_owned())).collect()
    }

    fn read_outside_text(&mut self, node: &Node) -> Option<String> {
        let bytes = self.read_outside(node)?;
        let text = String::from_utf8(bytes).ok();
        if text.is_none() {
            self.problems.error(node.at, "this file is not text").help("give a PEM or JSON file");
        }
        text
    }

    fn read_outside(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = node.text("a file", &mut self.problems)?;
        match self.outside.file(name) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let problem =
                    self.problems.error(node.at, format!("cannot read `{name}`: {error}"));
                problem.help("give a path relative to the policy file, or an absolute one");
                None
            }
        }
    }

    /// A length of time.
    pub(super) fn read_duration(&mut self, node: &Node, what: &str) -> Option<Time> {
        let text = node.scalar(what, &mut self.problems)?;
        match quantity::duration(&text) {
            Ok(time) => Some(time),
            Err(misread) => {
                self.misread(node.at, misread);
                None
            }
        }
    }
}
