//! One tenant sends a thousand requests at once; another's few do not wait behind them.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use tidegate::fair::{FairQueue, Refused};

/// Four at a time, each for a millisecond.
async fn work(queue: FairQueue, tenant: &'static str, weight: u32) -> Result<u64, Refused> {
    let ask = queue.of(tenant).weight(weight);
    let permit = ask.acquire(Duration::from_secs(5)).await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let waited = permit.waited().get() / 1_000;
    // It took as much as it was taken for.
    permit.complete(1);
    Ok(waited)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queue = FairQueue::in_flight(4).build();
    let noisy: Vec<_> = (0..1_000).map(|_| tokio::spawn(work(queue.clone(), "noisy", 1))).collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let quiet: Vec<_> = (0..20).map(|_| tokio::spawn(work(queue.clone(), "quiet", 1))).collect();
    for (name, tasks) in [("quiet", quiet), ("noisy", noisy)] {
        let (count, mut longest) = (tasks.len(), 0);
        for task in tasks {
            longest = longest.max(task.await??);
        }
        println!("{name}: {count} requests, the longest wait was {longest} ms");
    }
    println!("{:?}", queue.stats());
    Ok(())
}
