//! Who pays more may ask more often. The plan is looked up by a middleware in front of the layer.
//!
//! `curl -i -H 'x-api-key: gold' localhost:8080`

use std::net::SocketAddr;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing::get};
use tidegate_tower::{Attributes, Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
tiers: { from: attribute:plan, default: free }
rules:
  - name: per-user
    key: user
    limit: { free: 3/min, pro: 6/min, partner: unlimited }
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    let app = Router::new().route("/", get(|| async { "hello" }));
    // The last one that is added is the first one that is asked.
    app.layer(TidegateLayer::new(gate).for_axum()).layer(from_fn(identify))
}

async fn identify(mut request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok());
    let (user, plan) = match key {
        Some("gold") => ("ada", "pro"),
        Some("platinum") => ("eve", "partner"),
        _ => ("anonymous", "free"),
    };
    request.extensions_mut().insert(Attributes::new().with("user", user).with("plan", plan));
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
