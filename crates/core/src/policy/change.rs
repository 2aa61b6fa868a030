//! A policy becomes another: what its states keep.

use super::{Memory, Policy, Rule, State};
use crate::algorithm::Algorithm as _;
use crate::tick::Tick;

/// How a policy becomes another.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Change {
    /// It has another quota: what was consumed is kept; see [`Policy::carry`].
    #[default]
    Quota,
    /// It gives out another part of its quota: a bucket stays as full as it is; see
    /// [`Policy::scale`].
    Part,
}

impl Change {
    /// Takes over a state of `old`, which has become `new` at `now`.
    pub fn carry(self, (old, new): (&Policy, &Policy), state: &mut State, now: Tick) {
        match self {
            Change::Part => new.scale(old, state, now),
            Change::Quota => new.carry(old, state, now),
        }
    }
}

impl Policy {
    /// Takes over a state that lived under `old` until `now`, with the cells that it lacked.
    ///
    /// A raise grants the difference, never a fresh burst. After a cut a key may lack more than the
    /// new limit: then nothing remains until time has paid the rest. It is not forgiven, or a cut
    /// and a raise would give out the difference each time.
    pub fn carry(&self, old: &Policy, state: &mut State, now: Tick) {
        match (&self.rule, &old.rule, &mut state.0) {
            (Rule::Line(new), Rule::Line(old), Memory::Line(line)) => {
                *line = new.carry(old, *line, now);
            }
            // What has left under a shorter period does not come back under a longer one.
            (Rule::Log(_), Rule::Log(old), Memory::Log(log)) => old.settle(log, now),
            (Rule::FixedWindow(new), Rule::FixedWindow(old), Memory::FixedWindow(_))
                if new.is_aligned_with(old) => {}
            (Rule::SlidingWindow(new), Rule::SlidingWindow(old), Memory::SlidingWindow(_))
                if new.per() == old.per() => {}
            _ => {
                let lacked = old.lacks(state, now);
                *state = self.lacking(lacked, now);
            }
        }
    }

    /// Cells that a key lacks at `now` to be as good as fresh, also those beyond the limit.
    fn lacks(&self, state: &mut State, now: Tick) -> u32 {
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.lacks(memory, now)
        })
    }

    /// The state of a key that lacks `cells` at `now`.
    fn lacking(&self, cells: u32, now: Tick) -> State {
        let mut state = self.fresh();
        if let (Rule::Line(it), Memory::Line(line)) = (&self.rule, &mut state.0) {
            *line = it.lacking(cells, now);
        } else if 0 < cells {
            self.peek(&mut state, now, 0);
            let _ = self.charge(&mut state, now, cells);
        }
        state
    }

    /// Takes over a state that lived until `now` under `old`, which is another part of the same
    /// quota: of one that follows a load, say.
    ///
    /// A bucket stays as full as it is, as if requests had another cost for as long as there is
    /// another part: so it does not matter who looks at it meanwhile, and the whole is never
    /// exceeded. All others keep what was consumed, as [`Policy::carry`] does.
    pub fn scale(&self, old: &Policy, state: &mut State, now: Tick) {
        match (&self.rule, &old.rule, &mut state.0) {
            (Rule::Line(new), Rule::Line(old), Memory::Line(line)) => {
                *line = new.scale(old, *line, now);
            }
            _ => self.carry(old, state, now),
        }
    }

    /// How many of `cells` that were charged some changes ago can be given back: under a smaller
    /// part each is more of the whole than it was. Rounded down, and never more than were charged.
    ///
    /// `since` has the policies from the one they were charged under to the last before this one,
    /// each with how it became the next.
    pub fn worth<'a>(
        &self,
        since: impl IntoIterator<Item = (&'a Policy, Change)>,
        cells: u32,
    ) -> u32 {
        let (mut cells, mut charged) = (cells, None);
        for (policy, change) in since {
            let parts_of = charged.unwrap_or(policy);
            charged = match change {
                Change::Part => Some(parts_of),
                Change::Quota => {
                    cells = policy.worth_of_part(parts_of, cells);
                    None
                }
            };
        }
        charged.map_or(cells, |charged| self.worth_of_part(charged, cells))
    }

    fn worth_of_part(&self, old: &Policy, cells: u32) -> u32 {
        match (&self.rule, &old.rule) {
            (Rule::Line(new), Rule::Line(old)) => new.worth(old, cells),
            _ => cells,
        }
    }
}
