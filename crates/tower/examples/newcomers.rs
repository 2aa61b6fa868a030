//! Newcomers may come in bursts, but not all day: two limits, and a request passes both or none.
//!
//! `curl -i localhost:8080`

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - { name: burst, key: client, limit: 60/min, burst: 20 }
  - name: daily
    key: client
    algorithm: fixed-window
    limit: 50/day
    time_zone: Europe/Berlin
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    Router::new().route("/", get(|| async { "welcome" })).layer(TidegateLayer::new(gate).for_axum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
