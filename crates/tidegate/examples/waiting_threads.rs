//! Waiting for a turn without async: the same line, and blocking threads.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::thread;
use std::time::Duration;

use tidegate::{Limiter, Quota};

fn main() -> Result<(), tidegate::BuildError> {
    let limiter = Limiter::new(Quota::per_second(100).burst(1))?;
    let start = limiter.now();
    thread::scope(|scope| {
        for worker in 0..3 {
            let limiter = &limiter;
            scope.spawn(move || {
                for job in 0..2 {
                    let passed = limiter.key("disk").acquire_blocking(Duration::from_secs(1));
                    let after = limiter.now().since(start).get() / 1_000;
                    println!("worker {worker}, job {job}: {} after {after} ms", passed.is_ok());
                }
            });
        }
    });
    Ok(())
}
