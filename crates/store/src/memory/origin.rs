//! Rules that split off from others, or take in others: what a key has consumed there counts here.
//!
//! A tier gets a limit of its own, a key gets a quota of its own, tiers become one: the keys are
//! the same, and their states are under other rules, which may go on by themselves. So when a key
//! is first asked about, what those know of it is copied. Nothing is walked through, and nobody has
//! to know which keys there are. Once all that was owed then must be paid, nobody looks any more.

use tidegate_core::{Policy, State, Tick};

use super::MemoryStore;
use super::lock::Guard;
use super::rule::{Lineage, Rule};
use super::shard::Shard;
use super::table::Place;
use super::tag::Tag;
use crate::key::Key;
use crate::sync::{Arc, Weak};

/// A rule that the keys of another had before.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// Whoever wants what is known there to last keeps it.
    source: Weak<Lineage>,
    since: Tick,
    /// From when on nothing counts that was consumed there until then.
    until: Tick,
}

impl Origin {
    /// `source` as it is at `now`, for a rule of this policy.
    pub(super) fn new(source: &Rule, policy: &Policy, now: Tick) -> Option<Origin> {
        let lineage = source.lineage.as_ref()?;
        let until = lineage.present().policy.paid_at(now).max(policy.paid_at(now));
        Some(Origin { source: Arc::downgrade(lineage), since: now, until })
    }

    /// Makes a state of `rule` of one of `source`. It lived there until the last of them became
    /// what it is.
    fn carry(&self, rule: &Rule, source: &Rule, state: &mut State) {
        let changed_at = [rule, source].into_iter().filter_map(Rule::changed_at).max();
        let until = self.since.max(changed_at.unwrap_or_default());
        rule.policy.carry(&source.policy, state, until);
    }

    /// Whether something that was consumed there may still count.
    pub(super) fn is_open(&self, now: Tick) -> bool {
        now < self.until && 0 < self.source.strong_count()
    }

    /// What the source is by now.
    pub(super) fn source(&self) -> Option<Rule> {
        self.source.upgrade().map(Lineage::rule)
    }

    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        let is_it = |lineage: &Arc<Lineage>| Weak::ptr_eq(&self.source, &Arc::downgrade(lineage));
        rule.lineage.as_ref().is_some_and(is_it)
    }
}

impl Rule {
    /// Whether `other` is one of its origins.
    pub(super) fn has_origin(&self, other: &Rule) -> bool {
        self.origins.iter().any(|origins| origins.iter().any(|origin| origin.is_of(other)))
    }

    /// What a state of `source` would be copied to, if that is one of its origins at `now`.
    pub(super) fn copy_from(&self, source: &Rule, state: &State, now: Tick) -> Option<State> {
        let is_it = |origin: &&Origin| origin.is_of(source) && origin.is_open(now);
        let origin = self.origins.as_ref()?.iter().find(is_it)?;
        let mut copy = state.clone();
        origin.carry(self, source, &mut copy);
        Some(copy)
    }
}

/// The shards of one number, of the three sizes.
type Held<'a> = [Guard<'a, Shard>; 3];

impl MemoryStore {
    /// Copies what the origins of `rule` know of `key`, unless it has been asked about since.
    pub(super) fn bring_copies(&self, rule: &Rule, key: Key) {
        let table = &self.tables[rule.table];
        let place = table.place(key);
        let shard = table.lock(place.shard);
        // Not later than now, and enough to stop looking some day.
        let (swept_at, known) = (shard.swept_at(), shard.slots().find(place.tag(rule.id).0));
        drop(shard);
        let open = rule.origins.iter().flat_map(|origins| origins.iter());
        let open: Vec<&Origin> = open.filter(|origin| origin.is_open(swept_at)).collect();
        if open.is_empty() || known.is_ok() {
            return;
        }
        let sources: Vec<(&Origin, Rule)> =
            open.iter().filter_map(|it| Some((*it, it.source()?))).collect();
        for (_, source) in &sources {
            self.bring_moved(source, key);
        }
        let mut held = [0, 1, 2].map(|table: usize| self.tables[table].lock(place.shard));
        // Changed since: whoever asks comes again.
        if rule.is_changed() {
            return;
        }
        if sources.iter().any(|(_, source)| source.is_changed()) {
            drop(held);
            return self.bring_copies(rule, key);
        }
        self.copy_to(rule, place, &sources, &mut held);
        for (table, held) in self.tables.iter().zip(&held) {
            table.note(place.shard, held);
        }
    }

    fn copy_to(&self, rule: &Rule, place: Place, sources: &[(&Origin, Rule)], held: &mut Held<'_>) {
        let tag = place.tag(rule.id);
        let asked = held.iter().filter_map(|shard| shard.asked_until(rule, tag)).max();
        let _ = held[rule.table].find(rule, tag);
        for (origin, source) in sources {
            // Asked about after it had this origin: that was looked at then.
            if asked.is_some_and(|asked| origin.since < asked) {
                continue;
            }
            let known = held[source.table].known_of(source, place.tag(source.id));
            let Some(mut state) = known else { continue };
            origin.carry(rule, source, &mut state);
            self.adopt_copy(rule, tag, state, &mut held[rule.table]);
        }
    }

    fn adopt_copy(&self, rule: &Rule, tag: Tag, state: State, shard: &mut Shard) {
        let now = shard.swept_at();
        if rule.policy.is_fresh(&state, now) {
            return;
        }
        let is_known = shard.slots().find(tag.0).is_ok();
        if is_known || shard.make_room(now, 1, &self.book) || !shard.can_fold(rule, tag) {
            // Permits that there is no room for are kept nevertheless: they are owed.
            shard.adopt(tag, &rule.policy, state);
        } else {
            shard.fold(tag, &rule.policy, &state, &self.book);
        }
    }
}

impl Shard {
    /// Until when a key was last asked about, by what `rule` was before; nothing if never.
    fn asked_until(&self, rule: &Rule, tag: Tag) -> Option<Tick> {
        let of = |id| rule.was(id).map(|before| before.until);
        self.slots().ids_like(tag.0).filter_map(of).max()
    }

    /// A copy of what is known of a key, or of its group.
    fn known_of(&mut self, rule: &Rule, tag: Tag) -> Option<State> {
        let Ok(index) = self.find(rule, tag) else {
            return self.rest.groups.state(rule, tag);
        };
        let state = self.take(index, &rule.policy);
        self.put(index, &rule.policy, state.clone());
        Some(state)
    }
}
