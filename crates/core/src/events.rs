//! A list of events in at most 8 bytes each.
//!
//! One word holds 46 bits of the tick at which cells passed and 18 bits of how many did. 46 bits of
//! microseconds are more than two years, and no event outlives a period of 366 days, so the upper
//! bits follow from the newest event. An event of more cells than 18 bits hold takes a second word,
//! whose lower 18 bits are zero, as are those of its first: so a list can be read from both ends.

use alloc::collections::VecDeque;

use crate::tick::{Span, Tick};

/// Events, oldest first, with ticks that never fall.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Events {
    words: VecDeque<u64>,
    /// The latest tick that was seen: no event is recorded before it.
    latest: Tick,
    /// Whether events of different ticks were ever kept as one, since the list was last empty.
    merged: bool,
}

impl Events {
    /// The most words of events that are each remembered by itself.
    ///
    /// Beyond it, events of the same 16,384th of the period become one that passed when the last of
    /// them did. They leave up to that much later than they should, and never too early; and no
    /// key takes more than twice these words, half a mebibyte.
    pub(crate) const EXACT_MAX: usize = 32_768;

    const BUCKETS: u64 = 16_384;

    const CELLS_BITS: u32 = 18;
    const CELLS_MASK: u64 = (1 << Events::CELLS_BITS) - 1;
    const TICK_MASK: u64 = (1 << (64 - Events::CELLS_BITS)) - 1;

    /// Notes that it is `now`, unless it has been later already.
    pub(crate) fn advance(&mut self, now: Tick) {
        self.latest = self.latest.max(now);
    }

    /// Adds `cells` at `now`, or at the latest tick if the clock has gone back. Events are kept for
    /// `per`.
    pub(crate) fn record(&mut self, now: Tick, cells: u32, per: Span) -> Tick {
        self.advance(now);
        if cells == 0 {
            return self.latest;
        }
        let together = match self.newest() {
            Some((tick, before)) if tick == self.latest || self.merges(tick, per) => {
                self.merged |= tick != self.latest;
                self.forget_newest();
                before + cells
            }
            newest => {
                self.merged &= newest.is_some();
                cells
            }
        };
        self.push_newest(self.latest, together);
        self.latest
    }

    /// Removes up to `cells` of what was recorded at `at`, and says how many.
    pub(crate) fn take_back(&mut self, at: Tick, cells: u32, per: Span) -> u32 {
        let mut index = self.words.len();
        let mut found = None;
        while let Some((first, tick, had)) = self.event_before(index)
            && at <= tick
        {
            let is_it = at == tick || (self.merged && is_one_bucket(at, tick, per));
            found = is_it.then_some((first..index, tick, had));
            index = first;
        }
        let Some((words, tick, had)) = found else { return 0 };
        let (first, taken) = (words.start, cells.min(had));
        self.words.drain(words);
        self.insert(first, tick, had - taken);
        taken
    }

