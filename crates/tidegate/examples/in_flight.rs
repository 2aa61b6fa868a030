//! At most so many at once: a permit that comes back when it is dropped, or when its lease ends.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tidegate::{Kind, Limiter, Quota, Span};

fn main() -> Result<(), tidegate::BuildError> {
    let quota = Quota::in_flight(2, Span::from_secs(30));
    let limiter = Limiter::new((Kind::Concurrency, quota))?;

    let first = limiter.key("reports").enter();
    let second = limiter.key("reports").enter();
    println!("first: {}, second: {}", first.is_ok(), second.is_ok());
    let third = limiter.key("reports").enter();
    println!("third: {:?}", third.err().map(|decision| decision.verdict));

    drop(first);
    println!("after the first is done: {}", limiter.key("reports").enter().is_ok());
    Ok(())
}
