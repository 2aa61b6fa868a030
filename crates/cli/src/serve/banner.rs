//! What is printed when the server is ready: where it is, and what to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tidegate_server::Addresses;

/// Where the doors are, and a command to try for each.
pub(super) fn banner(at: Addresses, policy: &str, store: &str, own_token: Option<&str>) -> String {
    let mut text = format!("tidegate is ready: policy {policy}, states in {store}\n");
    let place = |at: Option<SocketAddr>| at.map_or("off".to_owned(), |at| at.to_string());
    let doors = [("http", at.http), ("grpc", at.grpc), ("resp", at.resp)];
    for (name, at) in doors {
        let _ = writeln!(text, "  {name}  {}", place(at));
    }
    text.push_str("\nTry:\n");
    if let Some(at) = at.http {
        let _ = writeln!(
            text,
            "  curl --json '{{\"path\":\"/search\",\"ip\":\"192.0.2.1\"}}' http://{at}/v1/check"
        );
    }
    if let Some(at) = at.resp {
        let _ = writeln!(
            text,
            "  redis-cli -h {} -p {} TIDEGATE.CHECK PATH /search IP 192.0.2.1",
            at.ip(),
            at.port()
        );
    }
    if let Some(at) = at.grpc {
        let _ = writeln!(
            text,
            "  grpcurl -plaintext -d '{{\"domain\":\"demo\",\"descriptors\":[{{\"entries\":\
             [{{\"key\":\"remote_address\",\"value\":\"192.0.2.1\"}}]}}]}}' \\\n    \
             {at} envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        );
    }
    if let (Some(at), Some(token)) = (at.http, own_token) {
        let _ = writeln!(
            text,
            "  curl --json '{{\"path\":\"/search\",\"ip\":\"192.0.2.1\"}}' \\\n    \
             -H 'authorization: Bearer {token}' http://{at}/v1/reset"
        );
    }
    text
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
                (true, false) => "no tokens: whoever reaches it may use it; see --token-file",
                (false, false) => {
                    "neither TLS nor tokens: whoever reaches it may use it; see --tls-certificate \
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

    #[test]
    fn a_closed_door_is_not_to_be_tried() {
        let text = banner(at("127.0.0.1:1"), "sample", "memory", None);
        assert!(text.contains("http://127.0.0.1:1/v1/check"));
        assert!(text.contains("redis-cli -h 127.0.0.1 -p 2 "));
        assert!(text.contains("grpc  off") && !text.contains("grpcurl"));
        assert!(!text.contains("Bearer"));
    }

    #[test]
    fn a_token_of_its_own_is_shown_with_what_it_is_for() {
        let text = banner(at("127.0.0.1:1"), "sample", "memory", Some("0123"));
        assert!(text.contains("Bearer 0123' http://127.0.0.1:1/v1/reset"), "{text}");
    }
}
