//! At most two uploads of a client at a time; a third is refused until one has ended.
//!
//! `curl -i --limit-rate 10k -T large.file localhost:8080/upload`

use std::net::SocketAddr;

use axum::{Router, body::Bytes, routing::put};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - { name: uploads, key: ip, algorithm: concurrency, limit: 2 in flight, lease: 10min }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    Router::new().route("/upload", put(upload)).layer(TidegateLayer::new(gate).for_axum())
}

async fn upload(body: Bytes) -> String {
    format!("{} bytes", body.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
