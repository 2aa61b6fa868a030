//! Known API keys: whose key a request brings along.
//!
//! A key that was never given out has no owner, so no client can choose what it counts as. What is
//! presented is hashed, and the hash is looked up: how long that takes says nothing of other keys.

mod file;
mod hash;
mod write;

use std::collections::HashMap;
use std::fmt;

use foldhash::quality::RandomState;
use tidegate_core::Tick;

pub use self::file::{KeyFile, KeyOwner, KeyProblem, ListedKey};
pub use self::hash::KeyHash;
use crate::attribute::{Attribute, TIER_OF_KEY};
use crate::facts::{Facts, VALUE_BYTES_MAX};
use crate::repeated::Values;
use crate::request::Request;
use crate::values::without_scheme;

/// The header in which a scheme stands before a key.
const AUTHORIZATION: &str = "authorization";

/// The keys that a policy knows.
pub(crate) struct ApiKeys {
    header: Box<str>,
    refuses_unknown: bool,
    keys: HashMap<KeyHash, Known, RandomState>,
    owners: Vec<Owner>,
}

/// A key that was given out.
#[derive(Clone, Copy)]
struct Known {
    /// The owner's place.
    owner: usize,
    expires: Option<Tick>,
}

/// The owner that a key was given to.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) name: Box<str>,
    tier: Option<Box<str>>,
    attributes: Vec<(Box<str>, Box<str>)>,
}

/// What a request brings along.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presented<'k> {
    /// No key.
    Nothing,
    /// A key of this owner.
    Of(&'k Owner),
    /// Several keys. Which of them an application takes is not for us to know.
    Several,
    /// A key that nobody has, or not any more.
    Unknown,
}

impl ApiKeys {
    /// The keys of a file, as they stand in `header`.
    pub(crate) fn new(file: KeyFile, header: Box<str>, refuses_unknown: bool) -> ApiKeys {
        let (mut keys, mut owners) = (HashMap::default(), Vec::new());
        for (name, owner) in file.owners {
            for key in owner.keys {
                keys.insert(key.hash, Known { owner: owners.len(), expires: key.expires });
            }
            let attributes = owner.attributes.into_iter();
            owners.push(Owner {
                name: name.into(),
                tier: owner.tier.map(Into::into),
                attributes: attributes.map(|(name, value)| (name.into(), value.into())).collect(),
            });
        }
        ApiKeys { header, refuses_unknown, keys, owners }
    }

    /// The owners that keys were given to.
    pub(crate) fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// The header that a key is in.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// Whether a request with a key that nobody has is refused.
    pub(crate) fn refuses_unknown(&self) -> bool {
        self.refuses_unknown
    }

    /// How a client that is refused is asked for a key.
    pub(crate) fn challenge(&self) -> String {
        match &*self.header {
            AUTHORIZATION => "Bearer error=\"invalid_token\"".to_owned(),
            header => format!("ApiKey header=\"{header}\""),
        }
    }

    fn presented(&self, request: &dyn Request, now: Tick) -> Presented<'_> {
        let (mut first, mut differs) = (None, false);
        self.each(request, &mut |key| differs |= *first.get_or_insert(key) != key);
        match first {
            None => Presented::Nothing,
            Some(_) if differs => Presented::Several,
            Some(key) => self.owner(key, now).map_or(Presented::Unknown, Presented::Of),
        }
    }

    /// Every key that was sent.
    fn each<'a>(&self, request: &'a dyn Request, each: &mut dyn FnMut(&'a [u8])) {
        request.header_lines(&self.header, &mut |line| {
            let key = self.plain(line);
            if !key.is_empty() {
                each(key);
            }
        });
    }

    fn owner(&self, key: &[u8], now: Tick) -> Option<&Owner> {
        if VALUE_BYTES_MAX < key.len() {
            return None;
        }
        let known = self.keys.get(&KeyHash::of(key))?;
        let is_valid = known.expires.is_none_or(|expires| now < expires);
        is_valid.then(|| self.owners.get(known.owner)).flatten()
    }

    /// A key without what may stand around it.
    fn plain<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let line = line.trim_ascii();
        if *self.header == *AUTHORIZATION { without_scheme(line) } else { line }
    }
}

impl Owner {
    pub(crate) fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }

    /// What the file says of it.
    fn attribute(&self, attribute: &Attribute) -> Option<&str> {
        match attribute {
            Attribute::ApiKeyOwner(name) if **name == *TIER_OF_KEY => self.tier(),
            Attribute::ApiKeyOwner(name) => {
                self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
            }
            _ => Some(&self.name),
        }
    }
}

impl<'r> Facts<'r, '_> {
    /// What the request brings along.
    pub(crate) fn presented(&self) -> Presented<'r> {
        let look = |keys: &'r ApiKeys| keys.presented(self.request, self.now);
        let look = || self.identify.api_keys.as_ref().map_or(Presented::Nothing, look);
        *self.api_key.get_or_init(look)
    }

    /// What the file says of the owner of the key.
    pub(crate) fn said_of_key(&self, attribute: &Attribute) -> Option<&'r [u8]> {
        let Presented::Of(owner) = self.presented() else { return None };
        owner.attribute(attribute).map(str::as_bytes)
    }

    /// What the file says of the owner of each key, where several were sent, empty for a key of
    /// which it says nothing; `None` where there is one or none.
    pub(crate) fn said_of_each_key(&self, attribute: &Attribute) -> Option<Values<'_>> {
        let keys = self.identify.api_keys.as_ref()?;
        let Presented::Several = self.presented() else { return None };
        let mut said = Values::new();
        keys.each(self.request, &mut |key| {
            let owner = keys.owner(key, self.now);
            let value = owner.and_then(|owner| owner.attribute(attribute)).unwrap_or_default();
            said.push(value.as_bytes().into());
        });
        Some(said)
    }

    /// Whether it is refused for a key that nobody has.
    #[inline]
    pub(crate) fn is_refused_for_key(&self) -> bool {
        let keys = self.identify.api_keys.as_ref();
        keys.is_some_and(|keys| keys.refuses_unknown)
            && matches!(self.presented(), Presented::Several | Presented::Unknown)
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}
