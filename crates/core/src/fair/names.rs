//! Nodes by their names: a table of pieces, each one line of the cache.
//!
//! Beside every node is a mark of its name, so that a name that is not here is known from one
//! piece alone, and no node has to be fetched to compare it.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// How many nodes a piece has.
const PIECE: usize = 12;

/// Eight nodes to a piece, when there are as many as requests: few pieces have more than twelve.
const NODES_EACH: usize = 8;

/// How many pieces come to be together.
const PAGE: usize = 64;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Piece {
    nodes: [u32; PIECE],
    /// Zero where there is no node.
    marks: [u8; PIECE],
    /// One more than the number of the piece that takes what this one cannot, zero if there is
    /// none: then this one is full.
    after: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The first piece of every hash, a power of two. A table that is hardly used is hardly there.
    pages: Vec<Option<Box<[Piece; PAGE]>>>,
    firsts: usize,
    /// Pieces for what the first ones cannot take; they are numbered after these.
    others: Vec<Piece>,
    free: Vec<u32>,
}

/// The hash of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn of(parent: u32, name: u64) -> Hash {
        let parent = u64::from(parent).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Hash((name ^ parent).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    fn mark(self) -> u8 {
        ((self.0 >> 56) as u8).max(1)
    }
}

impl Names {
    pub(super) fn new(requests_max: u32) -> Names {
        let firsts = (requests_max as usize).next_power_of_two().div_ceil(NODES_EACH);
        let pages = alloc::vec![None; firsts.div_ceil(PAGE)];
        Names { pages, firsts, others: Vec::new(), free: Vec::new() }
    }

    /// The node of this hash for which `is` holds.
    pub(super) fn find(&self, hash: Hash, is: impl Fn(u32) -> bool) -> Option<u32> {
        let (piece, place) = self.seek(hash, is)?;
        Some(self.piece(piece).nodes[place])
    }

    fn seek(&self, hash: Hash, is: impl Fn(u32) -> bool) -> Option<(usize, usize)> {
        let mut at = self.first(hash);
        loop {
            let piece = self.piece(at);
            if let Some(place) = piece.places_of(hash.mark()).find(|it| is(piece.nodes[*it])) {
                return Some((at, place));
            }
            at = piece.after.checked_sub(1)? as usize;
        }
    }

    pub(super) fn add(&mut self, hash: Hash, node: u32) {
        let (_, mut last) = self.last_two(hash);
        if self.piece(last).len() == PIECE {
            let more = self.more();
            self.piece_mut(last).after = more + 1;
            last = more as usize;
        }
        let piece = self.piece_mut(last);
        let at = piece.len();
        (piece.nodes[at], piece.marks[at]) = (node, hash.mark());
    }

    /// Takes a node out that is here; the last of its hash comes to its place.
    pub(super) fn remove(&mut self, hash: Hash, node: u32) {
        let found = self.seek(hash, |it| it == node);
        let (at, place) = found.expect("who is forgotten was remembered");
        let (before, last) = self.last_two(hash);
        let piece = self.piece_mut(last);
        let len = piece.len() - 1;
        let moved = (piece.nodes[len], core::mem::replace(&mut piece.marks[len], 0));
        if (at, place) != (last, len) {
            let piece = self.piece_mut(at);
            (piece.nodes[place], piece.marks[place]) = moved;
        }
        if len == 0 && before != last {
            let vacated = core::mem::take(&mut self.piece_mut(before).after) - 1;
            self.free.push(vacated);
        }
    }

    fn piece(&self, at: usize) -> &Piece {
        match at.checked_sub(self.firsts) {
            Some(other) => &self.others[other],
            None => self.pages[at / PAGE].as_ref().map_or(&Piece::EMPTY, |it| &it[at % PAGE]),
        }
    }

    fn piece_mut(&mut self, at: usize) -> &mut Piece {
        if let Some(other) = at.checked_sub(self.firsts) {
            return &mut self.others[other];
        }
        let page = self.pages[at / PAGE].get_or_insert_with(|| Box::new([Piece::EMPTY; PAGE]));
        &mut page[at % PAGE]
    }

    fn first(&self, hash: Hash) -> usize {
        (hash.0 >> 32) as usize & (self.firsts - 1)
    }

    /// The last piece of a hash and the one before it; twice the same if there is only one.
    fn last_two(&self, hash: Hash) -> (usize, usize) {
        let mut before = self.first(hash);
        let mut last = before;
        while let Some(after) = self.piece(last).after.checked_sub(1) {
            (before, last) = (last, after as usize);
        }
        (before, last)
    }

    fn more(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.others.push(Piece::EMPTY);
            let at = self.firsts + self.others.len() - 1;
            u32::try_from(at).expect("there are no more pieces than nodes")
        })
    }
}

impl Piece {
    const EMPTY: Piece = Piece { nodes: [0; PIECE], marks: [0; PIECE], after: 0 };

    /// How many nodes it has; they are at its first places.
    fn len(&self) -> usize {
        // Beyond the last place are zeros.
        self.places_of(0).next().unwrap_or(PIECE)
    }

    /// The places with this mark. All are compared at once, as bytes of one number.
    fn places_of(&self, mark: u8) -> impl Iterator<Item = usize> {
        let words = self.marks.as_chunks().0.iter().rev();
        let marks = words.fold(0, |marks, it| marks << 32 | u128::from(u32::from_le_bytes(*it)));
        let differ = marks ^ u128::from_le_bytes([mark; 16]);
        // The highest bit of every byte that is zero, and nothing else.
        let low = u128::from_le_bytes([0x7F; 16]);
        let mut same = !(((differ & low) + low) | differ | low);
        core::iter::from_fn(move || {
            let place = same.trailing_zeros() as usize / 8;
            same &= same.checked_sub(1)?;
            Some(place)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_is_found_and_who_is_out_is_not_however_many_share_a_piece() {
        // One piece for everybody.
        let mut names = Names::new(1);
        let mut is_in = [false; 100];
        let mut draw = 7_u32;
        let hash = |node: u32| Hash::of(3, u64::from(node / 2));
        for _ in 0..20_000 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let node = (draw >> 16) % 100;
            let is_here = &mut is_in[node as usize];
            if *is_here {
                names.remove(hash(node), node);
            } else {
                names.add(hash(node), node);
            }
            *is_here = !*is_here;
            for node in (0..100).step_by(7) {
                let found = names.find(hash(node), |it| it == node);
                assert_eq!(found, is_in[node as usize].then_some(node));
            }
        }
        let used = 1 + names.others.len() - names.free.len();
        assert_eq!(used, is_in.iter().filter(|it| **it).count().div_ceil(PIECE));
        assert!(names.others.len() < 100_usize.div_ceil(PIECE));
    }
}
