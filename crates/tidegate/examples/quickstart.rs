//! The program of the README. `cargo run --example quickstart --features axum`, and in another
//! terminal `for i in $(seq 6); do curl -i localhost:3000; done`.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::tower::{Gate, TidegateLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = "rules: [{ name: per-client, key: ip, limit: 100/min, burst: 5 }]";
    let gate = Gate::from_text(policy)?; // or `Gate::from_file("policy.yaml")?`
    let app = Router::new().route("/", get(|| async { "hello\n" }));
    let app = app.layer(TidegateLayer::new(gate).for_axum());
    let app = app.into_make_service_with_connect_info::<SocketAddr>(); // for `key: ip`
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    axum::serve(tokio::net::TcpListener::bind(address).await?, app).await?;
    Ok(())
}
