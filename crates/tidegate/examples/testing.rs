//! Testing your own code without sleeping: a clock that you move.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use tidegate::{Limiter, ManualClock, Quota, Span};

/// What is to be tested: at most two mails an hour to one address.
fn may_send(limiter: &Limiter, address: &str) -> bool {
    limiter.decide(("mail", address)).verdict.passes()
}

fn main() -> Result<(), tidegate::BuildError> {
    let clock = Arc::new(ManualClock::new());
    let for_limiter: Arc<ManualClock> = Arc::clone(&clock);
    let limiter =
        Limiter::builder().each("mails", Quota::per_hour(2)).clock(for_limiter).build()?;

    assert!(may_send(&limiter, "ada@example.org"));
    assert!(may_send(&limiter, "ada@example.org"));
    assert!(!may_send(&limiter, "ada@example.org"));
    clock.advance(Span::from_secs(30 * 60));
    assert!(may_send(&limiter, "ada@example.org"));
    println!("an hour's worth of tests, in no time");
    Ok(())
}
