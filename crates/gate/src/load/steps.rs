//! The steps in which a factor moves, so that limits do not change with every breath.
//!
//! Sixteen of them, for a reason: a rule in Redis finds what was consumed under its last sixteen
//! quotas. With no more steps than that, none is ever forgotten, however often the load changes.

use tidegate_core::adapt::Fraction;

/// How many steps there are.
pub(super) const STEPS: u32 = 16;

/// One of them: the smallest factor.
pub(super) const STEP: Fraction = Fraction::from_millionths(Fraction::WHOLE.get() / STEPS);

/// The step at or below `factor`; never none.
pub(super) fn step_of(factor: Fraction) -> Fraction {
    let whole = factor.min(Fraction::WHOLE).get() / STEP.get();
    Fraction::from_millionths(whole.max(1) * STEP.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_factor_has_a_step_at_or_below_it() {
        let mut steps = std::collections::HashSet::new();
        for millionths in (0..=2_000_000).step_by(97).chain([1_000_000]) {
            let factor = Fraction::from_millionths(millionths);
            let step = step_of(factor);
            assert!(step <= factor.max(STEP) && step <= Fraction::WHOLE);
            assert!(factor.min(Fraction::WHOLE).get() < step.get() + STEP.get());
            steps.insert(step);
        }
        assert_eq!(steps.len(), 16);
        assert_eq!(step_of(Fraction::WHOLE), Fraction::WHOLE);
    }
}
