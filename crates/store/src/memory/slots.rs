//! The slots of one shard: a sorted, open-addressed table in one piece of memory.
//!
//! A slot is a tag and one or two words of state. Tags are kept in ascending order, each as close
//! after its home as it fits, and the home grows with the tag. So a search ends at the first larger
//! tag or empty slot, growing is one pass from end to end in place, and there are no tombstones.
//! Memory for the most slots is reserved at once and touched only as far as it is used, so nothing
//! ever moves and no freed block stays behind.

use super::rule::RuleId;
use super::slot_key::{RULE_BITS, SlotKey, hash_of, rule_of};

/// Slots of `stride` words, tag first. A tag of zero is an empty slot.
#[derive(Debug)]
pub(super) struct Slots {
    words: Vec<u64>,
    // Small numbers, so that a shard and its lock fit one cache line.
    stride: u32,
    /// How many slots are somebody's home; there are [`Slots::TAIL`] more, once there are any.
    homes: u32,
    live: u32,
    live_max: u32,
}

impl Slots {
    /// Of four slots three may be taken: two or three are looked at to find one.
    const LOAD: (usize, usize) = (3, 4);

    /// Slots after the last home, for the runs that end there.
    const TAIL: usize = 16;

    /// No slots yet, and never more than `live_max` taken.
    pub(super) fn new(stride: usize, live_max: usize) -> Slots {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (stride, live_max) = (small(stride), small(live_max));
        Slots { words: Vec::new(), stride, homes: 0, live: 0, live_max }
    }

    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    pub(super) fn live_max(&self) -> usize {
        self.live_max as usize
    }

