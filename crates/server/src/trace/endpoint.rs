//! Where a collector is: `http://host:4318`, as OpenTelemetry's own settings name it.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;

/// A collector that takes OTLP over HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceEndpoint {
    pub(super) is_tls: bool,
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What is in the header of that name.
    pub(super) authority: String,
    /// Where spans are posted to.
    pub(super) path: String,
}

/// A text that names no collector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadEndpoint;

/// Where OTLP over HTTP is spoken, unless something else is said.
const PORT: u16 = 4318;

/// Where it is spoken over gRPC, which we do not.
const GRPC_PORT: u16 = 4317;

impl TraceEndpoint {
    /// What may be wrong with it, for who finds nothing there.
    pub(super) fn hint(&self) -> &'static str {
        if self.port == GRPC_PORT {
            return "; 4317 is OTLP's port for gRPC: give the one for HTTP, usually 4318";
        }
        ""
    }
}

impl FromStr for TraceEndpoint {
    type Err = BadEndpoint;

    /// `/v1/traces` is added to the path.
    fn from_str(text: &str) -> Result<TraceEndpoint, BadEndpoint> {
        let uri: Uri = text.parse().map_err(|_| BadEndpoint)?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(BadEndpoint),
        };
        let authority = uri.authority().ok_or(BadEndpoint)?;
        let (host, port) = (authority.host(), authority.port_u16());
        // A port that is none is not a port that was left out.
        let has_port = authority.as_str().len() != host.len();
        if host.is_empty() || uri.query().is_some() || has_port != port.is_some() {
            return Err(BadEndpoint);
        }
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let port = port.unwrap_or(PORT);
        Ok(TraceEndpoint {
            is_tls,
            host: inner.unwrap_or(host).to_owned(),
            port,
            authority: format!("{host}:{port}"),
            path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
        })
    }
}

impl fmt::Display for TraceEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl fmt::Display for BadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("give where a collector takes OTLP over HTTP, such as http://127.0.0.1:4318")
    }
}

impl std::error::Error for BadEndpoint {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_posted_below_what_is_said() {
        for (text, expected) in [
            ("http://collector", "http://collector:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://[::1]:1/otlp/", "https://[::1]:1/otlp/v1/traces"),
        ] {
            let endpoint: TraceEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), expected);
        }
        let endpoint: TraceEndpoint = "http://[::1]".parse().unwrap();
        assert_eq!((&*endpoint.host, &*endpoint.authority), ("::1", "[::1]:4318"));
    }

    #[test]
    fn what_is_no_collector_is_refused() {
        for wrong in
            ["", "collector:4318", "grpc://a", "http://", "http://a:b", "http://u@a", "http://a?b"]
        {
            assert_eq!(wrong.parse::<TraceEndpoint>(), Err(BadEndpoint), "{wrong}");
        }
    }

    #[test]
    fn the_port_of_grpc_is_pointed_out() {
        let hint = |text: &str| text.parse::<TraceEndpoint>().unwrap().hint();
        assert!(hint("http://a:4317").contains("4318"));
        assert_eq!(hint("http://a:4318"), "");
    }
}
