//! Changing a quota while keys are live: states are carried over by the core, one by one.
//!
//! A state is named by its rule and by all that it takes to read it, so a new policy starts with
//! new names. The script that finds none looks under the names of former policies; what is there
//! comes here, is carried over by the core, and is moved if nobody has changed it meanwhile.

use redis::Value;
use tidegate_core::{Policy, State, Tick};

use super::RedisStore;
use crate::call::{Elsewhere, Limit, Request};
use crate::failure::StoreError;
use crate::flat::Flat;
use crate::script::CARRY;
use crate::value;
use crate::wire::ScriptCall;

/// As long as a state is kept that would be kept for ever, in milliseconds: two years.
const KEPT_MAX: u64 = 2 * 366 * 86_400_000;

impl RedisStore {
    /// Moves what was found under former policies to where the present one looks for it.
    pub(super) async fn carry(
        &self,
        request: &Request,
        (judged, kept): (Tick, Vec<Elsewhere>),
        deadline: Tick,
    ) -> Result<(), StoreError> {
        for kept in kept {
            let Some(limit) = request.limits.get(kept.limit) else { continue };
            let (keys, args) = self.moved(limit, judged, &kept)?;
            let call = ScriptCall::new(&CARRY, request.slot, &keys, &args);
            let lane = self.gather.wire().lane_of(request.slot);
            let results =
                self.gather.wire().run(lane, vec![call], self.gather.left(deadline)).await;
            for result in results {
                // Nothing moved is as good: somebody else has been here, and we look again.
                let _: Value = result.map_err(|error| StoreError::from(&error))?;
            }
        }
        Ok(())
    }

    /// What the script needs to move a state.
    fn moved(
        &self,
        limit: &Limit,
        judged: Tick,
        kept: &Elsewhere,
    ) -> Result<(Flat, Flat), StoreError> {
        let damaged = || StoreError::Damaged("a state of a former policy".into());
        let former = limit.formers().get(kept.former).ok_or_else(damaged)?;
        let state = value::read(&former.policy, &kept.value).ok_or_else(damaged)?;
        let mut state = carried(limit, kept.former, state, judged);
        let policy = limit.rule.policy();
        // What has left under the present policy must not be written down: its tick would not fit.
        policy.peek(&mut state, judged, 0);
        let (mut keys, mut args) = (Flat::default(), Flat::default());
        keys.push(&limit.place.name);
        keys.push(&limit.place.former(former));
        args.push(&kept.value);
        let is_fresh = policy.is_fresh(&state, judged);
        args.push(&if is_fresh { Vec::new() } else { value::write(policy, &state) });
        args.number(self.kept_millis(policy, &state, judged));
        Ok((keys, args))
    }

    fn kept_millis(&self, policy: &Policy, state: &State, judged: Tick) -> u64 {
        let lives = policy.forget_at(state).since(judged).get().div_ceil(1_000);
        lives.min(KEPT_MAX) + self.gather.slack_millis()
    }
}

/// A state of the former policy number `from`, carried through all that came after it.
fn carried(limit: &Limit, from: usize, mut state: State, judged: Tick) -> State {
    let formers = limit.formers();
    for place in (0..=from).rev() {
        let old = &formers[place];
        let next = place.checked_sub(1).map_or(limit.rule.policy(), |place| &formers[place].policy);
        next.carry(&old.policy, &mut state, old.ended_at.min(judged));
    }
    state
}
