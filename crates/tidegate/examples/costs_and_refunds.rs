//! Requests that cost more than others, and giving back what was not used: LLM tokens.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Limiter, Quota};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::new(Quota::per_minute(10_000))?;
    let user = ("user", 7);

    // Reserve the most that it may take, and settle when the real cost is known.
    let reserved =
        limiter.key(user).cost(4_000).enter().map_err(|refused| format!("{refused:?}"))?;
    println!("reserved 4,000: {} left", limiter.peek(user).remaining);
    let spent = 1_200;
    reserved.refund();
    limiter.key(user).cost(spent).decide();
    println!("used {spent}: {} left", limiter.peek(user).remaining);

    let too_much = limiter.key(user).cost(20_000).decide();
    println!("20,000 at once: {:?}", too_much.verdict);
    Ok(())
}
