//! What Linux says about this process, its threads and its children.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// A size in `/proc/self/status`, such as `VmRSS`.
pub(crate) fn process_bytes(field: &str) -> Result<u64> {
    bytes_in(field, "/proc/self/status")
}

/// The same of another process.
pub(crate) fn bytes_of(pid: i32, field: &str) -> Result<u64> {
    bytes_in(field, &format!("/proc/{pid}/status"))
}

/// Processor time that a process has used, its own and the system's for it, to a hundredth of a
/// second.
pub(crate) fn cpu_of(pid: i32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("needs Linux's {path}"))?;
    // The name comes second, in brackets, and may hold anything.
    let (_, fields) = stat.rsplit_once(')').context("a name in brackets")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

fn bytes_in(field: &str, path: &str) -> Result<u64> {
    let value = value_of(field, path)?;
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
    fn a_busy_process_uses_processor_time() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = cpu_of(pid).unwrap();
        while cpu_of(pid).unwrap() < before + Duration::from_millis(10) {}
        assert!(bytes_of(pid, "VmRSS").unwrap() > 100_000);
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
