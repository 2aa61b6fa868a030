//! Bags of numbers, all in one pool: of no order, with every member at a place of its own.
//!
//! Who leaves is replaced by the last who came, and that one is near: with links from member to
//! member, its two neighbors would have to be fetched from wherever they are.

use alloc::vec::Vec;

use super::shelves::NONE;

/// How many members a piece has, so that it is one line of the cache.
const PIECE: usize = 14;

/// A part of a bag. Only the first piece of a bag is not full.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Piece {
    members: [u32; PIECE],
    len: u32,
    /// The next piece of the same bag, or the next that is free.
    after: u32,
}

/// The pool. A bag is the number of its first piece, `NONE` if it is empty.
#[derive(Clone, Debug)]
pub(super) struct Bags {
    pieces: Vec<Piece>,
    free: u32,
}

/// Somebody who has moved to the place of one who left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Moved {
    pub(super) member: u32,
    pub(super) place: u32,
}

/// A place is a piece, and in the lowest bits a member of it.
const MEMBER_BITS: u32 = 4;

impl Bags {
    pub(super) const fn new() -> Bags {
        Bags { pieces: Vec::new(), free: NONE }
    }

    /// Puts a member in, and says at which place it is.
    pub(super) fn put_in(&mut self, bag: &mut u32, member: u32) -> u32 {
        if *bag == NONE || self.pieces[*bag as usize].len as usize == PIECE {
            *bag = self.add_piece(*bag);
        }
        let piece = &mut self.pieces[*bag as usize];
        let at = piece.len;
        piece.members[at as usize] = member;
        piece.len += 1;
        (*bag << MEMBER_BITS) | at
    }

    /// Takes out who is at `place`, and says who is there instead.
    pub(super) fn take_out(&mut self, bag: &mut u32, place: u32) -> Option<Moved> {
        let first = *bag;
        let piece = &mut self.pieces[first as usize];
        piece.len -= 1;
        let last = piece.len;
        let member = piece.members[last as usize];
        if last == 0 {
            *bag = core::mem::replace(&mut piece.after, self.free);
            self.free = first;
        }
        if place == (first << MEMBER_BITS) | last {
            return None;
        }
        *self.member(place) = member;
        Some(Moved { member, place })
    }

    /// Somebody in a bag.
    pub(super) fn any(&self, bag: u32) -> Option<u32> {
        let piece = self.pieces.get(bag as usize)?;
        Some(piece.members[piece.len as usize - 1])
    }

    fn member(&mut self, place: u32) -> &mut u32 {
        let at = place & ((1 << MEMBER_BITS) - 1);
        &mut self.pieces[(place >> MEMBER_BITS) as usize].members[at as usize]
    }

    fn add_piece(&mut self, after: u32) -> u32 {
        let piece = Piece { members: [NONE; PIECE], len: 0, after };
        match self.free {
            NONE => {
                self.pieces.push(piece);
                u32::try_from(self.pieces.len() - 1).expect("there are no more pieces than members")
            }
            free => {
                self.free = self.pieces[free as usize].after;
                self.pieces[free as usize] = piece;
                free
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_where_the_bags_say_and_no_piece_is_lost() {
        let (mut bags, mut firsts) = (Bags::new(), [NONE; 3]);
        // By member: its bag and its place.
        let mut known = [None; 300];
        let mut draw = 7_u32;
        for _ in 0..100_000 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let member = draw >> 8 & 255;
            match known[member as usize].take() {
                None => {
                    let bag = (draw >> 4 & 1) as usize;
                    known[member as usize] = Some((bag, bags.put_in(&mut firsts[bag], member)));
                }
                Some((bag, place)) => {
                    if let Some(moved) = bags.take_out(&mut firsts[bag], place) {
                        known[moved.member as usize] = Some((bag, moved.place));
                    }
                }
            }
            for (bag, first) in firsts.iter().enumerate() {
                let of_bag = |known: &&Option<(usize, u32)>| known.is_some_and(|it| it.0 == bag);
                assert_eq!(bags.any(*first).is_none(), known.iter().filter(of_bag).count() == 0);
            }
        }
        for (member, (bag, place)) in
            known.iter().enumerate().filter_map(|it| Some((it.0, (*it.1)?)))
        {
            assert_eq!(*bags.member(place) as usize, member);
            assert!(bag < 2);
        }
        assert!(bags.pieces.len() <= 256_usize.div_ceil(PIECE) + 2);
    }
}
