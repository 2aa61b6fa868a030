//! Shapes without chance: steady streams, and bursts at chosen moments.

use crate::shape::draft::{Draft, Stretch};
use crate::trace::TraceError;

/// The only tenant of a shape that has one.
const ALONE: u32 = 0;

/// An even stream at one and a half times the pace.
pub(super) fn steady(draft: &mut Draft) -> Result<(), TraceError> {
    stream(draft, 0)
}

/// One quota in the last sixtieth before an edge, one in the first sixtieth after it, at every
/// other edge: so that each burst finds a quota that has recovered.
pub(super) fn boundary(draft: &mut Draft) -> Result<(), TraceError> {
    let ticks = draft.per / 60;
    let mut edge = draft.per;
    while edge <= draft.end() {
        draft.even(ALONE, Stretch { from: edge - ticks, ticks }, draft.pace)?;
        draft.even(ALONE, Stretch { from: edge, ticks }, draft.pace)?;
        edge += 2 * draft.per;
    }
    Ok(())
}

/// Silence for a period and a half, three quotas in a tenth of a period, then a stream.
pub(super) fn idle_then(draft: &mut Draft) -> Result<(), TraceError> {
    let from = draft.per + draft.per / 2;
    draft.even(ALONE, Stretch { from, ticks: draft.per / 10 }, 3 * draft.pace)?;
    stream(draft, from)
}

/// Half a period at three times the pace, half a period of silence. The edges of windows fall into
/// the middle of the noise: traffic does not know where they are.
pub(super) fn on_off(draft: &mut Draft) -> Result<(), TraceError> {
    let ticks = draft.per / 2;
    let mut from = draft.per * 3 / 4;
    while from < draft.end() {
        draft.even(ALONE, Stretch { from, ticks }, (3 * draft.pace).div_ceil(2))?;
        from += draft.per;
    }
    Ok(())
}

/// One and a half times the pace, from `from` to the end.
fn stream(draft: &mut Draft, mut from: u64) -> Result<(), TraceError> {
    while from < draft.end() {
        let count = (3 * draft.pace).div_ceil(2);
        draft.even(ALONE, Stretch { from, ticks: draft.per }, count)?;
        from += draft.per;
    }
    Ok(())
}
