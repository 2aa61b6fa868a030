//! Whose keys a store is full of: for metrics, so that a flood has a name.

use super::limit_table::read;
use super::rule::{Rule, RuleId};
use super::slot_key::rule_of;
use super::table::Table;
use super::{MemoryStore, Shard};
use crate::sync::lock;

impl MemoryStore {
    /// How many keys each of `rules` holds while others find no room; none as long as there is room
    /// for all.
    ///
    /// If there is not, it goes through all that is kept, one lock at a time: for a metrics page,
    /// not for every request.
    pub fn crowds(&self, rules: &[Rule]) -> Vec<usize> {
        let mut crowds = vec![0; rules.len()];
        if !self.tables.iter().any(Table::is_crowded) {
            return crowds;
        }
        // Every id stays whose it is.
        let _no_ids_given_up = lock(&self.naming);
        let place_of_id = read(&self.limit_table).places(rules);
        for table in &self.tables {
            table.each_id(|id| {
                if let Some(place) = place_of_id.get(usize::from(id)).copied().flatten() {
                    crowds[place] += 1;
                }
            });
        }
        crowds
    }
}

impl Table {
    /// Whether keys find no room somewhere.
    fn is_crowded(&self) -> bool {
        let is_crowded = |shard: &Shard| shard.is_full() || 0 < shard.rest.groups.live();
        (0..self.shards()).any(|index| is_crowded(&self.lock(index)))
    }

    /// The rule of every state.
    fn each_id(&self, mut each: impl FnMut(RuleId)) {
        for index in 0..self.shards() {
            let shard = self.lock(index);
            let tags = (0..shard.slots().len()).map(|index| shard.slots().slot_key(index));
            tags.filter(|slot_key| *slot_key != 0).for_each(|slot_key| each(rule_of(slot_key)));
        }
    }
}
