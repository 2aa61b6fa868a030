//! The one file of the benchmark that reads real clocks.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock.
#[inline]
#[expect(clippy::disallowed_methods, reason = "benchmarks time real work")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a client in real time asks when it is time to")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The wall clock, for peers that ask their caller for it.
#[inline]
#[expect(clippy::disallowed_methods, reason = "a peer takes the time of day as an argument")]
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// The processor time that this thread has used: it stands still while another thread runs.
#[inline]
pub(crate) fn own_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have used, in the kernel as well.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

#[inline]
fn cpu(clock: ClockId) -> Duration {
    let used = clock_gettime(clock);
    let seconds = u64::try_from(used.tv_sec).expect("processor time is not negative");
    let nanos = u32::try_from(used.tv_nsec).expect("a second has fewer nanoseconds than 2^32");
    Duration::new(seconds, nanos)
}
