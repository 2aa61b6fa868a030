//! Smooth output: a leaky queue gives every call its slot, evenly spaced.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Kind, Limiter, Quota, Verdict};

fn main() -> Result<(), tidegate::BuildError> {
    // A partner takes ten calls a second, and we are willing to keep five waiting.
    let limiter = Limiter::new((Kind::LeakyQueue, Quota::per_second(10).burst(5)))?;
    for call in 1..=7 {
        match limiter.decide("partner").verdict {
            Verdict::Allow => println!("call {call}: now"),
            Verdict::Delay { by } => println!("call {call}: in {} ms", by.get() / 1_000),
            Verdict::Deny { retry_after } => {
                println!("call {call}: the queue is full for {} ms", retry_after.get() / 1_000);
            }
            Verdict::Never => println!("call {call}: never"),
        }
    }
    Ok(())
}
