//! A policy becomes another: what its states keep.

use super::{Memory, Policy, Rule, State};
use crate::algorithm::Algorithm as _;
use crate::tick::Tick;

/// A policy that a limit has for now: its whole quota, or a part of it, as under load.
///
/// States are written under one of them, and are carried to another when their limit has another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Applied {
    /// By which requests are decided.
    pub policy: Policy,
    /// What it is a part of; the policy itself if all of it is given out.
    pub whole: Policy,
}

impl Applied {
    /// All of a quota.
    pub const fn whole(policy: Policy) -> Applied {
        Applied { policy, whole: policy }
    }

    /// Takes over a state that lived under `old` until `now`.
    ///
    /// Between two parts of a quota a bucket stays as full as it is; see [`Policy::scale`]. Another
    /// quota keeps what was consumed; see [`Policy::carry`].
    pub fn carry(&self, old: &Applied, state: &mut State, now: Tick) {
        if self.whole == old.whole {
            scale(&old.policy, &self.policy, state, now);
        } else {
            scale(&old.policy, &old.whole, state, now);
            self.whole.carry(&old.whole, state, now);
            scale(&self.whole, &self.policy, state, now);
        }
    }

    /// How many of `cells` that were charged under `old` can be given back: under a smaller part
    /// each is more of the whole than it was. Rounded down, and never more than were charged.
    pub fn worth(&self, old: &Applied, cells: u32) -> u32 {
        if self.whole == old.whole {
            return self.policy.worth_of_part(&old.policy, cells);
        }
        let cells = old.whole.worth_of_part(&old.policy, cells);
        self.policy.worth_of_part(&self.whole, cells)
    }
}

fn scale(old: &Policy, new: &Policy, state: &mut State, now: Tick) {
    if old != new {
        new.scale(old, state, now);
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

    fn worth_of_part(&self, old: &Policy, cells: u32) -> u32 {
        match (&self.rule, &old.rule) {
            (Rule::Line(new), Rule::Line(old)) => new.worth(old, cells),
            _ => cells,
        }
    }
}
