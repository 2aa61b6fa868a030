//! What requests do to the flows they are of: come, go, start and end.
//!
//! Tags move when a request is served, never when it comes or goes: what is cancelled leaves no
//! trace. Every level of a path is a start-time fair queue of its own.

use super::heap::Entry;
use super::node::{LEAD_MAX, Node};
use super::shelves::NONE;
use super::tree::Tree;
use super::weight::{self, Tag};

impl Tree {
    /// A request of `cost` cells comes to a flow.
    pub(super) fn arrive(&mut self, flow: u32, cost: u32) {
        let mut at = flow;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            node.queued += 1;
            node.cost += u64::from(cost);
            let (is_first, parent) = (node.queued == 1, node.parent);
            if parent != NONE {
                if is_first {
                    self.line_up(at);
                }
                self.reshelve(at);
            }
            at = parent;
        }
    }

    /// A request of `cost` cells leaves a flow without having been served.
    pub(super) fn depart(&mut self, flow: u32, cost: u32) {
        let mut at = flow;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            node.queued -= 1;
            node.cost -= u64::from(cost);
            let (is_last, parent) = (node.queued == 0, node.parent);
            if parent != NONE {
                if is_last {
                    self.leave_line(at);
                }
                self.reshelve(at);
            }
            self.rest_if_idle(at);
            at = parent;
        }
    }

    /// A request of `cost` cells of a flow starts: virtual time is where it stood, and the flow
    /// moves on.
    pub(super) fn serve(&mut self, flow: u32, cost: u32) {
        let mut at = flow;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            node.queued -= 1;
            node.cost -= u64::from(cost);
            node.in_service += 1;
            let (is_last, parent) = (node.queued == 0, node.parent);
            if parent != NONE {
                let step = weight::step(cost, node.weight, &mut node.carry);
                let place = self.places[at as usize] as usize;
                let group = &mut self.groups[self.nodes[parent as usize].group() as usize];
                let start = group.heap.at(place).tag();
                let finish = start + step;
                group.advance(start);
                group.finish_max = group.finish_max.max(finish);
                if is_last {
                    self.leave_line(at);
                } else {
                    let tie = group.next_tie(false);
                    group.heap.rekey(&mut self.places, at, finish, tie);
                }
                self.keep_finish(at, finish);
                let group = &mut self.groups[self.nodes[parent as usize].group() as usize];
                group.put_back_if_late(&mut self.places);
                self.reshelve(at);
            }
            at = parent;
        }
    }

    /// A request that was served as `estimate` cells is complete, and took `actual`.
    pub(super) fn complete(&mut self, flow: u32, estimate: u32, actual: u32) {
        let mut at = flow;
        while at != NONE {
            self.nodes[at as usize].in_service -= 1;
            let parent = self.node(at).parent;
            if parent != NONE && estimate != actual {
                self.true_up(at, estimate, actual);
            }
            self.rest_if_idle(at);
            at = parent;
        }
    }

    /// Moves a tag by what the estimate was wrong by. Nobody is credited more than the estimate,
    /// counted from the present.
    fn true_up(&mut self, at: u32, estimate: u32, actual: u32) {
        let node = self.node(at);
        let (parent, weight, mut carry) = (node.parent, node.weight, node.carry);
        let tag = self.tag(at);
        let group = self.group_of(parent);
        let now = group.virtual_time;
        let moved = if estimate < actual {
            let behind = tag.saturating_add(weight::step(actual - estimate, weight, &mut carry));
            behind.min(now + LEAD_MAX).max(tag)
        } else {
            let credit = weight::step(estimate - actual, weight, &mut 0);
            let earliest = now.saturating_sub(weight::step(estimate, weight, &mut 0));
            tag.saturating_sub(credit).max(earliest.min(tag))
        };
        self.move_tag(at, moved, carry);
    }

    /// Puts the tag of a node elsewhere, whether it is in line or not.
    pub(super) fn move_tag(&mut self, at: u32, moved: Tag, carry: u32) {
        let node = &mut self.nodes[at as usize];
        node.carry = carry;
        let parent = node.parent;
        let place = self.places[at as usize];
        let group = self.group_mut(parent);
        group.finish_max = group.finish_max.max(moved);
        self.keep_finish(at, moved);
        if place != NONE {
            let group = &mut self.groups[self.nodes[parent as usize].group() as usize];
            let tie = group.next_tie(false);
            group.heap.rekey(&mut self.places, at, moved, tie);
        }
    }

    /// Where a node starts next.
    pub(super) fn tag(&self, at: u32) -> Tag {
        let node = self.node(at);
        let group = self.group_of(node.parent);
        match self.places[at as usize] {
            NONE => group.tag_now(node.finish, node.epoch),
            place => group.heap.at(place as usize).tag(),
        }
    }

    /// Where a node is once what it was served is paid for. Coming and going do not touch it.
    pub(super) fn keep_finish(&mut self, at: u32, tag: Tag) {
        let epoch = self.group_of(self.node(at).parent).epoch;
        let node = &mut self.nodes[at as usize];
        (node.finish, node.epoch) = (tag, epoch);
    }

    /// Joins the siblings that have requests: not before the present, and not before what was
    /// served has been paid for.
    fn line_up(&mut self, at: u32) {
        if self.node(at).is_at_rest {
            self.leave_rest(at);
        }
        let (finish, parent) = (self.tag(at), self.node(at).parent);
        let weight = u64::from(self.node(at).weight.get());
        let group = &mut self.groups[self.nodes[parent as usize].group() as usize];
        group.weights += weight;
        let from_rest = finish <= group.virtual_time;
        let tie = group.next_tie(from_rest);
        if from_rest {
            self.nodes[at as usize].carry = 0;
        }
        let tag = finish.clamp(group.virtual_time, group.virtual_time + LEAD_MAX);
        group.heap.push(&mut self.places, Entry::new(tag, tie, at));
    }

    fn leave_line(&mut self, at: u32) {
        let Node { parent, weight, .. } = *self.node(at);
        let group = &mut self.groups[self.nodes[parent as usize].group() as usize];
        group.weights -= u64::from(weight.get());
        group.heap.remove(&mut self.places, at);
    }
}
