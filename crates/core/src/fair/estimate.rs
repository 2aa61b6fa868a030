//! How long a request would wait: what is ahead of it, by the rate at which it goes.

use crate::quota::Quota;
use crate::tick::Span;

use super::path::{Class, Path};
use super::shelves::NONE;
use super::tree::Tree;
use super::weight::UNIT_BITS;

/// Cells that will be served before the next request of a path: the flow's own, times what its
/// siblings get beside it, and what it owes; at each level at most all that is queued there.
pub(super) fn ahead(tree: &Tree, class: Class, path: &Path, levels: usize) -> u128 {
    let shares = path.shares(levels);
    let mut nodes = [Tree::root(class), NONE, NONE, NONE];
    for (level, share) in shares.iter().enumerate() {
        nodes[level + 1] = match nodes[level] {
            NONE => NONE,
            parent => tree.find(parent, share.name).unwrap_or(NONE),
        };
    }
    let mut ahead = match nodes[levels] {
        NONE => 0,
        flow => u128::from(tree.node(flow).cost),
    };
    for level in (0..levels).rev() {
        let (parent, at) = (nodes[level], nodes[level + 1]);
        if parent == NONE {
            continue;
        }
        let group = tree.group_of(parent);
        let weight = u128::from(shares[level].weight.get());
        let is_in = at != NONE && 0 < tree.node(at).queued;
        let others = u128::from(group.weights);
        let weights = if is_in { others } else { others + weight };
        let tag = if at == NONE { 0 } else { tree.tag(at) };
        let owed = u128::from(tag.saturating_sub(group.virtual_time));
        ahead = ahead * weights / weight + ((owed * weights) >> UNIT_BITS);
        ahead = ahead.min(u128::from(tree.node(parent).cost));
    }
    ahead
}

/// As `ahead`, with the classes above, which go first, but for the floor.
pub(super) fn ahead_of_class(tree: &Tree, class: Class, within: u128, floor: u16) -> u128 {
    let above = Class::ALL.into_iter().filter(|other| *other < class);
    let above: u128 = above.map(|other| u128::from(tree.node(Tree::root(other)).cost)).sum();
    let first = above + within;
    if above == 0 || floor == 0 { first } else { first.min(within * 1_000 / u128::from(floor)) }
}

/// How long `cells` take at `rate`, rounded up.
pub(super) fn span(cells: u128, rate: Quota) -> Span {
    let ticks = cells.saturating_mul(u128::from(rate.per().get()));
    let ticks = ticks.div_ceil(u128::from(rate.cells().max(1)));
    Span::from_micros(u64::try_from(ticks).unwrap_or(u64::MAX))
}
