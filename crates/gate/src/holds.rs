//! What an admission has that can be given back, or settled.

use crate::admission::Admission;

impl Admission {
    /// Whether anything comes of keeping it: a limit charged it, though it may have been nothing,
    /// or it was in a share. If not, it can be dropped as well.
    pub fn can_be_settled(&self) -> bool {
        self.turn.is_some() || self.each.iter().any(|judged| judged.is_charged)
    }

    /// Whether there is anything to refund.
    pub fn can_be_refunded(&self) -> bool {
        self.each.iter().any(|judged| judged.is_charged && judged.cost != 0)
    }
}
