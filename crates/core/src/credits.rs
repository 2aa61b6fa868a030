//! Unused quota, saved up for a burst: two buckets that judge together.
//!
//! The first has the quota's rate and holds its burst with all that may be saved: over every span
//! no more passes than that and the rate. The second says how fast it may be spent.

use crate::kind::Kind;
use crate::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::tick::Span;

/// What a bucket saves of its unused quota, and how fast that may be spent.
///
/// ```
/// use tidegate_core::{Credits, Policy, Quota, Span};
///
/// // Ten a second. What is not used is saved, up to thirty seconds of it; saved cells may be spent
/// // at ten times the rate.
/// let base = Policy::token_bucket(Quota::per_second(10))?;
/// let [saved, peak] = Credits::new(Span::from_secs(30), 10).policies(&base)?;
/// assert_eq!((saved.limit(), peak.limit()), (310, 10));
/// # Ok::<(), tidegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Credits {
    saved_for: Span,
    factor: u32,
}

impl Credits {
    /// Saves at most the quota of `saved_for`, to be spent at up to `factor` times the rate.
    pub const fn new(saved_for: Span, factor: u32) -> Credits {
        Credits { saved_for, factor }
    }

    /// The two policies that judge together, all or nothing: the one that saves, and the one that
    /// bounds how fast it goes. The saved cells are what remains of the first beyond the burst of
    /// `base`.
    pub fn policies(self, base: &Policy) -> Result<[Policy; 2], QuotaError> {
        let (true, Some(grains)) = (is_meter(base.kind()), base.grains()) else {
            return Err(QuotaError::CreditsWithoutBucket);
        };
        // The rate as a fraction in lowest terms: so many cells in so many ticks.
        let (cells, per) = (grains.tick(), grains.cell());
        let unused = u128::from(cells) * u128::from(self.saved_for.get()) / u128::from(per);
        let most = unused.saturating_add(u128::from(grains.burst()));
        let fits = |cells: u128| u32::try_from(cells).map_err(|_| QuotaError::CreditsTooLarge);
        let peak = u128::from(cells) * u128::from(self.factor);
        let quota =
            |cells: u128| fits(cells).map(|cells| Quota::new(cells, Span::from_micros(per)));
        let saves = Policy::new(base.kind(), quota(cells.into())?.burst(fits(most)?))?;
        let bounds = Policy::new(base.kind(), quota(peak)?.burst(grains.burst()))?;
        Ok([saves, bounds])
    }
}

/// Whether what passes goes out at once, as far as there is room: a queue has nothing to save.
const fn is_meter(kind: Kind) -> bool {
    matches!(kind, Kind::Gcra | Kind::LeakyBucket | Kind::TokenBucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_saved_is_said() {
        let credits = Credits::new(Span::from_secs(30), 10);
        for kind in Kind::ALL {
            let base = Policy::new(kind, Quota::per_second(10)).unwrap();
            let saves = matches!(kind, Kind::Gcra | Kind::LeakyBucket | Kind::TokenBucket);
            assert_eq!(credits.policies(&base).is_ok(), saves, "{kind}");
        }
        let huge = Policy::token_bucket(Quota::per_second(4_000_000_000)).unwrap();
        assert_eq!(credits.policies(&huge), Err(QuotaError::CreditsTooLarge));
        let base = Policy::token_bucket(Quota::per_second(1)).unwrap();
        let peak = Credits::new(Span::ZERO, u32::MAX).policies(&base);
        assert_eq!(peak.map(|[saves, _]| saves.limit()), Ok(1));
        let none = Credits::new(Span::ZERO, 0).policies(&base);
        assert_eq!(none, Err(QuotaError::ZeroCells));
    }
}
