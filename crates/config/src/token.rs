//! Stub.
use crate::misread::Misread;
use std::borrow::Cow;
use tidegate_core::{Span, Tick};
#[derive(Debug)]
pub(crate) struct Tokens;
#[derive(Debug)]
pub(crate) struct Claims;
#[derive(Debug, Default)]
pub(crate) struct TokenSettings {
    pub(crate) secrets: Vec<Vec<u8>>,
    pub(crate) pems: Vec<Vec<u8>>,
    pub(crate) key_set: Option<Vec<u8>>,
    pub(crate) issuers: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) leeway: Span,
    pub(crate) allow_without_expiry: bool,
    pub(crate) dangerously_trust_unverified: bool,
}
impl Tokens {
    pub(crate) fn new(_: TokenSettings) -> Result<Tokens, Misread> {
        Ok(Tokens)
    }
    pub(crate) fn claims(&self, _: &[u8], _: Tick) -> Result<Claims, ()> {
        Err(())
    }
}
impl Claims {
    pub(crate) fn get(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }
}
