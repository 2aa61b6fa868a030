//! A real Envoy asks, and clients of it see what was decided.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use tidegate_server::rls::RlsSettings;
use tidegate_testbed::{Daemon, Http, HttpAnswer, Program, Ready};
use tokio::task::block_in_place;

use crate::stand::{Files, NO_RULES, Stand, until};

const PER_PLAN: &str = "
rules: [{ name: per-plan, key: 'attribute:plan', limit: 2/day, if_missing: skip }]
";

/// An Envoy in front of itself: what comes in by the first port is limited, and answered by the
/// second.
struct Proxy {
    _envoy: Daemon,
    port: u16,
}

impl Proxy {
    fn new(grpc: SocketAddr) -> Result<Proxy> {
        let mut builder = Daemon::builder()?;
        let (front, back) = (builder.port()?, builder.port()?);
        let text = CONFIG
            .replace("$MANAGER", MANAGER)
            .replace("$FRONT", &front.to_string())
            .replace("$BACK", &back.to_string())
            .replace("$GRPC", &grpc.port().to_string());
        let path = builder.write("envoy.yaml", &text)?;
        let mut command = Program::Envoy.command()?;
        command.arg("-c").arg(path).args(["--disable-hot-restart", "--concurrency", "1"]);
        command.args(["--log-level", "warning"]);
        let envoy = builder.start(command, Ready::Answers(front, "/ready".to_owned()))?;
        Ok(Proxy { _envoy: envoy, port: front })
    }

    fn get(&self, plan: &str) -> HttpAnswer {
        block_in_place(|| {
            let mut http = Http::connect(self.port).expect("it listens");
            http.send("GET", "/", &[("x-plan", plan)], b"").expect("it answers")
        })
    }

    fn statuses(&self, plan: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(plan).status).collect()
    }
}

fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    let mut named = answer.headers.iter().filter(|(other, _)| other == name);
    named.next().map(|(_, value)| value.as_str())
}

/// Whether there is an Envoy to run.
#[expect(clippy::print_stdout, reason = "a test says that it was skipped")]
fn is_there() -> bool {
    let is_there = Program::Envoy.is_there();
    if !is_there {
        println!("skipped: there is no envoy here; `cargo xtask servers` installs it");
    }
    is_there
}

async fn server_at(port: u16, policy: &str, folder: Option<&Path>) -> Stand {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    Stand::at(at, policy, folder, RlsSettings::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_limits_by_our_policy_and_comes_back_after_a_restart() {
    if !is_there() {
        return;
    }
    let stand = server_at(0, PER_PLAN, None).await;
    let grpc = stand.grpc;
    let envoy = block_in_place(|| Proxy::new(grpc)).unwrap();
    let first = envoy.get("free");
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(header(&first, "ratelimit-policy"), Some("\"per-plan\";q=2;w=86400"));
    assert!(header(&first, "ratelimit").unwrap().starts_with("\"per-plan\";r=1;t="));
    assert_eq!(header(&first, "x-ratelimit-remaining"), Some("1"), "by Envoy itself");
    assert_eq!(envoy.statuses("free", 3), [200, 429, 429]);
    let refused = envoy.get("free");
    assert!(header(&refused, "retry-after").is_some(), "{refused:?}");
    assert_eq!(header(&refused, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(envoy.get("paid").status, 200);
    stand.stop().await;
    assert_eq!(envoy.get("paid").status, 500, "nobody decides, and Envoy is told to deny");
    let stand = server_at(grpc.port(), PER_PLAN, None).await;
    until("Envoy has connected again", async || envoy.get("other").status == 200).await;
    assert_eq!(envoy.statuses("free", 3), [200, 200, 429]);
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_limits_by_the_files_of_ratelimit_as_they_change() {
    if !is_there() {
        return;
    }
    let limit = "rate_limit: { unit: year, requests_per_unit: 2 }";
    let web = format!(
        "
- {{ key: plan, {limit} }}
- {{ key: plan, value: watched, shadow_mode: true, {limit} }}
"
    );
    let files = Files::new(&web);
    let stand = server_at(0, NO_RULES, Some(files.path())).await;
    let grpc = stand.grpc;
    let envoy = block_in_place(|| Proxy::new(grpc)).unwrap();
    assert_eq!(envoy.statuses("free", 4), [200, 200, 429, 429]);
    assert_eq!(envoy.statuses("watched", 4), [200; 4]);
    let refused = envoy.get("free");
    assert_eq!(header(&refused, "x-ratelimit-limit"), Some("2, 2;w=31536000"), "{refused:?}");
    assert_eq!(header(&refused, "ratelimit-policy"), Some("\"web/plan\";q=2;w=31536000"));
    files.write(&web.replacen("requests_per_unit: 2", "requests_per_unit: 4", 1));
    until("the limit is raised", async || envoy.get("free").status == 200).await;
    assert_eq!(envoy.statuses("free", 2), [200, 429]);
    stand.stop().await;
}

const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.\
                       http_connection_manager.v3.HttpConnectionManager";

const CONFIG: &str = r#"
static_resources:
  listeners:
  - name: front
    address: { socket_address: { address: 127.0.0.1, port_value: $FRONT } }
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": $MANAGER
          stat_prefix: front
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { path: /ready }
                direct_response: { status: 200 }
              - match: { prefix: / }
                route:
                  cluster: back
                  rate_limits:
                  - actions:
                    - request_headers: { header_name: x-plan, descriptor_key: plan }
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: web
              timeout: 5s
              failure_mode_deny: true
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: { envoy_grpc: { cluster_name: tidegate } }
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  - name: back
    address: { socket_address: { address: 127.0.0.1, port_value: $BACK } }
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": $MANAGER
          stat_prefix: back
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: / }
                direct_response: { status: 200, body: { inline_string: hello } }
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: back
    type: STATIC
    load_assignment:
      cluster_name: back
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: $BACK } } }
  - name: tidegate
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment:
      cluster_name: tidegate
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: $GRPC } } }
"#;
