//! Waits for what other processes do: polls, up to a deadline, and says what did not happen.
//!
//! The only file of this crate that reads a clock or sleeps.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

/// Waits until `condition` holds, and fails with `what` when it does not `within` that time.
pub fn until(within: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    for_some(within, what, || Ok(condition().then_some(())))
}

/// Waits for a value. An error counts as not yet; the last one is reported at the deadline.
pub(crate) fn for_some<T>(
    within: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = now() + within;
    loop {
        let last = match attempt() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => anyhow!("not yet"),
            Err(error) => error,
        };
        if deadline <= now() {
            bail!("waited {within:?} in vain until {what}: {last:#}");
        }
        hold(STEP);
    }
}

/// Holds this thread back.
#[expect(clippy::disallowed_methods, reason = "another process has no manual clock to advance")]
pub(crate) fn hold(span: Duration) {
    thread::sleep(span);
}

#[expect(clippy::disallowed_methods, reason = "a deadline for other processes is in real time")]
fn now() -> Instant {
    Instant::now()
}

const STEP: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_deadline_says_what_was_waited_for() {
        let error = until(Duration::ZERO, "pigs fly", || false).expect_err("they do not");
        assert_eq!(error.to_string(), "waited 0ns in vain until pigs fly: not yet");
    }

    #[test]
    fn a_condition_that_holds_is_seen_after_the_deadline_too() {
        until(Duration::ZERO, "it is so", || true).unwrap();
    }
}
