//! What is left of a state where there is no room for it: two words, whatever its policy keeps.
//!
//! A store that is full judges keys in groups, each by one such gist. It owes at least as much as
//! each key of its group, so that a key that is over its limit stays so.

use super::{Memory, Policy, Rule, State};
use crate::algorithm::Log;

impl Policy {
    /// The gist of `state`: all of it where it fits two words; of a log the latest tick, at which
    /// everything that counts is taken to have passed.
    pub fn gist(&self, state: &State) -> [u64; 2] {
        match &state.0 {
            Memory::Log(log) => log.gist(),
            _ => self.pack(state),
        }
    }

    /// The state of which this is the gist.
    pub fn of_gist(&self, gist: [u64; 2]) -> State {
        match &self.rule {
            Rule::Log(_) => State(Memory::Log(Log::of_gist(gist))),
            _ => self.unpack(gist),
        }
    }

    /// The gist under which at least as much is consumed as under each: of logs the latest tick and
    /// the largest sum.
    pub fn worse_gist(&self, a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        let of_words = || self.worse(&self.of_gist(a), &self.of_gist(b));
        match &self.rule {
            Rule::Log(_) => [a[0].max(b[0]), a[1].max(b[1])],
            _ => of_words().map_or(a, |worse| self.gist(&worse)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Quota, Span, Tick};

    const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

    /// Whatever passes by a gist would have passed by the state, and nothing is owed for ever.
    #[test]
    fn a_gist_owes_as_much_as_its_state_and_is_paid_in_time() {
        let quotas = [Quota::per_minute(10), Quota::new(1_000_003, Span::from_secs(60))];
        for (kind, quota) in Kind::ALL.iter().flat_map(|kind| quotas.map(|quota| (*kind, quota))) {
            let policy = Policy::new(kind, quota).unwrap();
            let (mut a, mut b) = (policy.fresh(), policy.fresh());
            for second in [1, 5, 9] {
                policy.decide(&mut a, NOW.after(Span::from_secs(second)), 2);
                policy.decide(&mut b, NOW.after(Span::from_secs(second + 1)), 1);
            }
            let both = policy.worse_gist(policy.gist(&a), policy.gist(&b));
            for second in 10..75 {
                let now = NOW.after(Span::from_secs(second));
                let left = |state: &State| policy.peek(&mut state.clone(), now, 0).remaining;
                for gist in [policy.gist(&a), both] {
                    assert!(left(&policy.of_gist(gist)) <= left(&a), "{kind} after {second} s");
                }
                assert!(left(&policy.of_gist(both)) <= left(&b), "{kind} after {second} s");
            }
            let later = NOW.after(Span::from_secs(180));
            assert!(policy.is_fresh(&policy.of_gist(both), later), "{kind}");
            assert_eq!(policy.of_gist(policy.gist(&policy.fresh())), policy.fresh());
        }
    }
}
