//! Shapes with chance in them: random arrivals, a crowd, tenants that know nothing of each other.

use crate::shape::draft::{Draft, Pace, Stretch};
use crate::trace::TraceError;

/// Slices into which a period is cut where the pace changes with time.
const SLICES: u64 = 60;

/// Random arrivals at 1.25 times the pace.
pub(super) fn poisson(draft: &mut Draft) -> Result<(), TraceError> {
    let pace = Pace { requests: 5 * draft.pace, ticks: 4 * draft.per };
    draft.poisson(0, draft.whole(), pace)
}

/// Half the pace; then, within a tenth of a period, ten times the pace; half a period of that; and
/// back to half the pace within a period and a quarter.
pub(super) fn flash_crowd(draft: &mut Draft) -> Result<(), TraceError> {
    let mut owed = 0;
    let mut slice = 0;
    loop {
        let from = time_of(draft.per, slice);
        if draft.end() <= from {
            return Ok(());
        }
        // In hundredths of a request, so that a slow pace still adds up to whole requests.
        owed += draft.pace * crowd_percent(slice) / SLICES;
        let ticks = time_of(draft.per, slice + 1) - from;
        draft.scattered(0, Stretch { from, ticks }, owed / 100)?;
        owed %= 100;
        slice += 1;
    }
}

/// Tenants at half their pace, all at random; after a period and a quarter, tenant 0 turns to ten
/// times its pace.
pub(super) fn noisy_tenant(draft: &mut Draft, tenants: u32) -> Result<(), TraceError> {
    let calm = Pace { requests: draft.pace, ticks: 2 * draft.per };
    let noise = Pace { requests: 10 * draft.pace, ticks: draft.per };
    let turn = draft.end().min(draft.per + draft.per / 4);
    draft.poisson(0, Stretch { from: 0, ticks: turn }, calm)?;
    let rest = Stretch { from: turn, ticks: draft.end() - turn };
    draft.poisson(0, rest, noise)?;
    for quiet in 1..tenants {
        draft.poisson(quiet, draft.whole(), calm)?;
    }
    Ok(())
}

/// The pace of a flash crowd in `slice`, in percent of the quota's own.
fn crowd_percent(slice: u64) -> u64 {
    const CALM: u64 = 50;
    const CROWD: u64 = 1_000;
    let rise = 80..86;
    let fall = 116..191;
    match slice {
        _ if rise.contains(&slice) => CALM + (CROWD - CALM) * (slice - rise.start) / 6,
        86..116 => CROWD,
        _ if fall.contains(&slice) => CROWD - (CROWD - CALM) * (slice - fall.start) / 75,
        _ => CALM,
    }
}

/// The first tick of `slice`.
fn time_of(per: u64, slice: u64) -> u64 {
    let tick = u128::from(per) * u128::from(slice) / u128::from(SLICES);
    u64::try_from(tick).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_comes_fast_and_leaves_slowly() {
        let pace: Vec<u64> = [0, 79, 83, 90, 115, 153, 190, 299].map(crowd_percent).into();
        assert_eq!(pace, [50, 50, 525, 1_000, 1_000, 532, 63, 50]);
    }
}
