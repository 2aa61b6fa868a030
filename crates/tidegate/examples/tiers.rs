//! Tiers: another quota for each, chosen by the customer's plan.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{BuildError, Decision, Limiter, Quota};

struct Plans {
    free: Limiter,
    pro: Limiter,
}

impl Plans {
    fn new() -> Result<Plans, BuildError> {
        Ok(Plans {
            free: Limiter::new(Quota::per_minute(2))?,
            pro: Limiter::new(Quota::per_minute(1_000))?,
        })
    }

    fn decide(&self, plan: &str, customer: u64) -> Decision {
        let limiter = if plan == "pro" { &self.pro } else { &self.free };
        limiter.decide(("customer", customer))
    }
}

fn main() -> Result<(), BuildError> {
    let plans = Plans::new()?;
    for plan in ["free", "pro"] {
        let passed = (0..100).filter(|_| plans.decide(plan, 1).verdict.passes()).count();
        println!("{plan}: {passed} of 100 pass at once");
    }
    Ok(())
}
