//! An export costs as much as ten other requests, and a preview costs nothing.
//!
//! `curl -i -X POST localhost:8080/export/orders`

use std::net::SocketAddr;

use axum::routing::{get, post};
use axum::{Router, response::IntoResponse};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
costs:
  - { method: POST, path: /export/**, cost: 10 }
  - { path: /preview, cost: 0 }
rules:
  - { name: per-client, key: ip, limit: 25/min }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    async fn done() -> impl IntoResponse {
        "done"
    }
    let app = Router::new().route("/", get(done)).route("/preview", get(done));
    app.route("/export/{what}", post(done)).layer(TidegateLayer::new(gate).for_axum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