    /// How many slots there are, taken or not.
    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.homes == 0 { 0 } else { self.homes as usize + Slots::TAIL }
    }

    fn stride(&self) -> usize {
        self.stride as usize
    }

    /// All slots, one after the other, empty ones included.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Bytes of the slots that there are: what is reserved beyond was never touched.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// Where the slots begin, as an address to prefetch near.
    pub(super) fn address(&self) -> usize {
        self.words.as_ptr().addr()
    }

    /// The tag at `index`, or zero beyond the end.
    #[inline]
    pub(super) fn slot_key(&self, index: usize) -> u64 {
        self.words.get(index * self.stride()).copied().unwrap_or(0)
    }

    /// The state words at `index`; a second word that is not kept is zero.
    #[inline]
    pub(super) fn state(&self, index: usize) -> [u64; 2] {
        let at = index * self.stride();
        let second = if self.stride == 3 { self.words[at + 2] } else { 0 };
        [self.words[at + 1], second]
    }

    /// The state word of `slot_key` where slots have two words; the shortest way to it.
    #[inline]
    pub(super) fn word_of(&mut self, slot_key: SlotKey) -> Option<&mut u64> {
        let (index, _) = self.word_at(slot_key)?;
        self.words.as_chunks_mut::<2>().0.get_mut(index).map(|[_, word]| word)
    }

    /// Which slot `slot_key` is in where slots have two words, and the state word there.
    #[inline]
    pub(super) fn word_at(&self, SlotKey(slot_key): SlotKey) -> Option<(usize, u64)> {
        let mut index = self.home(slot_key);
        let (slots, _) = self.words.as_chunks::<2>();
        loop {
            let &[here, word] = slots.get(index)?;
            if here == slot_key {
                return Some((index, word));
            }
            if here == 0 || slot_key < here {
                return None;
            }
            index += 1;
        }
    }

    /// Writes the state word of a slot that [`Slots::word_at`] has found.
    #[inline]
    pub(super) fn set_word(&mut self, index: usize, word: u64) {
        if let Some([_, here]) = self.words.as_chunks_mut::<2>().0.get_mut(index) {
            *here = word;
        }
    }

    #[inline]
    pub(super) fn set_state(&mut self, index: usize, state: [u64; 2]) {
        let at = index * self.stride();
        self.words[at + 1] = state[0];
        if self.stride == 3 {
            self.words[at + 2] = state[1];
        }
    }

    /// Where `slot_key` is, or where it belongs.
    #[inline]
    pub(super) fn find(&self, slot_key: u64) -> Result<usize, usize> {
        let mut index = self.home(slot_key);
        loop {
            let here = self.slot_key(index);
            if here == slot_key {
                return Ok(index);
            }
            if here == 0 || slot_key < here {
                return Err(index);
            }
            index += 1;
        }
    }

    /// Where the first tag is that has the hash of `slot_key`, and for which `is_it` holds.
    pub(super) fn find_like(&self, slot_key: u64, is_it: impl Fn(u64) -> bool) -> Option<usize> {
        let mut index = self.home(slot_key);
        loop {
            let here = self.slot_key(index);
            if here == 0 || hash_of(slot_key) < hash_of(here) {
                return None;
            }
            if hash_of(here) == hash_of(slot_key) && is_it(here) {
                return Some(index);
            }
            index += 1;
        }
    }

    /// The rules under which the hash of `slot_key` is written.
    pub(super) fn ids_like(&self, slot_key: u64) -> impl Iterator<Item = RuleId> {
        let tags = (self.home(slot_key)..).map(|index| self.slot_key(index));
        let near = tags.take_while(move |&here| here != 0 && hash_of(here) <= hash_of(slot_key));
        near.filter(move |&here| hash_of(here) == hash_of(slot_key)).map(rule_of)
    }

    /// Puts a new `slot_key` in.
    pub(super) fn insert(&mut self, slot_key: u64, state: [u64; 2]) {
        if self.is_crowded() {
            self.grow();
        }
        while !self.try_insert(slot_key, state) {
            self.grow();
        }
        self.live += 1;
    }

    /// Whether one more would be too many for the slots that there are.
    pub(super) fn is_crowded(&self) -> bool {
        let (num, den) = Slots::LOAD;
        self.len() * num < (self.live() + 1) * den
    }

    /// Takes the slot at `index` out, and closes the gap.
    pub(super) fn remove(&mut self, index: usize) {
        let (stride, mut gap) = (self.stride(), index);
        while self.slot_key(gap + 1) != 0 && self.home(self.slot_key(gap + 1)) <= gap {
            self.words.copy_within((gap + 1) * stride..(gap + 2) * stride, gap * stride);
            gap += 1;
        }
        self.words[gap * stride..(gap + 1) * stride].fill(0);
        self.live -= 1;
    }

    /// Inserts where it belongs, unless the run that it belongs to reaches the end.
    fn try_insert(&mut self, slot_key: u64, state: [u64; 2]) -> bool {
        let (Ok(index) | Err(index)) = self.find(slot_key);
        let Some(empty) = (index..self.len()).find(|&index| self.slot_key(index) == 0) else {
            return false;
        };
        let stride = self.stride();
        self.words.copy_within(index * stride..empty * stride, (index + 1) * stride);
        self.words[index * stride] = slot_key;
        self.set_state(index, state);
        true
    }

    /// Takes all out, and gives the memory back.
    pub(super) fn clear(&mut self) {
        (self.words, self.homes, self.live) = (Vec::new(), 0, 0);
    }

    /// An eighth more slots, and everybody to a new home. At last there are as many as are needed
    /// for the most that may be taken; more only if chance wants it.
    fn grow(&mut self) {
        let (num, den) = Slots::LOAD;
        let enough = (self.live_max() * den).div_ceil(num);
        loop {
            let before = self.len();
            let after = before + (before / 8).max(Slots::TAIL);
            let after = if before < enough { after.min(enough) } else { after };
            let after = after.max(2 * Slots::TAIL);
            if self.words.capacity() < after * self.stride() {
                self.reserve(after);
            }
            self.words.resize(after * self.stride(), 0);
            self.homes = u32::try_from(after - Slots::TAIL).unwrap_or(u32::MAX);
            self.gather_at_end();
            if self.spread() {
                return;
            }
        }
    }

    /// Reserves memory for all the slots there can be, or for `slots` if chance wants more.
    fn reserve(&mut self, slots: usize) {
        // A shard that may grow very large is not reserved whole; it then moves now and then.
        let most = (self.live_max().min(1 << 20) * 7 / 4 + 2 * Slots::TAIL).max(slots + slots / 4);
        self.words.reserve_exact(most * self.stride() - self.words.len());
    }

    /// Moves every taken slot to the end, in order.
    fn gather_at_end(&mut self) {
        let stride = self.stride();
        let mut to = self.len();
        for from in (0..self.len()).rev() {
            if self.slot_key(from) != 0 {
                to -= 1;
                if to != from {
                    self.words.copy_within(from * stride..(from + 1) * stride, to * stride);
                    self.words[from * stride] = 0;
                }
            }
        }
    }

    /// Moves every slot from the end to its home, or as close after it as it fits; false if the
    /// last run does not fit before the end.
    ///
    /// Nothing that is still to be moved is overwritten: those behind need places too.
    fn spread(&mut self) -> bool {
        let stride = self.stride();
        let mut next = 0;
        for from in self.len() - self.live()..self.len() {
            let to = self.home(self.slot_key(from)).max(next);
            if from < to {
                return false;
            }
            if to < from {
                self.words.copy_within(from * stride..(from + 1) * stride, to * stride);
                self.words[from * stride] = 0;
            }
            next = to + 1;
        }
        true
    }

    /// Where `slot_key` would like to be. Grows with the tag.
    #[inline]
    fn home(&self, slot_key: u64) -> usize {
        home(slot_key, self.homes as usize)
    }
}

/// Where `slot_key` would like to be among so many homes.
#[inline]
fn home(slot_key: u64, homes: usize) -> usize {
    let scaled = (u128::from(hash_of(slot_key)) * homes as u128) >> (64 - RULE_BITS);
    usize::try_from(scaled).expect("less than the number of homes")
}

/// Where `slot_key` would like to be among `len` slots, for those who only want to be early.
#[inline]
pub(super) fn home_among(slot_key: u64, len: usize) -> usize {
    home(slot_key, len.saturating_sub(Slots::TAIL))
}
