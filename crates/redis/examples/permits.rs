//! At most so many at the same time, over all nodes of a fleet.
//!
//! Give the address of a Redis or Valkey server: `cargo run --example permits redis://127.0.0.1`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use tidegate_core::{Kind, Quota, Span};
use tidegate_redis::Fleet;
use tidegate_store::Limiter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    // A permit whose holder vanishes comes back after its lease: ten seconds.
    let lease = Span::from_secs(10);
    let redis = Fleet::connect(&url).await?;
    let limiter = Limiter::builder()
        .each("exports", (Kind::Concurrency, Quota::in_flight(2, lease)))
        .build_on(Arc::new(redis))?;

    let first = limiter.key("acme").enter().await;
    let second = limiter.key("acme").enter().await;
    println!("first: {}, second: {}", first.is_ok(), second.is_ok());
    println!("third: {}", limiter.key("acme").enter().await.is_ok());
    if let Ok(permit) = first {
        permit.release().await;
    }
    println!("after the first is done: {}", limiter.key("acme").enter().await.is_ok());
    Ok(())
}
