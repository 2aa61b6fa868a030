//! One limit for each client, in ten lines.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Limiter, Quota, Verdict};

fn main() -> Result<(), tidegate::BuildError> {
    let limiter = Limiter::new(Quota::per_minute(100).burst(3))?;
    for request in 1..=5 {
        let decision = limiter.decide(("client", 42));
        match decision.verdict {
            Verdict::Allow => println!("{request}: passes, {} left", decision.remaining),
            Verdict::Deny { retry_after } => println!("{request}: come back in {retry_after}"),
            other => println!("{request}: {other:?}"),
        }
    }
    Ok(())
}
