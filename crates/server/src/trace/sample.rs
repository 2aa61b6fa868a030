//! Which requests are traced: a share of them, and at most so many in a second.
//!
//! A share is in parts per million, and a draw is a few instructions on a number of the thread's
//! own.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Tick;

use crate::limits::TRACE_SPANS_PER_SECOND_MAX;

/// A share of requests, in parts per million.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceShare(u32);

/// A text that is no share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadShare;

/// At most so many in a second.
#[derive(Debug, Default)]
pub(super) struct Cap {
    /// The second in the upper half, and how many there were in it in the lower.
    spent: AtomicU64,
}

/// Numbers that look random: Steele, Lea and Flood's `SplitMix`.
#[derive(Debug)]
struct Draws(Cell<u64>);

thread_local! {
    static DRAWS: Draws = Draws::seeded(RandomState::new().build_hasher().finish());
}

const MILLION: u32 = 1_000_000;

impl TraceShare {
    /// Whether the next request belongs to it.
    #[inline]
    pub(super) fn draws(self) -> bool {
        DRAWS.with(|draws| self.takes(draws.next()))
    }

    /// Whether a number out of all belongs to it.
    #[inline]
    fn takes(self, draw: u64) -> bool {
        (u128::from(draw) * u128::from(MILLION)) >> 64 < u128::from(self.0)
    }
}

impl Default for TraceShare {
    /// One in a hundred.
    fn default() -> TraceShare {
        TraceShare(MILLION / 100)
    }
}

impl FromStr for TraceShare {
    type Err = BadShare;

    /// A number from 0 to 1, with up to six digits after the point.
    fn from_str(text: &str) -> Result<TraceShare, BadShare> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || 6 < part.len() {
            return Err(BadShare);
        }
        let whole: u32 = whole.parse().map_err(|_| BadShare)?;
        let part: u32 = format!("{part:0<6}").parse().map_err(|_| BadShare)?;
        let parts = whole.checked_mul(MILLION).and_then(|whole| whole.checked_add(part));
        parts.filter(|parts| *parts <= MILLION).map(TraceShare).ok_or(BadShare)
    }
}

impl fmt::Display for BadShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "give a share from 0 to 1 such as 0.01, with at most six digits after the point",
        )
    }
}

impl std::error::Error for BadShare {}

impl Draws {
    fn seeded(seed: u64) -> Draws {
        Draws(Cell::new(seed))
    }

    #[inline]
    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Cap {
    /// Whether there is room for one more.
    pub(super) fn takes(&self, now: Tick) -> bool {
        let now = now.get() / 1_000_000;
        let one_more = |spent: u64| {
            // Who began before others is late: that makes no new room.
            let second = now.max(spent >> 32);
            let count = if second == spent >> 32 { spent & u64::from(u32::MAX) } else { 0 };
            let has_room = count < TRACE_SPANS_PER_SECOND_MAX.into();
            has_room.then_some(second << 32 | (count + 1))
        };
        self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        for (text, parts) in [
            ("0", 0),
            ("0.0", 0),
            ("0.000001", 1),
            ("0.01", 10_000),
            ("0.5", 500_000),
            ("1", 1_000_000),
            ("1.000000", 1_000_000),
        ] {
            assert_eq!(text.parse(), Ok(TraceShare(parts)), "{text}");
        }
        for wrong in
            ["", ".5", "1.", "1.1", "1.000001", "2", "-0.1", "+1", "0.0000001", "1e-3", "5000"]
        {
            assert_eq!(wrong.parse::<TraceShare>(), Err(BadShare), "{wrong}");
        }
        assert_eq!(TraceShare::default(), "0.01".parse().unwrap());
    }

    #[test]
    fn as_many_are_drawn_as_the_share_says() {
        const DRAWN: u32 = 2_000_000;
        for parts in [0, 1_000, 10_000, 250_000, 999_000, MILLION] {
            let (share, draws) = (TraceShare(parts), Draws::seeded(7));
            let taken = (0..DRAWN).filter(|_| share.takes(draws.next())).count() as u64;
            let expected = u64::from(parts) * u64::from(DRAWN) / u64::from(MILLION);
            // Five times the standard deviation: the seed is fixed, so this never fails by chance.
            let (p, million) = (u64::from(parts), u64::from(MILLION));
            let variance = u64::from(DRAWN) * p / million * (million - p) / million;
            let slack = 5 * variance.isqrt();
            assert!(taken.abs_diff(expected) <= slack, "{parts}: {taken}, not {expected}±{slack}");
        }
    }

    #[test]
    fn all_and_nothing_are_exact() {
        for draw in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(TraceShare(MILLION).takes(draw));
            assert!(!TraceShare(0).takes(draw));
        }
    }

    #[test]
    fn who_is_late_makes_no_new_room() {
        let (cap, most) = (Cap::default(), TRACE_SPANS_PER_SECOND_MAX as usize);
        let (early, late) = (Tick::from_micros(1_999_999), Tick::from_micros(2_000_000));
        let taken = (0..2 * most).filter(|at| cap.takes([late, early][at % 2])).count();
        assert_eq!(taken, most);
    }
}
