//! One limit for all nodes of a service: what is left is kept in Redis or Valkey.
//!
//! `redis-server &`, then start it twice and ask both:
//! `cargo run --example fleet --features axum,redis -- 127.0.0.1:8080 redis://127.0.0.1:6379`

use std::net::SocketAddr;
use std::time::Duration;

use axum::{Router, routing::get};
use tidegate_redis::{Fleet, RedisStore};
use tidegate_tower::{Gate, TidegateLayer};

/// The policy. While Redis does not answer, each node decides by its share of the quota.
pub const POLICY: &str = "
name: shop
on_store_error: local
rules:
  - { name: per-client, key: ip, limit: 5/min }
";

/// The gate of one node.
pub async fn gate(url: &str) -> Result<Gate, Box<dyn std::error::Error>> {
    // It starts also without Redis, and uses it as soon as it answers.
    let store = RedisStore::builder(url.parse()?).deadline(Duration::from_millis(100));
    let store = store.connect().await?;
    Ok(Gate::builder().text(POLICY).store(Fleet::new(store)).open()?)
}

/// The app behind it.
pub fn app(gate: Gate) -> Router {
    let app = Router::new().route("/", get(|| async { "hello" }));
    app.layer(TidegateLayer::new(gate).for_axum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let app = app(gate(&url).await?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
