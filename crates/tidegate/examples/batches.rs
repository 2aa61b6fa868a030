//! Many decisions in one call: the clock is read once, and memory is fetched side by side.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Limiter, Quota};

fn main() -> Result<(), tidegate::BuildError> {
    let limiter = Limiter::new(Quota::per_second(2))?;
    let requests = ["ada", "bob", "ada", "ada", "bob", "cleo"];
    let mut passed = Vec::new();
    limiter.decide_batch(requests, |decision| passed.push(decision.verdict.passes()));
    for (client, passed) in requests.iter().zip(passed) {
        println!("{client}: {}", if passed { "passes" } else { "refused" });
    }
    Ok(())
}
