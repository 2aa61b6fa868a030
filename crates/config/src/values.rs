//! What an attribute of a request is: the one value that may be a part of a key, and all those that
//! a match and a cost look at.

use std::borrow::Cow;

use crate::attribute::Attribute;
use crate::facts::{Facts, Part, Parts, VALUE_BYTES_MAX, Value, is_head, plain_host, plain_method};
use crate::matcher::{Certainty, Matcher};
use crate::path::Case;
use crate::repeated::{self, Values};
use crate::token::Claims;

impl Facts<'_, '_> {
    /// The value of an attribute that is a text, as a part of a key: one that is too long for that
    /// counts as missing.
    pub(crate) fn bytes<'f>(
        &'f self,
        attribute: &Attribute,
        within: Option<&Matcher>,
    ) -> Option<Cow<'f, [u8]>> {
        self.value(attribute, within).filter(|value| value.len() <= VALUE_BYTES_MAX)
    }

    /// Whether an attribute is there, but cannot be a part of a key: it is too long, or has several
    /// values. Of an identity, whether one that it may be made of is so.
    pub(crate) fn is_unusable(&self, attribute: &Attribute, within: Option<&Matcher>) -> bool {
        match attribute {
            Attribute::Fingerprint | Attribute::Ip | Attribute::Ip6(_) => false,
            // Which of several tokens the application takes is not for us to know.
            Attribute::Claim(_) if self.is_torn(attribute) => true,
            Attribute::Identity(index) => {
                let alternatives = self.identify.identities.get(*index).into_iter().flatten();
                alternatives.flatten().any(|attribute| self.is_unusable(attribute, within))
            }
            _ => match (self.value(attribute, within), self.repeated(attribute)) {
                (Some(value), _) => VALUE_BYTES_MAX < value.len(),
                (None, values) => {
                    values.is_some_and(|values| values.iter().any(|value| !value.is_empty()))
                }
            },
        }
    }

    /// Whether it has values that differ, of which the application may take any.
    pub(crate) fn is_torn(&self, attribute: &Attribute) -> bool {
        let values = match attribute {
            Attribute::Claim(_) => Some(self.tokens()),
            _ => self.repeated(attribute),
        };
        values.is_some_and(|values| repeated::are_torn(&values))
    }

    /// Whether a value of an attribute is as it should be. Of several, perhaps if one is: a client
    /// that sends another beside it should not get around a match. And surely if all are: nor
    /// should it be let through by one.
    pub(crate) fn has_value(
        &self,
        attribute: &Attribute,
        certainty: Certainty,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        match self.repeated_as(attribute, certainty) {
            Some(mut values) => {
                // Each is asked about once, however often it was sent.
                values.sort_unstable();
                values.dedup();
                let says_more = self.says_too_much(attribute);
                let mut is_it = |value: &Cow<'_, [u8]>| !value.is_empty() && fits(value);
                match certainty {
                    Certainty::Perhaps => values.iter().any(is_it) || says_more,
                    Certainty::Surely => {
                        !says_more && !values.is_empty() && values.iter().all(&mut is_it)
                    }
                }
            }
            // A match that says `GET` is for what asks for that without its body, too.
            None if *attribute == Attribute::Method && is_head(self.request.method()) => {
                fits(b"HEAD") || fits(b"GET")
            }
            None => self.value(attribute, None).is_some_and(|value| fits(&value)),
        }
    }

    /// All values of what may be sent more than once; `None` for anything else.
    pub(crate) fn repeated(&self, attribute: &Attribute) -> Option<Values<'_>> {
        self.repeated_as(attribute, Certainty::Perhaps)
    }

    fn repeated_as(&self, attribute: &Attribute, certainty: Certainty) -> Option<Values<'_>> {
        match attribute {
            Attribute::Cookie(name) => Some(repeated::cookies(self.request, name, certainty)),
            Attribute::Header(name) => Some(repeated::lines(self.request, name)),
            Attribute::Query(name) => {
                let query = self.request.query().unwrap_or_default();
                Some(repeated::parameters(query, name, certainty))
            }
            Attribute::ApiKey | Attribute::ApiKeyOwner(_) => self.said_of_each_key(attribute),
            Attribute::Claim(name) => self.claims_of_each(name),
            _ => None,
        }
    }

    /// The value of an attribute that is a text, however long: matches and costs look at all of it,
    /// because a client that makes a value longer should not get around them.
    pub(crate) fn value<'f>(
        &'f self,
        attribute: &Attribute,
        within: Option<&Matcher>,
    ) -> Option<Cow<'f, [u8]>> {
        let request = self.request;
        let value = match attribute {
            Attribute::ApiKey | Attribute::ApiKeyOwner(_) => self.said_of_key(attribute)?.into(),
            Attribute::Claim(name) => self.claims()?.get(name)?.into_owned().into_bytes().into(),
            Attribute::Cookie(_) | Attribute::Header(_) | Attribute::Query(_) => {
                repeated::only(self.repeated(attribute)?)?
            }
            Attribute::Given(name) => request.attribute(name)?.as_bytes().into(),
            Attribute::Host => plain_host(request.host()).into_bytes().into(),
            Attribute::Method => plain_method(request.method()),
            Attribute::Path => self.path.text(Case::Ignored).as_bytes().into(),
            Attribute::Segment(number) => {
                self.path.segments(Case::Ignored).nth(number - 1)?.as_bytes().into()
            }
            Attribute::Named(name) => within?.capture(self, name)?.as_bytes().to_vec().into(),
            Attribute::Tier => {
                self.identify.tiers.names.get(self.tier())?.as_bytes().to_vec().into()
            }
            Attribute::Ip => self.client()?.to_string().into_bytes().into(),
            Attribute::Ip6(bits) => {
                let group = self.identify.proxies.group_of(self.client()?, *bits);
                group.to_string().into_bytes().into()
            }
            Attribute::Fingerprint | Attribute::Identity(_) => return self.joined(attribute),
        };
        (!value.is_empty()).then_some(value)
    }

    /// What several attributes are together, for a text of them.
    fn joined(&self, attribute: &Attribute) -> Option<Cow<'_, [u8]>> {
        let mut parts = Parts::new();
        if !self.push(attribute, None, &mut parts) {
            return None;
        }
        if let [Part { value: Value::Bytes(bytes), .. }] = &parts[..] {
            return Some(bytes.to_vec().into());
        }
        let texts: Vec<String> = parts.iter().map(|part| part.value.to_string()).collect();
        Some(texts.join(" ").into_bytes().into())
    }

    /// The claims of the request's token, if it has one that can be believed.
    fn claims(&self) -> Option<&Claims> {
        self.claims.get_or_init(|| self.look_for_claims()).as_ref()
    }

    fn look_for_claims(&self) -> Option<Claims> {
        let token = repeated::only(self.tokens())?;
        self.claims_of(&token)
    }

    fn claims_of(&self, token: &[u8]) -> Option<Claims> {
        self.identify.tokens.as_ref()?.claims(without_scheme(token), self.now).ok()
    }

    /// What was sent where the token is looked for.
    fn tokens(&self) -> Values<'_> {
        let token_in = self.identify.token_in.as_ref().filter(|_| self.identify.tokens.is_some());
        token_in.and_then(|attribute| self.repeated(attribute)).unwrap_or_default()
    }

    /// A claim of each token, where several were sent, empty for a token without it; `None` where
    /// there is one or none.
    fn claims_of_each(&self, name: &str) -> Option<Values<'_>> {
        let tokens = self.different_tokens();
        if tokens.len() < 2 {
            return None;
        }
        let claim = |token: &Cow<'_, [u8]>| {
            let claim = self.claims_of(token)?.get(name)?.into_owned();
            Some(Cow::Owned(claim.into_bytes()))
        };
        Some(tokens.iter().take(TOKENS_MAX).map(|it| claim(it).unwrap_or_default()).collect())
    }

    /// The tokens that differ, in the order in which they were sent; of too many the first.
    fn different_tokens(&self) -> Values<'_> {
        let mut different = Values::new();
        for token in self.tokens() {
            if different.len() <= TOKENS_MAX && !different.contains(&token) {
                different.push(token);
            }
        }
        different
    }

    /// Whether more was sent than is looked at: it may have any value, and surely has none.
    pub(crate) fn says_too_much(&self, attribute: &Attribute) -> bool {
        matches!(attribute, Attribute::Claim(_)) && TOKENS_MAX < self.different_tokens().len()
    }
}

/// Of so many tokens in one request the signatures are checked: that is work, and nobody needs two.
const TOKENS_MAX: usize = 4;

/// A token without the word in front of it.
pub(crate) fn without_scheme(token: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"bearer ";
    match token.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => rest.trim_ascii(),
        _ => token,
    }
}
