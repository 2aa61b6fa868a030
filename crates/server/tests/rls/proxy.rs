//! A real Envoy between a client and its application.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use tidegate_server::rls::RlsSettings;
use tidegate_testbed::{Daemon, Http, HttpAnswer, Program, Ready};
use tokio::task::block_in_place;

use crate::stand::Stand;

/// Envoy refuses what it gets an error about.
pub(crate) const DENIES: bool = true;

/// Envoy lets pass what it gets an error about, as it does unless told otherwise.
pub(crate) const ALLOWS: bool = false;

/// An Envoy in front of itself: what comes in by the first port is limited, and answered by the
/// second.
pub(crate) struct Proxy {
    _envoy: Daemon,
    port: u16,
}

impl Proxy {
    /// `actions` are the rate limits of its route.
    pub(crate) fn start(grpc: SocketAddr, actions: &str, denies: bool) -> Result<Proxy> {
        let mut builder = Daemon::builder()?;
        let (front, back) = (builder.port()?, builder.port()?);
        let text = CONFIG
            .replace("$MANAGER", MANAGER)
            .replace("$FRONT", &front.to_string())
            .replace("$BACK", &back.to_string())
            .replace("$GRPC", &grpc.port().to_string())
            .replace("$ACTIONS", actions)
            .replace("$DENIES", &denies.to_string());
        let path = builder.write("envoy.yaml", &text)?;
        let mut command = Program::Envoy.command()?;
        command.arg("-c").arg(path).args(["--disable-hot-restart", "--concurrency", "1"]);
        command.args(["--log-level", "warning"]);
        let envoy = builder.start(command, Ready::Answers(front, "/ready".to_owned()))?;
        Ok(Proxy { _envoy: envoy, port: front })
    }

    pub(crate) fn get(&self, plan: &str) -> HttpAnswer {
        block_in_place(|| {
            let mut http = Http::connect(self.port).expect("it listens");
            http.send("GET", "/", &[("x-plan", plan)], b"").expect("it answers")
        })
    }

    /// The status of the answer to a request as it is, on a connection of its own.
    pub(crate) fn status(&self, request: &[u8]) -> u16 {
        block_in_place(|| {
            let mut http = Http::connect(self.port).expect("it listens");
            http.send_bytes(request).expect("it answers").status
        })
    }

    pub(crate) fn statuses(&self, plan: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(plan).status).collect()
    }
}

/// Whether there is an Envoy to run.
#[expect(clippy::print_stdout, reason = "a test says that it was skipped")]
pub(crate) fn is_there() -> bool {
    let is_there = Program::Envoy.is_there();
    if !is_there {
        println!("skipped: there is no envoy here; `cargo xtask servers` installs it");
    }
    is_there
}

pub(crate) async fn server_at(port: u16, policy: &str, folder: Option<&Path>) -> Stand {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    Stand::at(at, policy, folder, RlsSettings::default()).await
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
                  rate_limits: $ACTIONS
          http_filters:
          - name: envoy.filters.http.lua
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
              default_source_code:
                inline_string: |
                  function envoy_on_request(handle)
                    local own = tonumber(handle:headers():get("x-limit"))
                    if own then
                      local limit = { requests_per_unit = own, unit = "DAY" }
                      handle:streamInfo():dynamicMetadata():set("limits", "own", limit)
                    end
                  end
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: web
              timeout: 5s
              failure_mode_deny: $DENIES
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
