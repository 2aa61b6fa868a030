//! A request and a response as the gate sees them.
//!
//! Nothing is copied: rules look up what they ask for, where it is.

use std::net::IpAddr;

use http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version, header};
use tidegate_core::Span;
use tidegate_gate::{Length, Request, Response, without_port};

use crate::attributes::{Attributes, Peer};
use crate::deadline;

/// All of a request but its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) method: &'a Method,
    pub(crate) version: Version,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) extensions: &'a Extensions,
}

/// All of a response but its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
}

impl<'a> Seen<'a> {
    pub(crate) fn new<B>(request: &'a http::Request<B>) -> Seen<'a> {
        Seen {
            method: request.method(),
            version: request.version(),
            uri: original_uri(request.extensions()).unwrap_or_else(|| request.uri()),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// What the client asked for. Where routers are nested, a request's own is only the rest of it, and
/// policies are written for the whole.
fn original_uri(extensions: &Extensions) -> Option<&Uri> {
    #[cfg(feature = "axum")]
    if let Some(original) = extensions.get::<::axum::extract::OriginalUri>() {
        return Some(&original.0);
    }
    let _ = extensions;
    None
}

impl Request for Seen<'_> {
    fn method(&self) -> &str {
        self.method.as_str()
    }

    fn host(&self) -> &str {
        if let Some(host) = self.uri.host() {
            return host;
        }
        let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        without_port(host.unwrap_or_default())
    }

    fn path(&self) -> &str {
        self.uri.path()
    }

    fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes)
    }

    fn header_lines<'b>(&'b self, name: &str, each: &mut dyn FnMut(&'b [u8])) {
        self.headers.get_all(name).iter().for_each(|line| each(line.as_bytes()));
    }

    fn peer(&self) -> Option<IpAddr> {
        peer(self.extensions)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.extensions.get::<Attributes>()?.get(name)
    }

    fn length(&self) -> Length {
        // Of the first version of the protocol, a request that says nothing of a body has none.
        let unsaid = || match self.version {
            Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11 => Length::Known(0),
            _ => Length::unsaid(self.method.as_str()),
        };
        self.said_length().unwrap_or_else(unsaid)
    }

    fn patience(&self) -> Option<Span> {
        deadline::of(self.method, self.headers, self.extensions)
    }
}

impl Response for Answered<'_> {
    fn status(&self) -> u16 {
        self.status.as_u16()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes)
    }
}

fn peer(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(Peer(peer)) = extensions.get() {
        return Some(*peer);
    }
    #[cfg(feature = "axum")]
    if let Some(connected) = extensions.get::<::axum::extract::ConnectInfo<std::net::SocketAddr>>()
    {
        return Some(connected.0.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(connected) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return connected.remote_addr().map(|address| address.ip());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(uri: &str, header: Option<&[u8]>) -> String {
        let mut request = http::Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header("host", header);
        }
        let request = request.body(()).unwrap();
        Request::host(&Seen::new(&request)).to_owned()
    }

    #[test]
    fn a_host_has_no_port() {
        assert_eq!(host("/", Some(b"a.example:80")), "a.example");
        assert_eq!(host("/", Some(b"[::1]:80")), "[::1]");
        assert_eq!(host("http://b.example:80/", Some(b"a.example")), "b.example");
        assert_eq!(host("http://[::1]:80/", None), "[::1]");
        assert_eq!(host("/", Some(b"\xff")), "");
        assert_eq!(host("/", None), "");
    }

    #[test]
    fn our_own_peer_goes_first() {
        let mut request = http::Request::new(());
        assert_eq!(Seen::new(&request).peer(), None);
        let address = IpAddr::from([192, 0, 2, 1]);
        request.extensions_mut().insert(Peer(address));
        assert_eq!(Seen::new(&request).peer(), Some(address));
    }

    #[cfg(feature = "axum")]
    #[test]
    fn axum_knows_the_peer() {
        let mut request = http::Request::new(());
        let connected = std::net::SocketAddr::from(([192, 0, 2, 1], 80));
        request.extensions_mut().insert(axum::extract::ConnectInfo(connected));
        assert_eq!(Seen::new(&request).peer(), Some(connected.ip()));
        let ours = IpAddr::from([192, 0, 2, 2]);
        request.extensions_mut().insert(Peer(ours));
        assert_eq!(Seen::new(&request).peer(), Some(ours));
    }

    #[cfg(feature = "tonic")]
    #[tokio::test]
    async fn tonic_knows_the_peer() {
        use tonic::transport::server::Connected as _;

        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let from = tokio::net::TcpSocket::new_v4().unwrap();
        from.bind("127.0.0.9:0".parse().unwrap()).unwrap();
        let _client = from.connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut request = http::Request::new(());
        request.extensions_mut().insert(stream.connect_info());
        assert_eq!(Seen::new(&request).peer(), Some(IpAddr::from([127, 0, 0, 9])));
    }

    #[test]
    fn a_header_has_lines() {
        let request = http::Request::builder().header("a", "1").header("a", "2").body(()).unwrap();
        let (seen, mut lines) = (Seen::new(&request), Vec::new());
        seen.header_lines("a", &mut |line| lines.push(line));
        assert_eq!(lines, [b"1", b"2"]);
        assert_eq!(Request::header(&seen, "b"), None);
    }
}
