//! The short way: a request that nobody is before, and that there is room for.
//!
//! It is what [`Queue::enqueue`] and [`Queue::dispatch`] do together when nothing waits, without
//! what they do for those that do. And shorter still: a request that the queue never heard of, and
//! that turns out to have cost more than that.

use crate::tick::Tick;

use super::classes::Chosen;
use super::node::LEAD_MAX;
use super::outcome::{Request, Room, Ticket};
use super::path::{Class, Path};
use super::queue::Queue;
use super::shelves::NONE;
use super::tree::Tree;
use super::weight;

impl<T> Queue<T> {
    /// Starts a request at once, if nobody waits and it fits and is in time; says what it takes of
    /// the room. `None` if that is not so, and then nothing has happened.
    ///
    /// Its flow pays for it as for any other: nobody can tell later that it did not wait.
    pub fn pass(&mut self, now: Tick, request: Request, room: Room) -> Option<(u32, Ticket)> {
        let Request { path, class, deadline, .. } = request;
        let estimate = request.cost.max(1);
        let cost = estimate.min(room.whole);
        if !self.is_empty() || room.free < cost || room.free == 0 || deadline < now {
            return None;
        }
        let found = self.tree.find_flow(class, &path);
        let flow = self.tree.find_or_add(found, &path);
        self.tree.pass(flow, estimate);
        let chosen = Chosen { class, by_floor: false };
        self.classes.served(chosen, estimate, |_| false);
        Some((cost, Ticket { flow, estimate }))
    }

    /// A flow was served `cells` that this queue did not hand out: it pays for them, from the
    /// present on, as for any others.
    pub fn charge(&mut self, class: Class, path: &Path, cells: u32) {
        self.tree.tidy();
        let found = self.tree.find_flow(class, path);
        // It has had them by then: what it weighs now, those say who wait.
        let flow = self.tree.add_rest(found, path);
        self.tree.owe(flow, cells);
    }

    /// Whether anybody waits or is being served, here or elsewhere.
    pub fn is_busy(&self) -> bool {
        !self.is_empty() || 0 < self.in_service() || self.tree.is_busy_elsewhere
    }

    /// Says whether requests are in service that this queue did not hand out. As long as there
    /// are, what flows owe to each other is not forgiven.
    pub fn busy_elsewhere(&mut self, is_busy: bool) {
        let was_busy = core::mem::replace(&mut self.tree.is_busy_elsewhere, is_busy);
        if was_busy && !is_busy {
            for class in Class::ALL {
                self.tree.rest_if_idle(Tree::root(class));
            }
        }
    }
}

impl Tree {
    fn owe(&mut self, flow: u32, cells: u32) {
        let mut at = flow;
        while self.node(at).parent != NONE {
            let node = self.node(at);
            let (parent, weight, mut carry) = (node.parent, node.weight, node.carry);
            let (tag, now) = (self.tag(at), self.group_of(parent).virtual_time);
            let owing = tag.max(now).saturating_add(weight::step(cells, weight, &mut carry));
            self.move_tag(at, owing.min(now + LEAD_MAX).max(tag), carry);
            if self.node(at).is_idle() {
                // Others of its group may be in service elsewhere: their busy period goes on.
                self.rest(at);
            }
            at = parent;
        }
    }

    /// A request of `cost` cells comes to a flow and starts, while nobody waits.
    fn pass(&mut self, flow: u32, cost: u32) {
        let mut at = flow;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            node.in_service += 1;
            let parent = node.parent;
            if parent != NONE {
                if node.is_at_rest {
                    self.leave_rest(at);
                }
                let group = self.nodes[parent as usize].group();
                let group = &mut self.groups[group as usize];
                let node = &mut self.nodes[at as usize];
                let paid = group.tag_now(node.finish, node.epoch);
                if paid <= group.virtual_time {
                    node.carry = 0;
                }
                let start = paid.clamp(group.virtual_time, group.virtual_time + LEAD_MAX);
                let finish = start + weight::step(cost, node.weight, &mut node.carry);
                group.advance(start);
                group.finish_max = group.finish_max.max(finish);
                (node.finish, node.epoch) = (finish, group.epoch);
                // Nobody is in line, so nobody has a place.
                group.put_back_if_late(&mut []);
            }
            at = parent;
        }
    }
}
