//! Callers that were refused for what they are: counted, and told of in a log line now and then.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Tick;

use super::DoorName;
use super::text::{Kind, Text};
use crate::limits;

/// Why a caller was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stranger {
    /// It showed no token where one is asked for.
    NoToken,
    /// It showed one that nobody knows: a mistake, or a guess.
    WrongToken,
    /// It may check, and wanted to administer.
    Role,
    /// A browser sent it for a web page, or to a name that is not known.
    Page,
}

/// How often callers were refused, by door and reason.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [[AtomicU64; 4]; 3],
    /// In which second the last line was written.
    told_at: AtomicU64,
    /// What was not told of since.
    untold: AtomicU64,
}

impl Stranger {
    const ALL: [Stranger; 4] =
        [Stranger::NoToken, Stranger::WrongToken, Stranger::Role, Stranger::Page];

    const fn name(self) -> &'static str {
        match self {
            Stranger::NoToken => "no-token",
            Stranger::WrongToken => "wrong-token",
            Stranger::Role => "role",
            Stranger::Page => "page",
        }
    }
}

impl Refusals {
    pub(super) fn add(&self, door: DoorName, peer: IpAddr, why: Stranger, now: Tick) {
        self.counts[door as usize][why as usize].fetch_add(1, Ordering::Relaxed);
        if !self.is_time(now) {
            self.untold.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (door, why) = (door.name(), why.name());
        let others = self.untold.swap(0, Ordering::Relaxed);
        tracing::warn!(%peer, door, why, others, "a caller was refused");
    }

    /// Whether a line may be written: one a second, for all clients together.
    fn is_time(&self, now: Tick) -> bool {
        let second = now.get() / 1_000_000 / limits::REFUSALS_TOLD_EVERY_SECS;
        let before = self.told_at.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        before < second && self.told_at.compare_exchange(before, second, order, order).is_ok()
    }

    pub(super) fn write(&self, text: &mut Text) {
        let help = "Callers that were refused for what they showed, by door and reason.";
        text.family("tidegate_refused_callers_total", Kind::Counter, help);
        for (door, counts) in DoorName::ALL.into_iter().zip(&self.counts) {
            for (why, count) in Stranger::ALL.into_iter().zip(counts) {
                let labels = [("door", door.name()), ("why", why.name())];
                text.value(&labels, count.load(Ordering::Relaxed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_seldom_told_of() {
        let refusals = Refusals::default();
        let peer = IpAddr::from([192, 0, 2, 1]);
        let mut told = 0;
        for micros in (7_000_000..10_000_000).step_by(1_000) {
            told += u64::from(refusals.is_time(Tick::from_micros(micros)));
            refusals.add(DoorName::Resp, peer, Stranger::WrongToken, Tick::from_micros(micros));
        }
        assert_eq!(told, 3, "one a second");
        assert_eq!(refusals.untold.load(Ordering::Relaxed), 3_000);
        let mut text = Text::default();
        refusals.write(&mut text);
        let page = String::from(text);
        let line = r#"tidegate_refused_callers_total{door="resp",why="wrong-token"} 3000"#;
        assert!(page.lines().any(|it| it == line), "{page}");
    }
}
