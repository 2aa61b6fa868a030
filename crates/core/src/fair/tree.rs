//! The flows: found by their names, and forgotten when they owe nothing.
//!
//! An idle flow is kept at rest until virtual time has passed its tag, since a flow that is
//! forgotten earlier is forgiven. A few at rest are looked at with every call: there is never a
//! sweep.

use alloc::vec::Vec;

use super::bags::Bags;
use super::heap::Entry;
use super::names::{Hash, Names};
use super::node::{Below, Group, Node};
use super::path::{Class, Path, Step};
use super::shelves::{DOUBLING, NONE, OFF, shelf_of};
use super::weight::Weight;

#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    /// Where each node is in the heap of its siblings, `NONE` if it is not.
    pub(super) places: Vec<u32>,
    free_nodes: Vec<u32>,
    free_groups: Vec<u32>,
    names: Names,
    levels: usize,
    /// Nodes by their shelves.
    shelved: Bags,
    /// Idle flows that virtual time may not have passed yet, and where to look next.
    rest: Vec<u32>,
    rest_next: usize,
    rest_max: usize,
}

/// The last node of a path that is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    at: u32,
    depth: usize,
    is_flow: bool,
}

impl Found {
    /// The flow, if it is that of the whole path.
    pub(super) fn flow(self) -> Option<u32> {
        self.is_flow.then_some(self.at)
    }
}

/// How many at rest are looked at with every call, for each level: more than one call can add.
const LOOKED_AT: usize = 2;

/// How many are put on the right shelf when the largest backlog is looked for.
const LOSERS_LOOKED_AT: usize = 16;

