//! What Linux says about this process and its threads.

use std::fs;

use anyhow::{Context, Result};

/// A size in `/proc/self/status`, such as `VmRSS`.
pub(crate) fn process_bytes(field: &str) -> Result<u64> {
    let value = value_of(field, "/proc/self/status")?;
    let kilobytes = value.strip_suffix(" kB").context("sizes are given in kB")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}

/// How often this thread gave up its processor to wait: for a lock, a page on disk, a sleep.
/// Being interrupted does not count.
pub(crate) fn thread_waits() -> Result<u64> {
    Ok(value_of("voluntary_ctxt_switches", "/proc/thread-self/status")?.parse()?)
}

fn value_of(field: &str, path: &str) -> Result<String> {
    let status = fs::read_to_string(path).with_context(|| format!("needs Linux's {path}"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .with_context(|| format!("{path} does not say {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_size_and_a_thread_has_waited_or_not() {
        assert!(process_bytes("VmRSS").unwrap() > 100_000);
        thread_waits().unwrap();
        assert!(process_bytes("VmNone").is_err());
    }

    #[test]
    fn waiting_for_another_thread_counts_as_a_wait() {
        let before = thread_waits().unwrap();
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let timed_out = receiver.recv_timeout(std::time::Duration::from_millis(5));
        assert!(timed_out.is_err());
        assert!(thread_waits().unwrap() > before);
    }
}
