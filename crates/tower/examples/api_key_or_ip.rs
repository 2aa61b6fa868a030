//! Counts clients by the API key that was given to them, and everybody else by their address: a
//! key that is made up is none.
//!
//! `curl -i -H 'x-api-key: demo' localhost:8080`

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = concat!(
    "api_keys: { header: x-api-key, file: '",
    env!("CARGO_MANIFEST_DIR"),
    "/examples/keys.yaml' }
identify:
  client: [api-key, ip]
rules:
  - { name: ceiling, key: ip, limit: 1000/min, headers: false }
  - { name: per-client, key: client, limit: 100/min, burst: 5 }
",
);

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(TidegateLayer::new(gate).for_axum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
