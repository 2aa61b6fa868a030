//! The flows: found by their names, and forgotten when they owe nothing.
//!
//! An idle flow is kept at rest until virtual time has passed its tag, since whoever is forgotten
//! earlier is forgiven. A few at rest are looked at with every call: there is never a sweep.

use alloc::vec::Vec;

use super::node::{Group, Node};
use super::path::{Class, Path, Share};
use super::shelves::{NONE, OFF, shelf_of};
use super::weight::Weight;

#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    /// Where each node is in the heap of its siblings, `NONE` if it is not.
    pub(super) places: Vec<u32>,
    free_nodes: Vec<u32>,
    free_groups: Vec<u32>,
    /// The first node of every hash.
    chains: Vec<u32>,
    levels: usize,
    rest: Rest,
    rest_max: u32,
}

/// Idle flows that virtual time may not have passed yet.
#[derive(Clone, Copy, Debug)]
struct Rest {
    first: u32,
    last: u32,
    len: u32,
}

/// How many at rest are looked at with every call, for each level: more than one call can add.
const LOOKED_AT: usize = 2;

impl Tree {
    pub(super) fn new(levels: usize, requests_max: u32) -> Tree {
        let chains = (requests_max as usize).saturating_mul(2).next_power_of_two();
        let mut tree = Tree {
            nodes: Vec::new(),
            groups: Vec::new(),
            places: Vec::new(),
            free_nodes: Vec::new(),
            free_groups: Vec::new(),
            chains: alloc::vec![0; chains],
            levels,
            rest: Rest { first: NONE, last: NONE, len: 0 },
            rest_max: requests_max,
        };
        for _ in Class::ALL {
            let group = tree.add_group();
            tree.nodes.push(Node::new(NONE, Share::default(), group));
            tree.places.push(NONE);
        }
        tree
    }

