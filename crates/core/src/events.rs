//! A list of events in at most 8 bytes each.
//!
//! One word holds 46 bits of the tick at which cells passed and 18 bits of how many did. 46 bits of
//! microseconds are more than two years, and no event outlives a period of 366 days, so the upper
//! bits follow from the newest event. An event of more cells than 18 bits hold takes a second word,
//! whose lower 18 bits are zero, as are those of its first: so a list can be read from both ends.

use alloc::collections::VecDeque;

use crate::tick::Tick;

/// Events, oldest first, with ticks that never fall.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Events {
    words: VecDeque<u64>,
    /// The latest tick that was seen: no event is recorded before it.
    latest: Tick,
}

impl Events {
    /// The most words kept for one key: half a mebibyte.
    ///
    /// Beyond it the two oldest events become one that passed when the later of them did. They
    /// leave a little later than they should; nothing ever leaves too early.
    pub(crate) const WORDS_MAX: usize = 65_536;

    const CELLS_BITS: u32 = 18;
    const CELLS_MASK: u64 = (1 << Events::CELLS_BITS) - 1;
    const TICK_MASK: u64 = (1 << (64 - Events::CELLS_BITS)) - 1;

    /// Notes that it is `now`, unless it has been later already.
    pub(crate) fn advance(&mut self, now: Tick) {
        self.latest = self.latest.max(now);
    }

    /// Adds `cells` at `now`, or at the latest tick if the clock has gone back.
    pub(crate) fn record(&mut self, now: Tick, cells: u32) -> Tick {
        self.advance(now);
        if cells == 0 {
            return self.latest;
        }
        let together = match self.newest() {
            Some((tick, before)) if tick == self.latest => {
                self.forget_newest();
                before + cells
            }
            _ => cells,
        };
        self.push_newest(self.latest, together);
        while Events::WORDS_MAX < self.words.len() {
            self.merge_oldest();
        }
        self.latest
    }

    /// Removes up to `cells` of what was recorded at `at`, and says how many.
    pub(crate) fn take_back(&mut self, at: Tick, cells: u32) -> u32 {
        let mut index = self.words.len();
        while let Some((first, tick, had)) = self.event_before(index) {
            if tick < at {
                return 0;
            }
            if tick == at {
                let taken = cells.min(had);
                self.words.drain(first..index);
                self.insert(first, at, had - taken);
                return taken;
            }
            index = first;
        }
        0
    }

    pub(crate) fn oldest(&self) -> Option<(Tick, u32)> {
        self.iter().next()
    }

    pub(crate) fn newest(&self) -> Option<(Tick, u32)> {
        self.event_before(self.words.len()).map(|(_, tick, cells)| (tick, cells))
    }

    pub(crate) fn forget_oldest(&mut self) {
        if let Some(word) = self.words.pop_front()
            && word & Events::CELLS_MASK == 0
        {
            self.words.pop_front();
        }
    }

