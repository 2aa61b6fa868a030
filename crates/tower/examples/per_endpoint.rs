//! Limits by endpoint: searches are dear, each article has its own limit, all else is cheap.
//!
//! `curl -i localhost:8080/api/search`

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - { name: search, match: { path: /api/search }, key: ip, limit: 2/min }
  - { name: article, match: { path: '/api/articles/{id}' }, key: ['{id}'], limit: 3/s }
  - { name: everything, key: ip, limit: 1000/min }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    // Paths in a policy are those that clients send, wherever the layer stands.
    let api = Router::new()
        .route("/search", get(|| async { "found" }))
        .route("/articles/{id}", get(|| async { "an article" }))
        .layer(TidegateLayer::new(gate).for_axum());
    Router::new().nest("/api", api)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
