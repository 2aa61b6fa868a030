//! Fixed factors and steps, in whole numbers.

/// A fixed factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio(pub(super) u64, pub(super) u64);

impl Ratio {
    pub(super) fn of(self, amount: u64) -> u64 {
        scaled(amount, self.0, self.1)
    }
}

/// `amount × numerator ÷ denominator`, rounded down, as far as it fits.
pub(super) fn scaled(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
