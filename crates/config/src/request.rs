//! What rules can know of a request, whatever brings it: a tower service, a server's door, a test.

use std::net::IpAddr;

use tidegate_core::Span;

use crate::length::Length;

/// A request as rules see it.
pub trait Request {
    /// Such as `GET`.
    fn method(&self) -> &str;

    /// The host it is for, without a port; empty if nobody said.
    fn host(&self) -> &str;

    /// The path as it was sent.
    fn path(&self) -> &str;

    /// What follows the question mark.
    fn query(&self) -> Option<&str>;

    /// The first value of a header; `name` is in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;

    /// Every line of a header, in order; `name` is in lower case.
    fn header_lines<'a>(&'a self, name: &str, each: &mut dyn FnMut(&'a [u8]));

    /// The address at the other end of the connection.
    fn peer(&self) -> Option<IpAddr>;

    /// What the application itself knows: the user that logged in, a tenant, a size.
    fn attribute(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }

    /// What the caller says that it costs, in cells; 0 looks without taking.
    ///
    /// It stands in for the route's cost. A rule that says its own cost goes by that.
    fn cost(&self) -> Option<u32> {
        None
    }

    /// How long its body is. What its headers do not say for sure is not known.
    fn length(&self) -> Length {
        self.said_length().unwrap_or_else(|| Length::unsaid(self.method()))
    }

    /// The length that its headers say; nothing if they speak of no body.
    fn said_length(&self) -> Option<Length> {
        let (mut comes_in_pieces, mut said) = (false, None);
        self.header_lines("transfer-encoding", &mut |_| comes_in_pieces = true);
        self.header_lines("content-length", &mut |line| {
            let length = Length::read(line);
            said = Some(said.map_or(length, |it: Length| it.and(length)));
        });
        if comes_in_pieces { Some(Length::Unknown) } else { said }
    }

    /// For how long the caller waits, for a turn in a share or in a queue that holds requests back;
    /// without this, for as long as the policy says.
    fn patience(&self) -> Option<Span> {
        None
    }
}

/// A response as rules see it, for those that count by what came out.
pub trait Response {
    /// Such as 200.
    fn status(&self) -> u16;

    /// The first value of a header; `name` is in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;
}

/// A request put together by hand: for `tidegate check`, for tests, for doors that are not HTTP.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    peer: Option<IpAddr>,
    attributes: Vec<(String, String)>,
    cost: Option<u32>,
    patience: Option<Span>,
}

impl Sample {
    /// A request such as `GET /search?q=x`; without a method it is a `GET`.
    pub fn new(line: &str) -> Sample {
        let (method, target) = line.trim().split_once(' ').unwrap_or(("GET", line.trim()));
        // What follows a `#` is not for the server: no client sends it, and no door counts by it.
        let target = target.trim().split('#').next().unwrap_or_default();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        let (method, path) = (method.to_owned(), path.to_owned());
        Sample { method, path, query, ..Sample::default() }
    }

    /// This request with a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Sample {
        self.headers.push((name.to_ascii_lowercase(), value.as_ref().to_vec()));
        self
    }

    /// This request from an address.
    #[must_use]
    pub fn from_peer(mut self, peer: IpAddr) -> Sample {
        self.peer = Some(peer);
        self
    }

    /// This request with something that only the application knows.
    #[must_use]
    pub fn with_attribute(mut self, name: &str, value: &str) -> Sample {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// This request for so many cells, whatever its route costs.
    #[must_use]
    pub fn with_cost(mut self, cells: u32) -> Sample {
        self.cost = Some(cells);
        self
    }

    /// This request by a caller that waits for no longer than `patience`.
    #[must_use]
    pub fn with_patience(mut self, patience: impl Into<Span>) -> Sample {
        self.patience = Some(patience.into());
        self
    }
}

impl Request for Sample {
    fn method(&self) -> &str {
        &self.method
    }

    fn host(&self) -> &str {
        let host = self.header("host").and_then(|host| str::from_utf8(host).ok());
        without_port(host.unwrap_or_default())
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

    fn header_lines<'a>(&'a self, name: &str, each: &mut dyn FnMut(&'a [u8])) {
        let lines = self.headers.iter().filter(|(other, _)| other == name);
        lines.for_each(|(_, value)| each(value));
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| &**value)
    }

    fn cost(&self) -> Option<u32> {
        self.cost
    }

    fn patience(&self) -> Option<Span> {
        self.patience
    }
}

/// A host as it stands in a `Host` header, without its port, and without what may stand behind it:
/// an application that reads a host up to its first colon does not mind a second one.
pub fn without_port(host: &str) -> &str {
    let host = host.trim();
    if let Some(end) = host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        return &host[..end + 2];
    }
    host.split_once(':').map_or(host, |(host, _)| host).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request() {
        let request = Sample::new("POST /export/7?full=yes");
        assert_eq!((request.method(), request.path()), ("POST", "/export/7"));
        assert_eq!(request.query(), Some("full=yes"));
        assert_eq!(Sample::new("/search").method(), "GET");
        let request = Sample::new("/login#x?y");
        assert_eq!((request.path(), request.query()), ("/login", None));
    }

    #[test]
    fn a_port_is_no_part_of_a_host() {
        let hosts = [("a.example:80", "a.example"), ("a.example", "a.example"), ("", "")];
        for (host, plain) in hosts.into_iter().chain([
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("[::1]:80:80", "[::1]"),
            ("a.example:80:80", "a.example"),
            ("a.example:80:", "a.example"),
            ("a.example:", "a.example"),
            (" a.example :80\t", "a.example"),
        ]) {
            assert_eq!(without_port(host), plain, "{host}");
        }
    }
}
