//! What is printed when the server is ready: where it is, and what to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tidegate_server::Addresses;

/// What is known when the server is ready.
#[derive(Debug)]
pub(super) struct Ready {
    /// Where the doors are.
    pub(super) at: Addresses,
    /// What decides: a policy, or files of envoyproxy/ratelimit.
    pub(super) decides: String,
    /// Where states are.
    pub(super) store: &'static str,
    /// The domain of the gRPC door, if its files have one.
    pub(super) domain: Option<String>,
    /// Whether requests can be checked by a policy.
    pub(super) has_policy: bool,
    /// What callers have to show.
    pub(super) proofs: Proofs,
    /// The token that the server made for itself.
    pub(super) own_token: Option<String>,
}

/// What callers have to show, and to see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proofs {
    pub(super) has_tls: bool,
    pub(super) wants_certificate: bool,
    pub(super) wants_token: bool,
}

impl Ready {
    /// Where the doors are, and a command to try for each.
    pub(super) fn text(&self) -> String {
        let Ready { at, decides, store, own_token, .. } = self;
        let mut text = format!("tidegate is ready: {decides}, states in {store}\n");
        let tls = if self.proofs.has_tls { ", with TLS" } else { "" };
        let doors = [("http", at.http), ("grpc", at.grpc), ("resp", at.resp)];
        for (name, at) in doors {
            let place = at.map_or("off".to_owned(), |at| format!("{at}{tls}"));
            let _ = writeln!(text, "  {name}  {place}");
        }
        text.push_str("\nTry:\n");
        text.extend(at.http.map(|at| self.by_http(at)));
        text.extend(at.resp.map(|at| self.by_resp(at)));
        text.extend(at.grpc.map(|at| self.by_grpc(at)));
        if let (Some(at), Some(token)) = (at.http, own_token) {
            let _ = writeln!(
                text,
                "  curl --json '{{\"path\":\"/search\",\"ip\":\"192.0.2.1\"}}' \\\n    \
                 -H 'authorization: Bearer {token}' http://{at}/v1/reset"
            );
        }
        text
    }

    /// As one line of the log.
    pub(super) fn log(&self) {
        let place = |at: Option<SocketAddr>| at.map_or("off".to_owned(), |at| at.to_string());
        tracing::info!(
            http = place(self.at.http),
            grpc = place(self.at.grpc),
            resp = place(self.at.resp),
            tls = self.proofs.has_tls,
            decides = self.decides,
            store = self.store,
            "ready"
        );
    }

    fn by_http(&self, at: SocketAddr) -> String {
        let scheme = if self.proofs.has_tls { "https" } else { "http" };
        let flags = self.proofs.flags("--cacert", "--cert", "--key", "-H 'x-tidegate-token: ");
        if !self.has_policy {
            return format!("  curl {flags}--json '{}' {scheme}://{at}/json\n", self.descriptors());
        }
        format!(
            "  curl {flags}--json '{{\"path\":\"/search\",\"ip\":\"192.0.2.1\"}}' \
             {scheme}://{at}/v1/check\n"
        )
    }

    fn by_resp(&self, at: SocketAddr) -> String {
        let (host, port) = (at.ip(), at.port());
        let tls = if self.proofs.has_tls { "--tls " } else { "" };
        let flags = self.proofs.flags("--cacert", "--cert", "--key", "-a '");
        let command = if self.has_policy {
            "TIDEGATE.CHECK PATH /search IP 192.0.2.1"
        } else {
            "CL.THROTTLE ada 15 30 60"
        };
        format!("  redis-cli -h {host} -p {port} {tls}{flags}{command}\n")
    }

    fn by_grpc(&self, at: SocketAddr) -> String {
        let tls = if self.proofs.has_tls { "" } else { "-plaintext " };
        let flags = self.proofs.flags("-cacert", "-cert", "-key", "-H 'x-tidegate-token: ");
        format!(
            "  grpcurl {tls}{flags}-d '{}' \\\n    \
             {at} envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit\n",
            self.descriptors(),
        )
    }