    /// Removes up to `cells`, of the oldest events first, and says how many.
    pub(crate) fn take_oldest(&mut self, cells: u32) -> u32 {
        let mut taken = 0;
        while taken < cells
            && let Some((tick, had)) = self.oldest()
        {
            let some = had.min(cells - taken);
            self.forget_oldest();
            self.insert(0, tick, had - some);
            taken += some;
        }
        taken
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

    /// The latest tick that was seen, and whether events of different ticks were ever kept as one.
    pub(crate) fn seen(&self) -> (Tick, bool) {
        (self.latest, self.merged)
    }

    /// The list that has [`Events::seen`] this, and holds `events`; `None` if there is no such one.
    pub(crate) fn again(
        (latest, merged): (Tick, bool),
        events: impl Iterator<Item = (Tick, u32)>,
    ) -> Option<Events> {
        let mut list = Events { words: VecDeque::new(), latest, merged };
        let mut before = None;
        for (tick, cells) in events {
            let is_known = tick <= latest && latest.since(tick).get() <= Events::TICK_MASK;
            if cells == 0 || !is_known || before.is_some_and(|before| tick <= before) {
                return None;
            }
            list.push_newest(tick, cells);
            before = Some(tick);
        }
        Some(list)
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

    /// Whether the newest event, at `tick`, takes in one at the latest tick.
    fn merges(&self, tick: Tick, per: Span) -> bool {
        Events::EXACT_MAX <= self.words.len() && is_one_bucket(tick, self.latest, per)
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

/// Whether two ticks lie in the same small part of a period.
fn is_one_bucket(a: Tick, b: Tick, per: Span) -> bool {
    let bucket = per.get().div_ceil(Events::BUCKETS);
    a.get() / bucket == b.get() / bucket
}

/// The bits of a tick that are kept distinguish every event that counts.
const _: () = assert!(crate::Quota::PER_MAX.get() < Events::TICK_MASK);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const PER: Span = Span::from_secs(1);

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
            events.record(tick(index * 1_000), cells, PER);
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
            events.record(tick(5), 200_000, PER);
        }
        events.record(tick(4), 1, PER); // The clock went back: it counts from the latest tick.
        assert_eq!(listed(&events), [(5, 600_001)]);
        assert_eq!(events.words.len(), 2);
    }

    #[test]
    fn what_is_taken_back_is_what_was_recorded_then() {
        let mut events = Events::default();
        for (at, cells) in [(1, 300_000), (2, 5), (3, 400_000), (4, 9)] {
            events.record(tick(at), cells, PER);
        }
        assert_eq!(events.take_back(tick(3), 399_999, PER), 399_999);
        assert_eq!(listed(&events), [(1, 300_000), (2, 5), (3, 1), (4, 9)]);
        assert_eq!(events.take_back(tick(2), 7, PER), 5);
        assert_eq!(events.take_back(tick(2), 7, PER), 0);
        assert_eq!(events.take_back(tick(9), 7, PER), 0);
        assert_eq!(events.take_back(tick(1), 1, PER), 1);
        assert_eq!(listed(&events), [(1, 299_999), (3, 1), (4, 9)]);
    }

    #[test]
    fn ticks_are_whole_again_a_year_apart() {
        let year = 365 * 86_400_000_000;
        let mut events = Events::default();
        for index in 0..3 {
            events.record(tick(1_700_000_000_000_000 + index * year / 2), 1, PER);
        }
        let expected: Vec<(u64, u32)> =
            (0..3).map(|index| (1_700_000_000_000_000 + index * year / 2, 1)).collect();
        assert_eq!(listed(&events), expected);
    }

    #[test]
    fn a_long_list_stays_bounded_and_nearly_exact() {
        let per = Span::from_secs(60);
        let bucket = per.get().div_ceil(16_384);
        let mut events = Events::default();
        for index in 0..1_200_000 {
            let at = tick(index * 60);
            while events.oldest().is_some_and(|(passed, _)| passed.after(per) <= at) {
                events.forget_oldest();
            }
            events.record(at, 1, per);
            assert!(events.words.len() <= 2 * Events::EXACT_MAX);
        }
        assert!(Events::EXACT_MAX / 2 < events.words.len());
        // A million a minute: what counts is a million, and at most one bucket more.
        let cells: u64 = events.iter().map(|(_, cells)| u64::from(cells)).sum();
        assert!((1_000_000..=1_000_000 + bucket / 60 + 1).contains(&cells), "{cells} cells");
    }

    #[test]
    fn what_was_kept_together_can_be_taken_back() {
        let per = Span::from_secs(60);
        let mut events = Events::default();
        for index in 0..40_000 {
            events.record(tick(index * 60), 1, per);
        }
        for index in (0..40_000).rev() {
            assert_eq!(events.take_back(tick(index * 60), 1, per), 1, "event {index}");
        }
        assert_eq!(events.newest(), None);
    }

    #[test]
    fn memory_grows_by_an_eighth_at_a_time() {
        let mut events = Events::default();
        for index in 0..1_000 {
            events.record(tick(index), 1, PER);
            assert!(events.heap_bytes() <= 8 * (events.words.len() * 9 / 8 + 4));
        }
    }
}
