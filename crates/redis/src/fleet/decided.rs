//! What a fleet says of a request, and by what it was decided.

use smallvec::SmallVec;
use tidegate_core::{Decision, Verdict};
use tidegate_store::By;

use super::FleetReceipts;

/// What all limits of a request said.
pub(super) type Decisions = SmallVec<[Decision; 4]>;

/// The answer of a [`Fleet`](super::Fleet) to one request. It borrows nothing.
#[derive(Debug)]
#[must_use]
pub struct FleetDecided {
    /// The verdict of all limits together.
    pub verdict: Verdict,
    /// By what it was decided. Where rules differ, by what weighs most: a refusal, then a share.
    pub by: By,
    /// What each limit said, in the order in which they were given; nothing where the request could
    /// not even be asked.
    pub each: SmallVec<[Decision; 4]>,
    /// What was charged, and can be given back. Dropping it gives back permits.
    pub receipts: FleetReceipts,
}

impl FleetDecided {
    /// A request about which nobody was asked.
    pub(super) fn unasked(verdict: Verdict) -> FleetDecided {
        let (each, receipts) = (Decisions::new(), FleetReceipts::default());
        FleetDecided { verdict, by: By::Store, each, receipts }
    }

    /// All in one: the verdict of all together, with the numbers of the limit that is closest to
    /// refusing, or that refused for longest.
    pub fn decision(&self) -> Decision {
        in_one(self.verdict, &self.each)
    }
}

/// The verdict of all together, with the numbers of the one that speaks for them.
fn in_one(verdict: Verdict, each: &[Decision]) -> Decision {
    let speaks = each.iter().min_by_key(|it| (it.verdict != verdict, it.remaining));
    let nothing = Decision::of_no_limit(verdict);
    Decision { verdict, ..speaks.copied().unwrap_or(nothing) }
}
