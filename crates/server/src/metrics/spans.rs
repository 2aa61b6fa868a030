//! What became of the spans of traced requests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Kind, Text};

/// What became of spans.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The values of [`SpanCounts`], as they were at one time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SpansRead {
    pub(crate) exported: u64,
    pub(crate) dropped: u64,
    pub(crate) failed: u64,
}

impl SpanCounts {
    /// The collector has them.
    pub(crate) fn exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// There was no room for them.
    pub(crate) fn dropped(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// The collector did not take them.
    pub(crate) fn failed(&self, spans: u64) {
        self.failed.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> SpansRead {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SpansRead {
            exported: read(&self.exported),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
        }
    }

    pub(super) fn write(&self, text: &mut Text) {
        let help = "Spans that were exported, dropped for want of room, or not taken.";
        text.family("tidegate_spans_total", Kind::Counter, help);
        let SpansRead { exported, dropped, failed } = self.read();
        for (outcome, count) in [("exported", exported), ("dropped", dropped), ("failed", failed)] {
            text.value(&[("outcome", outcome)], count);
        }
    }
}
