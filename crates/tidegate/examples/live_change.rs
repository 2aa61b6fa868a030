//! Changing a quota while keys are live: what was consumed stays consumed.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Limiter, Quota};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder().each("per-client", Quota::per_minute(100)).build()?;
    limiter.key("ada").cost(80).decide();
    println!("of 100: {} left", limiter.peek("ada").remaining);
    limiter.change("per-client", Quota::per_minute(150))?;
    println!("of 150: {} left", limiter.peek("ada").remaining);
    limiter.change("per-client", Quota::per_minute(50))?;
    println!("of 50: {} left", limiter.peek("ada").remaining);
    Ok(())
}
