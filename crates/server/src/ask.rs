//! A request as a door received it, for the gate to judge.
//!
//! What nobody said is what `tidegate check` takes for granted: a `GET` of `/`, from nowhere.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate_core::Span;
use tidegate_gate::{Length, Request, without_port};

/// What a caller says of a request; text is borrowed from the wire where it can be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ask<'a> {
    /// Such as `GET`.
    pub method: Cow<'a, str>,
    /// The path as it was sent.
    pub path: Cow<'a, str>,
    /// What follows the question mark.
    pub query: Option<Cow<'a, str>>,
    /// The host; if nobody said, it is in the header of that name.
    pub host: Option<Cow<'a, str>>,
    /// In order; names in lower case, see [`Ask::add_header`].
    pub headers: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
    /// The address that it came from.
    pub ip: Option<IpAddr>,
    /// What only the application knows. The first of a name counts.
    pub attributes: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// What it costs; 0 looks without taking.
    pub cost: Option<u32>,
    /// How long its body is; if nobody said, its headers do.
    pub length: Option<Length>,
    /// For how long its caller waits.
    pub patience: Option<Span>,
}

impl<'a> Ask<'a> {
    /// Takes a path with what follows its question mark, as it stands in the first line of a
    /// request: also one with scheme and host before it, and one with a fragment behind, which is
    /// nothing to a server.
    pub fn set_target(&mut self, target: impl Into<Cow<'a, str>>) {
        let target = target.into();
        let path = path_at(&target);
        let end = target.find('#').unwrap_or(target.len());
        let end_of_path = target[..end].find('?').unwrap_or(end);
        let part = |from: usize, to: usize| -> Cow<'a, str> {
            match &target {
                Cow::Borrowed(target) => target.get(from..to).unwrap_or_default().into(),
                Cow::Owned(target) => target.get(from..to).unwrap_or_default().to_owned().into(),
            }
        };
        self.query = (end_of_path < end).then(|| part(end_of_path + 1, end));
        self.path = part(path.min(end_of_path), end_of_path);
    }

    /// Adds a header, whatever the case of its name.
    pub fn add_header(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) {
        let mut name = name.into();
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            name.to_mut().make_ascii_lowercase();
        }
        self.headers.push((name, value.into()));
    }
}

/// Where the path begins.
fn path_at(target: &str) -> usize {
    let mark = if target.starts_with('/') { None } else { target.find("://") };
    let Some(host) = mark.map(|at| at + "://".len()) else { return 0 };
    target[host..].find(['/', '?', '#']).map_or(target.len(), |at| host + at)
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Ask {
            method: "GET".into(),
            path: "/".into(),
            query: None,
            host: None,
            headers: Vec::new(),
            ip: None,
            attributes: Vec::new(),
            cost: None,
            length: None,
            patience: None,
        }
    }
}

impl Request for Ask<'_> {
    fn method(&self) -> &str {
        &self.method
    }

    fn host(&self) -> &str {
        let in_headers =
            || Request::header(self, "host").and_then(|host| str::from_utf8(host).ok());
        without_port(self.host.as_deref().or_else(in_headers).unwrap_or_default())
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    fn header_lines<'b>(&'b self, name: &str, each: &mut dyn FnMut(&'b [u8])) {
        let lines = self.headers.iter().filter(|(other, _)| other == name);
        lines.for_each(|(_, value)| each(value));
    }

    fn peer(&self) -> Option<IpAddr> {
        self.ip
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| &**value)
    }

    fn cost(&self) -> Option<u32> {
        self.cost
    }

    fn length(&self) -> Length {
        let said = self.length.or_else(|| self.said_length());
        said.unwrap_or_else(|| Length::unsaid(&self.method))
    }

    fn patience(&self) -> Option<Span> {
        self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_path_and_a_query() {
        let split = |target: Cow<'static, str>| {
            let mut ask = Ask::default();
            ask.set_target(target);
            (ask.path.into_owned(), ask.query.map(Cow::into_owned))
        };
        for (target, path, query) in [
            ("/a?b=c", "/a", Some("b=c")),
            ("/a?", "/a", Some("")),
            ("/a", "/a", None),
            ("/a#b?c", "/a", None),
            ("/a?b#c", "/a", Some("b")),
            ("http://a.example/b?c", "/b", Some("c")),
            ("http://a.example?c", "", Some("c")),
            ("http://a.example", "", None),
            ("/a?to=http://b/c", "/a", Some("to=http://b/c")),
            ("*", "*", None),
        ] {
            let expected = (path.to_owned(), query.map(str::to_owned));
            assert_eq!(split(target.into()), expected);
            assert_eq!(split(target.to_owned().into()), expected);
        }
    }

    #[test]
    fn headers_are_found_whatever_their_case() {
        let mut ask = Ask::default();
        ask.add_header("X-Api-Key", &b"\xff"[..]);
        ask.add_header("x-api-key", &b"second"[..]);
        assert_eq!(Request::header(&ask, "x-api-key"), Some(&b"\xff"[..]));
        let mut lines = Vec::new();
        ask.header_lines("x-api-key", &mut |line| lines.push(line));
        assert_eq!(lines, [&b"\xff"[..], b"second"]);
    }

    #[test]
    fn a_host_is_what_was_said_or_else_the_header() {
        let mut ask = Ask::default();
        assert_eq!(ask.host(), "");
        ask.add_header("Host", &b"api.example.com:443"[..]);
        assert_eq!(ask.host(), "api.example.com");
        ask.host = Some("other.example:80".into());
        assert_eq!(ask.host(), "other.example");
    }
}
