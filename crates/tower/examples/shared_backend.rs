//! A backend that does four things at a time, shared by all its callers: customers who pay get four
//! times as much of it, exports wait for everything else, and nobody waits for longer than 2 s.
//!
//! `for i in $(seq 50); do curl -s -H 'x-api-key: demo' localhost:8080/search & done`
//! `time curl -H 'x-api-key: other' localhost:8080/search`

use std::net::SocketAddr;
use std::time::Duration;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = concat!(
    "api_keys: { header: x-api-key, file: '",
    env!("CARGO_MANIFEST_DIR"),
    "/examples/keys.yaml' }
identify: { client: [api-key, ip] }
tiers: { default: free, names: [free, paid] }
share:
  - name: backend
    capacity: 4 in flight
    by: client
    weight: { free: 1, paid: 4 }
    class: { low: { path: /export } }
    wait: 2s
",
);

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    let app = Router::new().route("/search", get(work)).route("/export", get(work));
    app.layer(TidegateLayer::new(gate).for_axum())
}

/// Something slow.
async fn work() -> &'static str {
    tokio::time::sleep(Duration::from_millis(100)).await;
    "done\n"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
