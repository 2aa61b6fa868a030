//! Ten requests a second at an even pace: bursts are held back, and what comes on top is refused.
//!
//! `seq 9 | xargs -P 9 -I{} curl -so /dev/null -w '%{http_code} %{time_total}\n' localhost:8080`

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - { name: smooth, algorithm: leaky-queue, limit: 10/s, burst: 4 }
";

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
