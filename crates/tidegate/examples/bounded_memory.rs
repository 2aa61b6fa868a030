//! A cap on memory: a flood of new keys neither grows the store nor resets anybody.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Limiter, MemoryStore, Quota};

fn main() -> Result<(), tidegate::BuildError> {
    let limiter = Limiter::builder()
        .each("per-client", Quota::per_day(1_000))
        .store(MemoryStore::with_keys_max(10_000))
        .build()?;
    limiter.key("ada").cost(990).decide();
    for spray in 0..1_000_000 {
        limiter.decide(("spray", spray));
    }
    println!("{} keys are remembered", limiter.keys());
    println!("ada has {} left", limiter.peek("ada").remaining);
    Ok(())
}
