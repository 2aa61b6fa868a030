//! Waiting for a turn in async code: first come, first served, with a deadline.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limiter, Quota};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Arc::new(Limiter::new(Quota::per_second(50).burst(1))?);
    let start = limiter.now();
    let tasks: Vec<_> = (0..5)
        .map(|task| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                let passed = limiter.key("partner-api").acquire(Duration::from_secs(1)).await;
                (task, passed.is_ok(), limiter.now())
            })
        })
        .collect();
    for task in tasks {
        let (task, passed, at) = task.await?;
        println!("task {task}: passed: {passed}, after {} ms", at.since(start).get() / 1_000);
    }
    // What cannot pass in time is refused at once, with the wait that it would have taken.
    let refused = limiter.key("partner-api").acquire(Duration::from_millis(1)).await;
    println!("within a millisecond: {:?}", refused.err().map(|decision| decision.verdict));
    Ok(())
}
