//! The colors, chosen to be told apart by everyone (after Okabe and Ito), and always beside a
//! shape or a word that says the same.

use crate::report::Standing;

/// Titles and numbers.
pub(super) const INK: &str = "#111827";
/// What explains them.
pub(super) const QUIET_INK: &str = "#5b6472";
/// What was offered.
pub(super) const OFFERED: &str = "#ccd5e0";
/// What passed.
pub(super) const PASSED: &str = "#0072b2";
/// What passed within the last period.
pub(super) const LEVEL: &str = "#111827";
/// What lies below that line.
pub(super) const BELOW: &str = "#e4eef5";
/// The part of it that no quota covers.
pub(super) const EXCESS: &str = "#d55e00";
/// The part of it that only a burst covers.
pub(super) const BURST: &str = "#f0b34a";
/// The quota.
pub(super) const QUOTA: &str = "#111827";
/// Edges of windows.
pub(super) const EDGE: &str = "#c3cad4";
/// The ground on which a panel stands.
pub(super) const GROUND: &str = "#f7f9fb";

/// The ink for what is said about `standing`.
pub(super) const fn ink_of(standing: Standing) -> &'static str {
    match standing {
        Standing::Kept => "#00704f",
        Standing::Close => QUIET_INK,
        Standing::Burst => "#8a5a00",
        Standing::Over => "#b94700",
    }
}
