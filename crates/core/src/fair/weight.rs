//! Weights, and the steps of virtual time that a cost is by them.
//!
//! A step is `cost × 2^20 / weight`. What the division leaves over is carried to the flow's next
//! step, so that shares are exact in the long run whatever the weight.

/// The share of a flow beside its siblings: one of weight two is served twice as much.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a flow that has no other.
    pub const ONE: Weight = Weight(1);

    /// The largest weight: a million. One cell is at least one step of virtual time even then.
    pub const MAX: Weight = Weight(1_000_000);

    /// A weight of `weight`, or the nearest one that there is.
    pub const fn new(weight: u32) -> Weight {
        match weight {
            0 => Weight::ONE,
            weight if weight < Weight::MAX.0 => Weight(weight),
            _ => Weight::MAX,
        }
    }

    /// The weight as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

/// A place in virtual time.
pub(super) type Tag = u64;

/// One cell at weight one, as bits of a tag.
pub(super) const UNIT_BITS: u32 = 20;

/// The step of `cost` cells at `weight`; `carry` is what the last step left over, and the next.
pub(super) fn step(cost: u32, weight: Weight, carry: &mut u32) -> Tag {
    let units = (u64::from(cost) << UNIT_BITS) + u64::from(*carry);
    let weight = u64::from(weight.0);
    *carry = u32::try_from(units % weight).unwrap_or(0);
    units / weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_never_zero_and_never_more_than_a_million() {
        assert_eq!([0, 1, 7, 1_000_001].map(|it| Weight::new(it).get()), [1, 1, 7, 1_000_000]);
    }

    #[test]
    fn what_a_step_leaves_over_is_carried() {
        let (weight, mut carry) = (Weight::new(999_983), 0);
        let sum: u64 = (0..999_983).map(|_| step(1, weight, &mut carry)).sum();
        assert_eq!((sum, carry), (1 << UNIT_BITS, 0));
    }
}
