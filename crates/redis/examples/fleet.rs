//! One set of limits for many nodes, and what happens while Redis is away.
//!
//! Give the address of a Redis or Valkey server: `cargo run --example fleet redis://127.0.0.1:6379`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use tidegate_core::Quota;
use tidegate_redis::{Fleet, WithoutStore};
use tidegate_store::{Limiter, SharedLimiter};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());

    // Two nodes of a fleet: they share nothing but the server.
    let (here, there) = (node(&url).await?, node(&url).await?);
    for request in 1..=4 {
        let node = if request % 2 == 1 { &here } else { &there };
        let answer = node.decide(("client", "ada")).await;
        println!("request {request}: {}", if answer.verdict().passes() { "passes" } else { "no" });
    }

    // Who was refused is refused again without asking Redis, until time allows it.
    let again = there.decide(("client", "ada")).await;
    println!("again: by {}", again.by());
    println!("bob has {} left", here.key(("client", "bob")).peek().await.decision().remaining);
    Ok(())
}

async fn node(url: &str) -> Result<SharedLimiter, Box<dyn std::error::Error>> {
    let redis = Fleet::connect(url).await?;
    let limiter = Limiter::builder()
        .each("per-client", Quota::per_hour(3))
        // While Redis does not answer, each of two nodes lets half of it pass.
        .without_store(WithoutStore::Local { nodes: 2 })
        .build_on(Arc::new(redis))?;
    Ok(limiter)
}
