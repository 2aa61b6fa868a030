//! A cluster node's view of itself, as it tells it in `CLUSTER NODES`.

use std::ops::RangeInclusive;

/// The line that a node has about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct View {
    pub(crate) id: String,
    /// The node whose replica it is; `None` for a primary.
    pub(crate) primary: Option<String>,
    pub(crate) epoch: u64,
    pub(crate) slots: Vec<RangeInclusive<u16>>,
    /// How many nodes it knows that it has shaken hands with, itself included.
    pub(crate) known: usize,
}

impl View {
    /// Reads `CLUSTER NODES`; `None` when the node does not know itself yet.
    pub(crate) fn read(text: &str) -> Option<View> {
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let mine = lines.iter().find(|line| has_flag(line, "myself"))?;
        let primary = mine.get(3).filter(|id| **id != "-").map(ToString::to_string);
        let known = lines.iter().filter(|line| is_known(line)).count();
        Some(View {
            id: (*mine.first()?).to_owned(),
            primary,
            epoch: mine.get(6)?.parse().ok()?,
            slots: mine.iter().skip(8).filter_map(|range| slots(range)).collect(),
            known,
        })
    }

    pub(crate) fn owns(&self, slot: u16) -> bool {
        self.primary.is_none() && self.slots.iter().any(|range| range.contains(&slot))
    }
}

fn has_flag(line: &[&str], wanted: &str) -> bool {
    line.get(2).is_some_and(|flags| flags.split(',').any(|flag| flag == wanted))
}

fn is_known(line: &[&str]) -> bool {
    let unknown = ["handshake", "noaddr", "fail", "fail?"];
    line.get(7) == Some(&"connected") && !unknown.into_iter().any(|flag| has_flag(line, flag))
}

/// `5` or `0-5460`; slots that come or go stand in brackets and are not counted.
fn slots(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aaa 127.0.0.1:1@2 myself,master - 0 0 7 connected 0-5 9 [9->-bbb]\n\
        bbb 127.0.0.1:3@4,,tls-port=0 slave aaa 0 0 7 connected\n\
        ccc 127.0.0.1:5@6 handshake - 0 0 0 connected\n";

    #[test]
    fn a_primary_knows_its_slots() {
        let view = View::read(NODES).unwrap();
        assert_eq!((view.id.as_str(), view.epoch, view.known), ("aaa", 7, 2));
        assert_eq!(view.slots, [0..=5, 9..=9]);
        assert!(view.owns(5) && view.owns(9) && !view.owns(6));
    }

    #[test]
    fn a_replica_knows_its_primary() {
        let nodes = NODES.replace("myself,master", "master").replace("slave", "myself,slave");
        assert_eq!(View::read(&nodes).unwrap().primary.as_deref(), Some("aaa"));
    }
}