    /// A request of Envoy's, as JSON.
    fn descriptors(&self) -> String {
        let domain = self.domain.as_deref().unwrap_or("demo");
        let entry = r#"{"key":"remote_address","value":"192.0.2.1"}"#;
        format!(r#"{{"domain":"{domain}","descriptors":[{{"entries":[{entry}]}}]}}"#)
    }
}

impl Proofs {
    /// What a client has to be given beside its request, by the names that it has for it.
    fn flags(self, authority: &str, certificate: &str, key: &str, token: &str) -> String {
        let mut flags = String::new();
        if self.has_tls {
            let _ = write!(flags, "{authority} CA.PEM ");
        }
        if self.wants_certificate {
            let _ = write!(flags, "{certificate} CLIENT.PEM {key} CLIENT-KEY.PEM ");
        }
        if self.wants_token {
            let _ = write!(flags, "{token}TOKEN' ");
        }
        flags
    }
}

/// What should be said about doors that strangers can reach.
pub(super) fn warnings(at: Addresses, has_tls: bool, has_guard: bool) -> Vec<String> {
    let doors = [("http", at.http), ("grpc", at.grpc), ("resp", at.resp)];
    let public = doors.into_iter().filter_map(|(name, at)| Some((name, at?)));
    let public = public.filter(|(_, at)| !at.ip().is_loopback());
    public
        .filter_map(|(name, at)| {
            let lacks = match (has_tls, has_guard) {
                (true, true) => return None,
                (false, true) => "no TLS: tokens can be read on the way; see --tls-certificate",
                (true, false) => "no tokens: every caller may use it; see --token-file",
                (false, false) => {
                    "neither TLS nor tokens: every caller may use it; see --tls-certificate \
                     and --token-file"
                }
            };
            Some(format!("the {name} door at {at} is open to other machines with {lacks}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(http: &str) -> Addresses {
        Addresses { http: http.parse().ok(), grpc: None, resp: "127.0.0.1:2".parse().ok() }
    }

    #[test]
    fn only_what_strangers_reach_is_warned_about() {
        assert!(warnings(at("127.0.0.1:1"), false, false).is_empty());
        assert_eq!(warnings(at("0.0.0.0:1"), false, false).len(), 1);
        assert!(warnings(at("0.0.0.0:1"), true, true).is_empty());
        assert!(warnings(at("0.0.0.0:1"), false, true)[0].contains("no TLS"));
    }

    fn ready(proofs: Proofs, own_token: Option<&str>) -> String {
        let at = at("127.0.0.1:1");
        let own_token = own_token.map(str::to_owned);
        let decides = "policy sample".to_owned();
        Ready { at, decides, store: "memory", domain: None, has_policy: true, proofs, own_token }
            .text()
    }

    #[test]
    fn a_closed_door_is_not_to_be_tried() {
        let text = ready(Proofs::default(), None);
        assert!(text.contains("http://127.0.0.1:1/v1/check"));
        assert!(text.contains("redis-cli -h 127.0.0.1 -p 2 TIDEGATE.CHECK "));
        assert!(text.contains("grpc  off") && !text.contains("grpcurl"));
        assert!(!text.contains("Bearer"));
    }

    #[test]
    fn what_callers_have_to_show_is_in_what_to_try() {
        let proofs = Proofs { has_tls: true, wants_certificate: true, wants_token: true };
        let text = ready(proofs, None);
        let both = "--cacert CA.PEM --cert CLIENT.PEM --key CLIENT-KEY.PEM ";
        assert!(text.contains(&format!("  curl {both}-H 'x-tidegate-token: TOKEN' --json ")));
        assert!(text.contains(" https://127.0.0.1:1/v1/check\n"), "{text}");
        assert!(text.contains(&format!("-p 2 --tls {both}-a 'TOKEN' TIDEGATE.CHECK")), "{text}");
        assert!(text.contains("  http  127.0.0.1:1, with TLS\n"), "{text}");
    }

    #[test]
    fn without_a_policy_none_is_tried() {
        let domain = Some("edge".to_owned());
        let (decides, proofs) = ("1 limit in the domain edge".to_owned(), Proofs::default());
        let at = at("127.0.0.1:1");
        let text = Ready {
            at,
            decides,
            store: "memory",
            domain,
            has_policy: false,
            proofs,
            own_token: None,
        }
        .text();
        assert!(
            text.contains(r#"--json '{"domain":"edge","#) && text.contains(":1/json\n"),
            "{text}"
        );
        assert!(!text.contains("TIDEGATE.CHECK") && !text.contains("/v1/check"), "{text}");
    }

    #[test]
    fn a_token_of_its_own_is_shown_with_what_it_is_for() {
        let text = ready(Proofs::default(), Some("0123"));
        assert!(text.contains("Bearer 0123' http://127.0.0.1:1/v1/reset"), "{text}");
    }
}
