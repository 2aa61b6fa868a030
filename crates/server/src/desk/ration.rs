//! So many places for each caller, and for all together.
//!
//! The last quarter of all places is for callers that have few: a caller that fills the rest does
//! not shut out those that come now and then.

use std::collections::HashMap;

use crate::caller::Caller;

/// Who has how many places.
#[derive(Debug)]
pub(crate) struct Ration {
    each: HashMap<Caller, usize>,
    all: usize,
    each_max: usize,
    all_max: usize,
}

/// There is no place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NoRoom {
    /// The caller has as many as one may have.
    Yours,
    /// All are taken, or all but those for callers that have few.
    All,
}

/// Of all places, one in so many is for callers that have few.
const PART_FOR_FEW: usize = 4;

/// Of a caller's places, one in so many is few.
const PART_IS_FEW: usize = 64;

impl Ration {
    pub(crate) fn new(each_max: usize, all_max: usize) -> Ration {
        Ration { each: HashMap::new(), all: 0, each_max, all_max }
    }

    /// Whether a caller may have another place.
    pub(crate) fn room(&self, caller: Caller) -> Result<(), NoRoom> {
        let has = self.each.get(&caller).copied().unwrap_or_default();
        if self.each_max <= has {
            return Err(NoRoom::Yours);
        }
        let has_few = has < self.each_max.div_ceil(PART_IS_FEW);
        let kept = if has_few { 0 } else { self.all_max / PART_FOR_FEW };
        if self.all_max - kept <= self.all { Err(NoRoom::All) } else { Ok(()) }
    }

    pub(crate) fn take(&mut self, caller: Caller) {
        self.all += 1;
        *self.each.entry(caller).or_default() += 1;
    }

    /// Gives back a place that was taken.
    pub(crate) fn give_back(&mut self, caller: Caller) {
        let Some(has) = self.each.get_mut(&caller) else { return };
        *has -= 1;
        self.all -= 1;
        if *has == 0 {
            self.each.remove(&caller);
        }
    }

    /// The callers that have the most, at most `count`, and how many all others have.
    pub(crate) fn most(&self, count: usize) -> (Vec<(Caller, usize)>, usize) {
        let mut most: Vec<(Caller, usize)> = self.each.iter().map(|it| (*it.0, *it.1)).collect();
        most.sort_unstable_by_key(|(caller, has)| (std::cmp::Reverse(*has), *caller));
        most.truncate(count);
        let others = self.all - most.iter().map(|(_, has)| has).sum::<usize>();
        (most, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: Caller = Caller::Token(1);
    const BOB: Caller = Caller::Token(2);
    const CLEO: Caller = Caller::Token(3);

    fn fill(ration: &mut Ration, caller: Caller) -> (usize, NoRoom) {
        for count in 0.. {
            match ration.room(caller) {
                Ok(()) => ration.take(caller),
                Err(why) => return (count, why),
            }
        }
        unreachable!("there is an end to it")
    }

    #[test]
    fn nobody_takes_more_than_one_may_have_nor_the_last_places() {
        let mut ration = Ration::new(128, 200);
        assert_eq!(fill(&mut ration, ADA), (128, NoRoom::Yours));
        assert_eq!(fill(&mut ration, BOB), (22, NoRoom::All), "150 of 200");
        assert_eq!(fill(&mut ration, CLEO), (2, NoRoom::All), "few are two of 128");
        for number in 4..28 {
            assert_eq!(fill(&mut ration, Caller::Token(number)).0, 2);
        }
        assert_eq!(ration.room(Caller::Token(28)), Err(NoRoom::All));
        ration.give_back(ADA);
        assert_eq!(ration.room(Caller::Token(28)), Ok(()));
        assert_eq!(ration.room(ADA), Err(NoRoom::All));
    }

    #[test]
    fn those_who_have_the_most_are_told() {
        let mut ration = Ration::new(10, 100);
        for (caller, count) in [(ADA, 1), (BOB, 5), (CLEO, 3)] {
            (0..count).for_each(|_| ration.take(caller));
        }
        assert_eq!(ration.most(2), (vec![(BOB, 5), (CLEO, 3)], 1));
        (0..5).for_each(|_| ration.give_back(BOB));
        ration.give_back(BOB);
        assert_eq!(ration.most(9), (vec![(CLEO, 3), (ADA, 1)], 0));
        assert_eq!(ration.each.len(), 2, "who has nothing is forgotten");
    }
}