    /// Events, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tick, u32)> {
        let mut words = self.words.iter().copied();
        core::iter::from_fn(move || {
            let word = words.next()?;
            let tick = self.tick_of(word);
            match word & Events::CELLS_MASK {
                0 => words.next().map(|cells| (tick, Events::wide_cells(cells))),
                cells => Some((tick, Events::narrow_cells(cells))),
            }
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// The event that ends just before `index`: where it starts, its tick and its cells.
    fn event_before(&self, index: usize) -> Option<(usize, Tick, u32)> {
        let last = index.checked_sub(1)?;
        let word = *self.words.get(last)?;
        match word & Events::CELLS_MASK {
            0 => {
                let first = last.checked_sub(1)?;
                let tick = self.tick_of(*self.words.get(first)?);
                Some((first, tick, Events::wide_cells(word)))
            }
            cells => Some((last, self.tick_of(word), Events::narrow_cells(cells))),
        }
    }

    fn forget_newest(&mut self) {
        if let Some(word) = self.words.pop_back()
            && word & Events::CELLS_MASK == 0
        {
            self.words.pop_back();
        }
    }

    fn push_newest(&mut self, tick: Tick, cells: u32) {
        // By an eighth at a time: doubling would cost up to 16 bytes an event.
        if self.words.capacity() < self.words.len() + 2 {
            self.words.reserve_exact(2 + self.words.len() / 8);
        }
        self.insert(self.words.len(), tick, cells);
    }

    /// Puts an event at `index`; nothing at all if it has no cells.
    fn insert(&mut self, index: usize, tick: Tick, cells: u32) {
        let tick = (tick.get() & Events::TICK_MASK) << Events::CELLS_BITS;
        let cells = u64::from(cells);
        if cells == 0 {
            return;
        }
        if cells <= Events::CELLS_MASK {
            self.words.insert(index, tick | cells);
        } else {
            self.words.insert(index, cells << Events::CELLS_BITS);
            self.words.insert(index, tick);
        }
    }

    fn merge_oldest(&mut self) {
        let mut events = self.iter();
        let (Some((_, older)), Some((tick, cells))) = (events.next(), events.next()) else {
            return;
        };
        drop(events);
        self.forget_oldest();
        self.forget_oldest();
        self.insert(0, tick, older + cells);
    }

    /// The whole tick of an event: the last one up to `latest` that ends in the bits kept.
    fn tick_of(&self, word: u64) -> Tick {
        let kept = word >> Events::CELLS_BITS;
        let age = self.latest.get().wrapping_sub(kept) & Events::TICK_MASK;
        Tick::from_micros(self.latest.get() - age)
    }

    fn narrow_cells(cells: u64) -> u32 {
        u32::try_from(cells).expect("18 bits")
    }

    fn wide_cells(word: u64) -> u32 {
        u32::try_from(word >> Events::CELLS_BITS).expect("written from 32 bits")
    }
}

/// Every event that counts is told apart by the bits of its tick that are kept.
const _: () = assert!(crate::Quota::PER_MAX.get() < Events::TICK_MASK);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn tick(micros: u64) -> Tick {
        Tick::from_micros(micros)
    }

    fn listed(events: &Events) -> Vec<(u64, u32)> {
        events.iter().map(|(tick, cells)| (tick.get(), cells)).collect()
    }

    #[test]
    fn small_and_large_events_are_read_from_both_ends() {
        let cells = [1, 262_143, 262_144, 262_145, u32::MAX / 2, 7];
        let mut events = Events::default();
        for (index, &cells) in (1..).zip(&cells) {
            events.record(tick(index * 1_000), cells);
            assert_eq!(events.newest(), Some((tick(index * 1_000), cells)));
        }
        assert_eq!(events.words.len(), 9);
        for (index, &cells) in (1..).zip(&cells) {
            assert_eq!(events.oldest(), Some((tick(index * 1_000), cells)));
            events.forget_oldest();
        }
        assert_eq!((events.oldest(), events.newest()), (None, None));
    }

    #[test]
    fn one_tick_is_one_event() {
        let mut events = Events::default();
        for _ in 0..3 {
            events.record(tick(5), 200_000);
        }
        events.record(tick(4), 1); // The clock went back: it counts from the latest tick.
        assert_eq!(listed(&events), [(5, 600_001)]);
        assert_eq!(events.words.len(), 2);
    }

    #[test]
    fn what_is_taken_back_is_what_was_recorded_then() {
        let mut events = Events::default();
        for (at, cells) in [(1, 300_000), (2, 5), (3, 400_000), (4, 9)] {
            events.record(tick(at), cells);
        }
        assert_eq!(events.take_back(tick(3), 399_999), 399_999);
        assert_eq!(listed(&events), [(1, 300_000), (2, 5), (3, 1), (4, 9)]);
        assert_eq!(events.take_back(tick(2), 7), 5);
        assert_eq!(events.take_back(tick(2), 7), 0);
        assert_eq!(events.take_back(tick(9), 7), 0);
        assert_eq!(events.take_back(tick(1), 1), 1);
        assert_eq!(listed(&events), [(1, 299_999), (3, 1), (4, 9)]);
    }

    #[test]
    fn ticks_are_whole_again_a_year_apart() {
        let year = 365 * 86_400_000_000;
        let mut events = Events::default();
        for index in 0..3 {
            events.record(tick(1_700_000_000_000_000 + index * year / 2), 1);
        }
        let expected: Vec<(u64, u32)> =
            (0..3).map(|index| (1_700_000_000_000_000 + index * year / 2, 1)).collect();
        assert_eq!(listed(&events), expected);
    }

    #[test]
    fn at_the_cap_the_oldest_leave_together_and_later() {
        let mut events = Events::default();
        let words_max = u64::try_from(Events::WORDS_MAX).expect("64 bits");
        for index in 1..=words_max + 10 {
            events.record(tick(index), 1);
        }
        assert_eq!(events.words.len(), Events::WORDS_MAX);
        assert_eq!(events.oldest(), Some((tick(11), 11)));
        let cells: u64 = events.iter().map(|(_, cells)| u64::from(cells)).sum();
        assert_eq!(cells, words_max + 10);
    }

    #[test]
    fn memory_grows_by_an_eighth_at_a_time() {
        let mut events = Events::default();
        for index in 0..1_000 {
            events.record(tick(index), 1);
            assert!(events.heap_bytes() <= 8 * (events.words.len() * 9 / 8 + 4));
        }
    }
}
