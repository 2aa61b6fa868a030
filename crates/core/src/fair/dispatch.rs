//! Who is next, who goes first although he is not, and who has to leave.

use crate::tick::Tick;

use super::classes::Chosen;
use super::node::Below;
use super::outcome::{Reason, Room, Started, Ticket, Turn};
use super::path::{Class, Path};
use super::queue::Queue;
use super::shelves::NONE;
use super::standing::Standing;
use super::tree::Tree;

/// How many flows are looked at for a request that fits, when the first one does not.
const LOOKED_AT: u32 = 16;

impl<T> Queue<T> {
    /// The next request that starts in `room`, or that is dropped instead. Ask until there is none.
    ///
    /// A request that is first and does not fit is passed by others that do, until they have taken
    /// as many cells as it needs; from then on everything that becomes free is kept for it.
    pub fn dispatch(&mut self, now: Tick, room: Room) -> Option<Turn<T>> {
        if room.free == 0 {
            return None;
        }
        let chosen = self.classes.choose(|class| self.has_requests(class))?;
        let flow = self.first_flow(chosen.class);
        let at = match self.next_of(flow, now) {
            Next::Start(at) => at,
            Next::Drop(at, reason) => return Some(Turn::Drop(self.refuse(at, reason))),
        };
        if self.taken(at, room) <= room.free {
            return Some(Turn::Start(self.start(chosen, at, now, room)));
        }
        let (chosen, passing) = self.passing(chosen, at, now, room)?;
        let taken = self.taken(passing, room);
        let first = self.waiting.get_mut(at);
        first.bypassed = first.bypassed.saturating_add(taken);
        Some(Turn::Start(self.start(chosen, passing, now, room)))
    }

    pub(super) fn has_requests(&self, class: Class) -> bool {
        0 < self.tree.node(Tree::root(class)).queued
    }

    /// The flow whose turn it is in a class that has requests.
    fn first_flow(&mut self, class: Class) -> u32 {
        let mut at = Tree::root(class);
        while self.tree.node(at).group() != NONE {
            at = self.tree.first_of(at).expect("who has requests has somebody in line");
        }
        at
    }

    /// The request of a flow whose turn it is, or that is to be dropped before.
    fn next_of(&mut self, flow: u32, now: Tick) -> Next {
        let Below { first, last } = self.tree.node(flow).below;
        let oldest = self.waiting.get(first).came;
        let mut next = first;
        if self.settings.watches() {
            let settings = self.settings;
            let standing = self.standing_of(flow);
            if let Some(shed) = settings.shed
                && standing.sheds(shed, now, oldest, first == last)
            {
                return Next::Drop(first, Reason::Shed);
            }
            let after = settings.newest_first_after;
            if after.is_some_and(|after| standing.is_newest_first(after, now, oldest)) {
                next = last;
            }
        }
        if self.waiting.get(next).deadline < now {
            return Next::Drop(next, Reason::Expired);
        }
        Next::Start(next)
    }

    /// The request of a flow that may pass one that does not fit.
    fn peek_of(&self, flow: u32, now: Tick) -> Option<u32> {
        let Below { first, last } = self.tree.node(flow).below;
        let next = if self.is_newest_first(flow, now) { last } else { first };
        (now <= self.waiting.get(next).deadline).then_some(next)
    }

    fn is_newest_first(&self, flow: u32, now: Tick) -> bool {
        let oldest = self.waiting.get(self.tree.node(flow).below.first).came;
        let standing = self.standing.get(flow as usize);
        let watched = standing.zip(self.settings.newest_first_after);
        watched.is_some_and(|(it, after)| it.was_newest_first(after, now, oldest))
    }

    fn standing_of(&mut self, flow: u32) -> &mut Standing {
        if self.standing.len() <= flow as usize {
            self.standing.resize(self.tree.nodes.len(), Standing::default());
        }
        &mut self.standing[flow as usize]
    }

    /// What a request takes of the room; one that is wider than everything takes everything.
    fn taken(&self, at: u32, room: Room) -> u32 {
        self.waiting.get(at).cost.min(room.whole)
    }

