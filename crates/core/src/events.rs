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
    /// When the last recorded event passed; kept even when that event is gone.
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

    /// Adds `cells` at `now`, or at the last event's tick if the clock has gone back.
    pub(crate) fn record(&mut self, now: Tick, cells: u32) -> Tick {
        self.latest = self.latest.max(now);
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
