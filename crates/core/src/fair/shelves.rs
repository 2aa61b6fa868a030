//! Which sibling has the largest backlog by weight, in constant time.
//!
//! Siblings stand on shelves by `requests / weight`, four shelves to a doubling. Who is taken from
//! the highest shelf has at least four fifths of the largest backlog by weight.

use super::weight::{UNIT_BITS, Weight};

pub(super) const NONE: u32 = u32::MAX;

/// No shelf at all.
pub(super) const OFF: u8 = u8::MAX;

/// Twice the backlog is so many shelves higher.
pub(super) const DOUBLING: u8 = 4;

/// 2^24 requests at weight one are on the last.
const SHELVES: usize = 192;

/// The bag of every shelf.
#[derive(Clone, Debug)]
pub(super) struct Shelves {
    bags: [u32; SHELVES],
    used: [u64; SHELVES / 64],
}

impl Shelves {
    pub(super) const EMPTY: Shelves = Shelves { bags: [NONE; SHELVES], used: [0; SHELVES / 64] };

    /// Does something with the bag of a shelf.
    pub(super) fn change<R>(&mut self, height: u8, with: impl FnOnce(&mut u32) -> R) -> R {
        let height = usize::from(height);
        let done = with(&mut self.bags[height]);
        let (word, bit) = (&mut self.used[height / 64], 1 << (height % 64));
        *word = if self.bags[height] == NONE { *word & !bit } else { *word | bit };
        done
    }

    /// The highest shelf that is not empty.
    pub(super) fn highest(&self) -> Option<u32> {
        let (word, used) = self.used.iter().enumerate().rev().find(|(_, used)| **used != 0)?;
        let bit = 63 - used.leading_zeros();
        Some(self.bags[word * 64 + bit as usize])
    }
}

/// The shelf of a backlog.
#[expect(clippy::cast_possible_truncation, reason = "a doubling is at most 44, a quarter 3")]
pub(super) fn shelf_of(requests: u32, weight: Weight) -> u8 {
    let backlog = (u64::from(requests) << UNIT_BITS) / u64::from(weight.get());
    let doubling = backlog.checked_ilog2().unwrap_or(0);
    let quarter = if doubling < 2 { 0 } else { (backlog >> (doubling - 2)) & 3 };
    (doubling * 4) as u8 + quarter as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelves_rise_with_the_backlog_and_hold_less_than_a_quarter_more() {
        let mut last = 0;
        for requests in 1..100_000_u32 {
            let height = shelf_of(requests, Weight::ONE);
            assert!(last <= height);
            last = height;
            let more = requests + requests.div_ceil(4);
            assert!(height < shelf_of(more, Weight::ONE), "{requests}");
        }
        assert!(usize::from(shelf_of(1 << 24, Weight::ONE)) < SHELVES);
        assert_eq!(shelf_of(10, Weight::new(5)), shelf_of(2, Weight::ONE));
    }

    #[test]
    fn the_highest_shelf_is_found() {
        let mut shelves = Shelves::EMPTY;
        assert_eq!(shelves.highest(), None);
        for (height, highest) in [(3, 3), (150, 150), (70, 150)] {
            shelves.change(height, |bag| *bag = height.into());
            assert_eq!(shelves.highest(), Some(highest));
        }
        shelves.change(150, |bag| *bag = NONE);
        assert_eq!(shelves.highest(), Some(70));
    }
}
