//! Who a request is from: named identities, trusted proxies, tokens, tiers.

use crate::address::Proxies;
use crate::api_keys::ApiKeys;
use crate::attribute::Attribute;
use crate::path::{Case, Servers};
use crate::token::Tokens;

/// How the file says to tell clients apart.
#[derive(Debug, Default)]
pub(crate) struct Identify {
    pub(crate) names: Vec<Box<str>>,
    /// For each name: the first alternative that is present counts.
    pub(crate) identities: Vec<Vec<Alternative>>,
    pub(crate) proxies: Proxies,
    pub(crate) api_keys: Option<ApiKeys>,
    pub(crate) tokens: Option<Tokens>,
    /// Where the token is; `Bearer ` in front of it is skipped.
    pub(crate) token_in: Option<Attribute>,
    pub(crate) tiers: Tiers,
    /// For which servers paths are read.
    pub(crate) servers: Servers,
}

impl Identify {
    /// The one attribute that a name stands for, if there is no other: looked up without a detour.
    pub(crate) fn only(&self, name: &Attribute) -> Option<&Attribute> {
        let Attribute::Identity(index) = name else { return None };
        match &self.identities.get(*index)?[..] {
            // What a name stands for may have been named above it.
            [alternative] if let [only] = &alternative[..] => self.only(only).or(Some(only)),
            _ => None,
        }
    }

    /// Whether an attribute is the client's address, or falls back to it.
    pub(crate) fn reads_address(&self, attribute: &Attribute) -> bool {
        match attribute {
            Attribute::Ip | Attribute::Ip6(_) => true,
            Attribute::Identity(index) => {
                let made_of = self.identities.get(*index).into_iter().flatten().flatten();
                made_of.into_iter().any(|it| self.reads_address(it))
            }
            _ => false,
        }
    }
}

/// Attributes that identify somebody together: all have to be present.
pub(crate) type Alternative = Vec<Attribute>;

/// The tiers that rules know, and where a request says which it is of.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    pub(crate) from: Vec<Attribute>,
    /// The default first.
    pub(crate) names: Vec<Box<str>>,
}

impl Tiers {
    /// The tier of a request that says nothing, or something that no rule knows.
    pub(crate) const DEFAULT: usize = 0;

    /// The place of a tier.
    pub(crate) fn index(&self, name: &[u8], case: Case) -> Option<usize> {
        self.names.iter().position(|known| match case {
            Case::Ignored => known.as_bytes().eq_ignore_ascii_case(name),
            Case::Kept => known.as_bytes() == name,
        })
    }
}