impl Tree {
    pub(super) fn new(levels: usize, requests_max: u32) -> Tree {
        let mut tree = Tree {
            nodes: Vec::new(),
            groups: Vec::new(),
            places: Vec::new(),
            free_nodes: Vec::new(),
            free_groups: Vec::new(),
            names: Names::new(requests_max),
            levels,
            shelved: Bags::new(),
            rest: Vec::new(),
            rest_next: 0,
            rest_max: requests_max as usize,
        };
        for _ in Class::ALL {
            let group = tree.add_group();
            let node = Node::new(NONE, Step::default(), Below::group(group));
            tree.push(node);
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
        &self.groups[self.node(at).group() as usize]
    }

    /// The child of a node whose turn it is.
    pub(super) fn first_of(&mut self, at: u32) -> Option<u32> {
        let group = self.node(at).group();
        let first = self.groups[group as usize].heap.first(&mut self.places);
        first.map(Entry::node)
    }

    /// The flow of a class that is likely to be next.
    pub(super) fn likely_next(&self, class: Class) -> Option<&Node> {
        let mut at = Tree::root(class);
        while self.node(at).group() != NONE {
            at = self.group_of(at).heap.likely_first()?.node();
        }
        Some(self.node(at))
    }

    /// Asks memory for that flow. With many of them it is far away, and nothing else waits for it
    /// now: it comes while the turn that is being taken goes on.
    pub(super) fn fetch_next(&self, class: Class) {
        if let Some(flow) = self.likely_next(class) {
            core::hint::black_box(flow.below.first);
        }
    }

    pub(super) fn group_mut(&mut self, at: u32) -> &mut Group {
        let group = self.node(at).group();
        &mut self.groups[group as usize]
    }

    pub(super) fn find(&self, parent: u32, name: u64) -> Option<u32> {
        self.names.find(Hash::of(parent, name), |at| {
            let node = self.node(at);
            node.name == name && node.parent == parent
        })
    }

    /// A path as far as it is remembered.
    pub(super) fn find_flow(&self, class: Class, path: &Path) -> Found {
        let mut found = Found { at: Tree::root(class), depth: 0, is_flow: false };
        for share in path.shares(self.levels) {
            let Some(at) = self.find(found.at, share.name) else { return found };
            found = Found { at, depth: found.depth + 1, is_flow: false };
        }
        Found { is_flow: true, ..found }
    }

    /// The flow of a path that was `found`, made if need be. The weights are those that the path
    /// says.
    pub(super) fn find_or_add(&mut self, found: Found, path: &Path) -> u32 {
        let mut at = found.at;
        for share in path.shares(self.levels)[..found.depth].iter().rev() {
            self.set_weight(at, share.weight);
            at = self.node(at).parent;
        }
        let new = &path.shares(self.levels)[found.depth..];
        let add = |(at, left), share: &Step| (self.add(at, *share, left == 1), left - 1);
        new.iter().fold((found.at, new.len()), add).0
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

    /// Puts a node on the shelf of its backlog; one whose backlog becomes less stays where it is
    /// until that is less than half, since most go up and down by one.
    pub(super) fn reshelve(&mut self, at: u32) {
        let node = self.node(at);
        let height = if node.queued == 0 { OFF } else { shelf_of(node.queued, node.weight) };
        let stays = height <= node.height && node.height <= height.saturating_add(DOUBLING);
        if node.height == height || (node.height != OFF && stays) {
            return;
        }
        self.shelve(at, height);
    }

    /// The child of a node with the largest backlog by weight.
    pub(super) fn largest(&mut self, parent: u32) -> Option<u32> {
        for _ in 0..LOSERS_LOOKED_AT {
            let at = self.shelved.any(self.group_of(parent).shelves.highest()?)?;
            let node = self.node(at);
            let height = shelf_of(node.queued, node.weight);
            if node.height == height {
                return Some(at);
            }
            self.shelve(at, height);
        }
        self.shelved.any(self.group_of(parent).shelves.highest()?)
    }

    fn shelve(&mut self, at: u32, height: u8) {
        let node = &mut self.nodes[at as usize];
        let (parent, place) = (node.parent, node.place);
        let old = core::mem::replace(&mut node.height, height);
        let shelves = &mut self.groups[self.nodes[parent as usize].group() as usize].shelves;
        if old != OFF {
            let moved = shelves.change(old, |shelf| self.shelved.take_out(shelf, place));
            if let Some(moved) = moved {
                self.nodes[moved.member as usize].place = moved.place;
            }
        }
        if height != OFF {
            let place = shelves.change(height, |shelf| self.shelved.put_in(shelf, at));
            self.nodes[at as usize].place = place;
        }
    }

    pub(super) fn rest_if_idle(&mut self, at: u32) {
        let node = self.node(at);
        if !node.is_idle() {
            return;
        }
        let (group, parent) = (node.group(), node.parent);
        if group != NONE {
            self.groups[group as usize].end_of_busy_period();
        }
        if parent != NONE {
            self.rest(at);
        }
    }

    /// Puts an idle node to rest, unless it is.
    pub(super) fn rest(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        if node.is_at_rest {
            return;
        }
        (node.is_at_rest, node.place) = (true, index(self.rest.len()));
        self.rest.push(at);
    }

    pub(super) fn leave_rest(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        node.is_at_rest = false;
        let place = node.place;
        self.rest.swap_remove(place as usize);
        if let Some(moved) = self.rest.get(place as usize) {
            self.nodes[*moved as usize].place = place;
        }
    }

    /// Forgets a few of those at rest that owe nothing, or that there are too many of.
    pub(super) fn tidy(&mut self) {
        for _ in 0..LOOKED_AT * self.levels {
            let Some(at) = self.rest.get(self.rest_next).or(self.rest.first()).copied() else {
                return;
            };
            self.rest_next = self.node(at).place as usize;
            let node = self.node(at);
            let has_children = node.group() != NONE && 0 < self.group_of(at).children;
            let siblings = self.group_of(node.parent);
            let finish = siblings.tag_now(node.finish, node.epoch);
            let has_paid = finish <= siblings.virtual_time;
            if !has_children && (has_paid || self.rest_max < self.rest.len()) {
                self.leave_rest(at);
                self.forget(at);
                continue;
            }
            self.keep_finish(at, finish);
            self.rest_next += 1;
            if !has_children {
                return;
            }
        }
    }

    fn add(&mut self, parent: u32, share: Step, is_last_level: bool) -> u32 {
        let below = if is_last_level { Below::EMPTY } else { Below::group(self.add_group()) };
        let mut node = Node::new(parent, share, below);
        node.epoch = self.group_of(parent).epoch;
        self.group_mut(parent).children += 1;
        let at = match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => self.push(node),
        };
        self.names.add(Hash::of(parent, share.name), at);
        at
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.places.push(NONE);
        index(self.nodes.len() - 1)
    }

    fn add_group(&mut self) -> u32 {
        self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(Group::new());
            index(self.groups.len() - 1)
        })
    }

    fn forget(&mut self, at: u32) {
        let node = self.node(at);
        let (parent, name, group) = (node.parent, node.name, node.group());
        self.names.remove(Hash::of(parent, name), at);
        self.group_mut(parent).children -= 1;
        if group != NONE {
            // Its memory goes to the next group.
            self.groups[group as usize].clear();
            self.free_groups.push(group);
        }
        self.free_nodes.push(at);
    }
}

/// The number of a node, or of one of something that there is at most one of for each.
fn index(at: usize) -> u32 {
    u32::try_from(at).expect("nodes are bounded by requests and rest")
}
