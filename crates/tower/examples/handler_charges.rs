//! A handler that knows best: many results cost more, and none cost nothing.
//!
//! `curl -i localhost:8080/search/12`

use std::net::SocketAddr;

use axum::{Router, extract::Path, routing::get};
use tidegate_tower::{Gate, Limits, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - { name: results, key: ip, limit: 100/min }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    Router::new().route("/search/{results}", get(search)).layer(TidegateLayer::new(gate).for_axum())
}

async fn search(limits: Limits, Path(results): Path<u32>) -> String {
    match results {
        0 => limits.refund(),
        results => limits.set_cost(results),
    }
    format!("{results} results, {} before", limits.decision().remaining)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
