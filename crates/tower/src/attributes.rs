//! What others put into a request's extensions: who connected, and what the application knows.

use std::borrow::Cow;
use std::net::IpAddr;

/// The address at the other end of the connection, for servers that are neither axum nor tonic.
///
/// It goes before what those know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Peer(pub IpAddr);

/// What the application knows of a request: `user` and `attribute:…` in a policy.
///
/// ```
/// use tidegate_tower::Attributes;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Attributes::new().with("user", "ada").with("tenant", "acme"));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Attributes(Vec<(Cow<'static, str>, String)>);

impl Attributes {
    /// Nothing yet.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// The attributes with one more; in place of the one that had this name, if there was one.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Attributes {
        self.set(name, value);
        self
    }

    /// Adds one, in place of the one that had this name.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, before)) => *before = value,
            None => self.0.push((name, value)),
        }
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let attributes = Attributes::new().with("user", "ada").with("user", String::from("bob"));
        assert_eq!(attributes.get("user"), Some("bob"));
        assert_eq!(attributes.get("tenant"), None);
    }
}
