//! Changing a quota while keys are live: states are carried over by the core, one by one.
//!
//! A state is named by its rule and by all that it takes to read it, so a new policy starts with
//! new names. The script that finds none looks under the names of former policies; what is there
//! comes here, is carried over by the core, and is moved if nobody has changed it meanwhile.

use tidegate_core::{Policy, State, Tick};

use super::RedisStore;
use crate::call::{Elsewhere, Limit, Request};
use crate::failure::StoreError;
use crate::flat::Sink as _;
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
            let call = self.moving(limit, request.slot, judged, &kept)?;
            let lane = self.gather.wire().lane_of(request.slot);
            // Nothing moved is as good: somebody else has been here, and we look again.
            let moved = self.gather.run(lane, call, deadline).await;
            moved.map_err(|error| StoreError::from(&error))?;
        }
        Ok(())
    }

    /// The call that moves a state.
    fn moving(
        &self,
        limit: &Limit,
        slot: u16,
        judged: Tick,
        kept: &Elsewhere,
    ) -> Result<ScriptCall, StoreError> {
        let damaged = || StoreError::Damaged("a state of a former policy".into());
        let former = limit.formers().get(kept.former).ok_or_else(damaged)?;
        let old = &former.applied;
        let mut state = value::read(&old.policy, &kept.value).ok_or_else(damaged)?;
        limit.rule.applied().carry(old, &mut state, judged);
        let policy = limit.rule.policy();
        // What has left under the present policy must not be written down: its tick would not fit.
        policy.peek(&mut state, judged, 0);
        let is_fresh = policy.is_fresh(&state, judged);
        let value = if is_fresh { Vec::new() } else { value::write(policy, &state) };
        let bytes = 2 * limit.place.name.len() + kept.value.len() + value.len();
        let mut call = ScriptCall::new(&CARRY, slot, 2, bytes);
        call.push(&limit.place.name);
        call.push(&limit.place.former(former));
        call.push(&kept.value);
        call.push(&value);
        call.number(self.kept_millis(policy, &state, judged));
        Ok(call)
    }

    fn kept_millis(&self, policy: &Policy, state: &State, judged: Tick) -> u64 {
        let lives = policy.forget_at(state).since(judged).get().div_ceil(1_000);
        lives.min(KEPT_MAX) + self.gather.slack_millis()
    }
}
