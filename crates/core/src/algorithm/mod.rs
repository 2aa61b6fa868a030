//! The algorithms, and the one shape they share.

mod amount;
mod fixed_window;
mod line;
mod log;
mod sliding_window;

use core::fmt::Debug;

use crate::debit::Debited;
use crate::decision::{Decision, Receipt, Verdict};
use crate::tick::{Span, Tick};

pub(crate) use self::fixed_window::{FixedWindow, WindowCount};
pub(crate) use self::line::{Line, LineBucket, Overflow};
pub(crate) use self::log::{Log, LogLimit};
pub(crate) use self::sliding_window::{SlidingWindow, WindowPair};

/// A rate-limiting algorithm: a pure function from what was remembered to what to remember next.
///
/// Configuration is `self`, memory is `State`, the world is `now` and `cost`. Nothing else exists.
pub(crate) trait Algorithm {
    /// What must be remembered about one key between two requests. The default is a fresh key.
    type State: Clone + Debug + Default + Eq;

    /// The most cells that can pass at once.
    fn limit(&self) -> u32;

    /// Does to `state` what time alone has done by `now`. Nobody can see it afterwards.
    fn settle(&self, state: &mut Self::State, now: Tick);

    /// Whether `cost` cells may pass; a look, of no cells, does unless the limit is overdrawn.
    /// `state` has been settled.
    fn judge(&self, state: &Self::State, now: Tick, cost: u32) -> Verdict;

    /// Takes `cost` cells, which [`Algorithm::judge`] has just let pass.
    fn charge(&self, state: &mut Self::State, now: Tick, cost: u32) -> Receipt;

    /// Cells that would still pass at `now`, and how long after it the key is as good as fresh.
    /// `state` has been settled.
    fn report(&self, state: &Self::State, now: Tick) -> (u32, Span);

    /// Cells that it lacks at `now` to be as good as fresh, also those beyond the limit. `state`
    /// has been settled.
    fn lacks(&self, state: &Self::State, now: Tick) -> u32;

    /// Cells beyond the limit, rounded up. `state` has been settled.
    fn overdrawn(&self, state: &Self::State, now: Tick) -> u32;

    /// Takes `cells` in full, also beyond the limit, as far as a state remembers. `state` has been
    /// settled.
    fn debit(&self, state: &mut Self::State, now: Tick, cells: u32) -> Debited;

    /// As [`Algorithm::debit`], for a request that was refused, as far as those are charged.
    fn charge_refusal(&self, state: &mut Self::State, now: Tick, cells: u32);

    /// Gives back what `receipt` says was charged: never above full, never into another window, and
    /// nothing that would let pass what would not have passed had it never been charged.
    /// `state` has been settled.
    fn refund(&self, state: &mut Self::State, now: Tick, receipt: Receipt);

    /// Gives back up to `cells` of what is owed, by any charge; in a window only what this one
    /// counted. `state` has been settled.
    fn give_back(&self, state: &mut Self::State, now: Tick, cells: u32);

    /// When `state` can no longer be told from a fresh one, and may be forgotten.
    fn forget_at(&self, state: &Self::State) -> Tick;

    /// The numbers that go with `verdict`.
    fn decision(&self, state: &Self::State, now: Tick, verdict: Verdict) -> Decision {
        let (remaining, reset_after) = self.report(state, now);
        Decision { verdict, limit: self.limit(), remaining, reset_after }
    }
}
