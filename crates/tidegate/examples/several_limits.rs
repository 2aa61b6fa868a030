//! Several limits at once: a request passes all of them, or is charged to none.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Kind, Limiter, Quota};

fn main() -> Result<(), tidegate::BuildError> {
    let limiter = Limiter::builder()
        .each("per-second", Quota::per_second(2))
        .each("per-day", (Kind::FixedWindow, Quota::per_day(3)))
        .all("everyone", Quota::per_hour(1_000))
        .build()?;

    for request in 1..=4 {
        let answer = limiter.key(("client", "ada")).decide_each();
        println!("request {request}: {:?}", answer.decision().verdict);
        for (rule, said) in answer.violated() {
            println!("  refused by `{rule}`, which has {} of {}", said.remaining, said.limit);
        }
    }
    // Nothing was taken from `everyone` for what the others refused.
    let everyone = limiter.key(("client", "bob")).cost(0).decide_each().of("everyone");
    println!("left for everyone: {:?}", everyone.map(|it| it.remaining));
    Ok(())
}
