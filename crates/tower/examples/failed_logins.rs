//! Five wrong passwords a minute. Logins that succeed are not counted.
//!
//! `curl -i -d guess localhost:8080/login`

use std::net::SocketAddr;

use axum::http::StatusCode;
use axum::{Router, routing::post};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - name: logins
    match: { method: POST, path: /login }
    key: ip
    limit: 5/min
    counts_when: { status: [401, 403] }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    Router::new().route("/login", post(login)).layer(TidegateLayer::new(gate).for_axum())
}

async fn login(password: String) -> StatusCode {
    if password == "sesame" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