    /// A request that fits, while `first` does not and has not been passed by too much.
    fn passing(
        &mut self,
        chosen: Chosen,
        first: u32,
        now: Tick,
        room: Room,
    ) -> Option<(Chosen, u32)> {
        if self.taken(first, room) <= self.waiting.get(first).bypassed {
            return None;
        }
        let mut looks = LOOKED_AT;
        let others = Class::ALL.into_iter().filter(|class| *class != chosen.class);
        let others = others.map(|class| Chosen { class, by_floor: false });
        core::iter::once(chosen).chain(others).find_map(|chosen| {
            let top = Tree::root(chosen.class);
            Some((chosen, self.fitting(top, now, room, &mut looks)?))
        })
    }

    /// The first request below a node that fits, in the order of their turns.
    fn fitting(&mut self, node: u32, now: Tick, room: Room, looks: &mut u32) -> Option<u32> {
        if self.tree.node(node).group() == NONE {
            let next = self.peek_of(node, now)?;
            return (self.taken(next, room) <= room.free).then_some(next);
        }
        let first = self.tree.first_of(node)?;
        let top = self.tree.places[first as usize] as usize;
        // Every look takes one place of the heap out and puts at most four in.
        let mut places = [top; 1 + 3 * LOOKED_AT as usize + 1];
        let mut len = 1;
        while 0 < len && 0 < *looks {
            *looks -= 1;
            let entries = &self.tree.group_of(node).heap;
            let least = (0..len).min_by_key(|at| entries.at(places[*at]))?;
            let place = places[least];
            len -= 1;
            places[least] = places[len];
            let (child, below) = (entries.at(place).node(), entries.below(place));
            if let Some(found) = self.fitting(child, now, room, looks) {
                return Some(found);
            }
            for below in below {
                places[len] = below;
                len += 1;
            }
        }
        None
    }

    fn start(&mut self, chosen: Chosen, at: u32, now: Tick, room: Room) -> Started<T> {
        let cost = self.taken(at, room);
        let left = self.take(at);
        self.tree.serve(left.flow, left.cost);
        let tree = &self.tree;
        let has_requests = |class| 0 < tree.node(Tree::root(class)).queued;
        self.classes.served(chosen, left.cost, has_requests);
        let ticket = Ticket { flow: left.flow, estimate: left.cost };
        self.tree.fetch_next(chosen.class);
        let waited = now.since(left.came);
        Started { item: left.item, handle: left.handle, cost, waited, ticket }
    }

    /// The flow that loses a request to a newcomer when there is no room: the one with the largest
    /// backlog by weight, level by level, so that many flows of one group count as one. Nobody, if
    /// the newcomer's own backlog would be as large.
    pub(super) fn loser(&mut self, class: Class, path: &Path) -> Option<u32> {
        let queued = Class::ALL.map(|class| self.tree.node(Tree::root(class)).queued);
        let largest = Class::ALL.into_iter().max_by_key(|class| queued[class.index()])?;
        let mut at = Tree::root(largest);
        // The newcomer's own node, for as long as it may be the one that loses.
        let mut own = (largest == class).then_some(at);
        if own.is_none() && queued[largest.index()] <= queued[class.index()] + 1 {
            return None;
        }
        let mut shares = path.shares(self.settings.levels.into()).iter();
        while self.tree.node(at).group() != NONE {
            let highest = self.tree.largest(at)?;
            if let (Some(parent), Some(share)) = (own, shares.next()) {
                own = self.tree.find(parent, share.name);
                if own != Some(highest) {
                    let loser = self.tree.node(highest);
                    let queued = own.map_or(0, |own| self.tree.node(own).queued);
                    let mine = u64::from(queued + 1) * u64::from(loser.weight.get());
                    let theirs = u64::from(loser.queued) * u64::from(share.weight.get());
                    if theirs <= mine {
                        return None;
                    }
                    own = None;
                }
            }
            at = highest;
        }
        own.is_none().then_some(at)
    }

    /// The request of a flow that would be served last.
    pub(super) fn last_of(&self, flow: u32, now: Tick) -> u32 {
        let Below { first, last } = self.tree.node(flow).below;
        if self.is_newest_first(flow, now) { first } else { last }
    }
}

/// What becomes of the request whose turn it is.
enum Next {
    Start(u32),
    Drop(u32, Reason),
}
