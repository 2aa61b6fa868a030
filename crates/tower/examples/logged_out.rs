//! Those who have not logged in get 30 requests a minute for each endpoint, by address and browser.
//!
//! `curl -i localhost:8080`

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy.
pub const POLICY: &str = "
rules:
  - name: logged-out
    match: { not: { header: { authorization: '*' } } }
    key: fingerprint
    limit: 30/min
  - name: logged-in
    match: { header: { authorization: '*' } }
    key: header:authorization
    limit: 600/min
";

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    let page = || async { "a page" };
    let app = Router::new().route("/", get(page)).route("/about", get(page));
    app.layer(TidegateLayer::new(gate).for_axum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = app(Gate::from_text(POLICY)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