    /// How many flows and groups are remembered.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free_nodes.len() - Class::ALL.len()
    }

    /// The node above all flows of a class.
    #[expect(clippy::cast_possible_truncation, reason = "there are four classes")]
    pub(super) fn root(class: Class) -> u32 {
        class.index() as u32
    }

    pub(super) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    pub(super) fn group_of(&self, at: u32) -> &Group {
        &self.groups[self.node(at).group as usize]
    }

    pub(super) fn group_mut(&mut self, at: u32) -> &mut Group {
        let group = self.node(at).group;
        &mut self.groups[group as usize]
    }

    pub(super) fn find(&self, parent: u32, name: u64) -> Option<u32> {
        // Chains hold one more than the number of a node, so that memory nobody wrote is empty.
        let mut at = self.chains[self.chain(parent, name)].wrapping_sub(1);
        while at != NONE {
            let node = self.node(at);
            if node.name == name && node.parent == parent {
                return Some(at);
            }
            at = node.chain;
        }
        None
    }

    /// The flow of a path, made if need be. The weights are those that the path says.
    pub(super) fn find_or_add(&mut self, class: Class, path: &Path) -> u32 {
        let mut at = Tree::root(class);
        for (level, share) in path.shares(self.levels).iter().enumerate() {
            at = match self.find(at, share.name) {
                Some(found) => {
                    self.set_weight(found, share.weight);
                    found
                }
                None => self.add(at, *share, level + 1 == self.levels),
            };
        }
        at
    }

    /// The node of a path as far as the path goes, if it is remembered.
    pub(super) fn find_path(&self, class: Class, path: &Path) -> Option<u32> {
        let shares = &path.shares(self.levels.min(path.len()));
        let root = Tree::root(class);
        shares.iter().try_fold(root, |at, share| self.find(at, share.name))
    }

    /// From the next step on; tags that are out stay as they are.
    pub(super) fn set_weight(&mut self, at: u32, weight: Weight) {
        let node = &mut self.nodes[at as usize];
        let old = node.weight;
        if old == weight {
            return;
        }
        node.weight = weight;
        node.carry = 0;
        let parent = node.parent;
        if 0 < node.queued {
            let weights = &mut self.group_mut(parent).weights;
            *weights = *weights - u64::from(old.get()) + u64::from(weight.get());
            self.reshelve(at);
        }
    }

    /// Puts a node on the shelf of its backlog.
    pub(super) fn reshelve(&mut self, at: u32) {
        let node = self.node(at);
        let height = if node.queued == 0 { OFF } else { shelf_of(node.queued, node.weight) };
        if node.height == height {
            return;
        }
        let (old, parent) = (node.height, node.parent);
        if old != OFF {
            let (before, after) = self.unlink(at);
            if before == NONE {
                self.group_mut(parent).shelves.set_first(old, after);
            }
        }
        self.nodes[at as usize].height = height;
        if height != OFF {
            let first = self.group_of(parent).shelves.first(height);
            self.group_mut(parent).shelves.set_first(height, at);
            self.nodes[at as usize].after = first;
            if first != NONE {
                self.nodes[first as usize].before = at;
            }
        }
    }

    /// Takes a node out from between its neighbors, and says who they were.
    fn unlink(&mut self, at: u32) -> (u32, u32) {
        let node = &mut self.nodes[at as usize];
        let (before, after) = (node.before, node.after);
        (node.before, node.after) = (NONE, NONE);
        if before != NONE {
            self.nodes[before as usize].after = after;
        }
        if after != NONE {
            self.nodes[after as usize].before = before;
        }
        (before, after)
    }

    pub(super) fn rest_if_idle(&mut self, at: u32) {
        let Node { group, parent, is_at_rest, .. } = *self.node(at);
        if !self.node(at).is_idle() {
            return;
        }
        if group != NONE {
            self.groups[group as usize].end_of_busy_period();
        }
        if parent != NONE && !is_at_rest {
            self.nodes[at as usize].is_at_rest = true;
            self.rest_last(at);
        }
    }

    fn rest_last(&mut self, at: u32) {
        let last = core::mem::replace(&mut self.rest.last, at);
        self.nodes[at as usize].before = last;
        match last {
            NONE => self.rest.first = at,
            last => self.nodes[last as usize].after = at,
        }
        self.rest.len += 1;
    }

    pub(super) fn leave_rest(&mut self, at: u32) {
        let (before, after) = self.unlink(at);
        if before == NONE {
            self.rest.first = after;
        }
        if after == NONE {
            self.rest.last = before;
        }
        self.nodes[at as usize].is_at_rest = false;
        self.rest.len -= 1;
    }

    /// Forgets a few of those at rest that owe nothing, or that there are too many of.
    pub(super) fn tidy(&mut self) {
        for _ in 0..LOOKED_AT * self.levels {
            let at = self.rest.first;
            if at == NONE {
                return;
            }
            self.leave_rest(at);
            let node = self.node(at);
            let has_children = node.group != NONE && 0 < self.group_of(at).children;
            let has_paid = self.tag(at) <= self.group_of(node.parent).virtual_time;
            if !has_children && (has_paid || self.rest_max <= self.rest.len) {
                self.forget(at);
            } else {
                self.nodes[at as usize].is_at_rest = true;
                self.rest_last(at);
            }
        }
    }

    fn add(&mut self, parent: u32, share: Share, is_last_level: bool) -> u32 {
        let group = if is_last_level { NONE } else { self.add_group() };
        let mut node = Node::new(parent, share, group);
        node.epoch = self.group_of(parent).epoch;
        self.group_mut(parent).children += 1;
        let at = if let Some(at) = self.free_nodes.pop() {
            node.generation = self.node(at).generation;
            self.nodes[at as usize] = node;
            at
        } else {
            self.nodes.push(node);
            self.places.push(NONE);
            u32::try_from(self.nodes.len() - 1).expect("nodes are bounded by requests and rest")
        };
        let chain = self.chain(parent, share.name);
        self.nodes[at as usize].chain = self.chains[chain].wrapping_sub(1);
        self.chains[chain] = at + 1;
        at
    }

    fn add_group(&mut self) -> u32 {
        self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(Group::new());
            u32::try_from(self.groups.len() - 1).expect("there are no more groups than nodes")
        })
    }

    fn forget(&mut self, at: u32) {
        let Node { parent, name, group, chain: next, .. } = *self.node(at);
        let chain = self.chain(parent, name);
        if self.chains[chain] == at + 1 {
            self.chains[chain] = next.wrapping_add(1);
        } else {
            let mut before = self.chains[chain].wrapping_sub(1);
            while self.node(before).chain != at {
                before = self.node(before).chain;
            }
            self.nodes[before as usize].chain = next;
        }
        self.group_mut(parent).children -= 1;
        if group != NONE {
            // Its memory goes to the next group.
            self.groups[group as usize].clear();
            self.free_groups.push(group);
        }
        let node = &mut self.nodes[at as usize];
        node.generation = node.generation.wrapping_add(1);
        self.free_nodes.push(at);
    }

    fn chain(&self, parent: u32, name: u64) -> usize {
        let mixed = (name ^ u64::from(parent).wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed >> 32) as usize & (self.chains.len() - 1)
    }
}
