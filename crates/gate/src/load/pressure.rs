//! The host's pressure, as Linux tells it: for how much of the time something waited for the
//! processor, for memory, or for a disk.
//!
//! The totals are compared with those of last time. Averages are not used: they lag by ten seconds.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use tidegate_core::Tick;
use tidegate_core::adapt::Fraction;

use crate::gate::Gate;

/// Reads the host's pressure; see [`Gate::feel`].
#[derive(Debug)]
pub struct Pressure {
    folder: PathBuf,
    last: Option<(Tick, Totals)>,
}

/// Microseconds in which something waited, by what for; nothing for what is not told.
type Totals = [Option<u64>; 3];

const FILES: [&str; 3] = ["cpu", "memory", "io"];

/// Such a file has some 120 bytes.
const BYTES_MAX: u64 = 1_024;

impl Pressure {
    /// That of this host.
    pub fn of_host() -> Pressure {
        Pressure::in_folder("/proc/pressure")
    }

    /// That of the same files in another folder, such as that of a container's group.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Pressure {
        Pressure { folder: folder.into(), last: None }
    }

    /// For which share of the time since last time something waited: the worst of the three.
    /// Nothing the first time.
    fn since_last(&mut self, now: Tick) -> io::Result<Option<Fraction>> {
        let totals = self.totals()?;
        let Some((at, before)) = self.last.replace((now, totals)) else { return Ok(None) };
        let passed = now.since(at).get();
        if passed == 0 {
            self.last = Some((at, before));
            return Ok(None);
        }
        let waited = totals.iter().zip(before);
        let waited = waited.filter_map(|(total, before)| Some((*total)?.saturating_sub(before?)));
        Ok(waited.max().map(|most| Fraction::of(most, passed).min(Fraction::WHOLE)))
    }

    fn totals(&self) -> io::Result<Totals> {
        let mut totals = [None; 3];
        let mut first_error = None;
        for (total, name) in totals.iter_mut().zip(FILES) {
            match self.total(name) {
                Ok(read) => *total = Some(read),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        // A kernel may tell less than all of it.
        match first_error {
            Some(error) if totals.iter().all(Option::is_none) => Err(error),
            _ => Ok(totals),
        }
    }

    fn total(&self, name: &str) -> io::Result<u64> {
        let mut text = String::new();
        File::open(self.folder.join(name))?.take(BYTES_MAX).read_to_string(&mut text)?;
        total_of(&text).ok_or_else(|| {
            let wrong = format!("`{name}` does not say for how long some waited");
            io::Error::new(io::ErrorKind::InvalidData, wrong)
        })
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`
fn total_of(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|part| part.strip_prefix("total="))?.parse().ok()
}

impl Gate {
    /// Reads the host's pressure and brakes by it. For a gate on the host of the service that it
    /// guards; call it about once a second. Says what was read, from the second time on.
    pub fn feel(&self, pressure: &mut Pressure) -> io::Result<Option<Fraction>> {
        let now = self.0.clock.now();
        let waiting = pressure.since_last(now)?;
        if let Some(waiting) = waiting {
            self.0.adapt.state().feel(now, waiting);
            self.0.in_force().shares.hear(|queue| queue.pressure(waiting));
            self.0.adapt.look_at(now);
            self.advance_to(now);
        }
        Ok(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n\
                         full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";

    #[test]
    fn totals_are_those_of_some() {
        assert_eq!(total_of(QUIET), Some(1_000_000));
        assert_eq!(total_of("full total=7\nsome avg10=1.23 total=8\n"), Some(8));
        assert_eq!(total_of("some total=18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "some",
            "full total=7",
            "some total=",
            "some total=-1",
            "some total=1e9",
            "total=7",
        ] {
            assert_eq!(total_of(wrong), None, "{wrong}");
        }
        assert_eq!(total_of("some total=18446744073709551616"), None);
    }

    #[test]
    fn pressure_is_what_was_waited_since_last_time() {
        let folder = std::env::temp_dir().join(format!("tidegate-psi-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, total: u64| {
            let text = QUIET.replace("total=1000000", &format!("total={total}"));
            std::fs::write(folder.join(name), text).unwrap();
        };
        let at = |seconds: u64| Tick::from_micros(seconds * 1_000_000);
        let mut pressure = Pressure::in_folder(&folder);
        assert!(pressure.since_last(at(1)).is_err());
        write("cpu", 1_000_000);
        write("io", 5_000_000);
        assert_eq!(pressure.since_last(at(1)).unwrap(), None);
        write("cpu", 1_500_000);
        assert_eq!(pressure.since_last(at(1)).unwrap(), None, "no time has passed");
        write("io", 5_700_000);
        assert_eq!(pressure.since_last(at(2)).unwrap(), Some(Fraction::from_percent(70)));
        assert_eq!(pressure.since_last(at(3)).unwrap(), Some(Fraction::NONE));
        // More than there was time for, or less than before: somebody counts anew.
        write("cpu", 100_000_000);
        assert_eq!(pressure.since_last(at(4)).unwrap(), Some(Fraction::WHOLE));
        write("cpu", 0);
        assert_eq!(pressure.since_last(at(5)).unwrap(), Some(Fraction::NONE));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
