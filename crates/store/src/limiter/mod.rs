//! The limiter: rules, a store and a clock. What an application holds.

mod answer;
mod ask;
mod batch;
mod build;
mod pass;
mod rule;
mod shared;
mod wait;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tidegate_core::{Decision, Kind, Policy, Tick};

use self::rule::{LimiterRule, Rules, Scope};
use self::wait::WaitList;
use crate::clock::{Clock, SystemClock};
use crate::key::{Key, KeyTooLong};
use crate::memory::{MemoryStore, Rule, TooManyRules};

pub use self::answer::Answer;
pub use self::ask::Ask;
pub use self::build::{BuildError, LimiterBuilder, ToPolicy};
pub use self::pass::Pass;
pub use self::rule::{ChangeError, UnknownRule};
pub use self::shared::{SharedAsk, SharedLimiter, SharedPass};
pub use self::wait::Acquire;
#[doc(hidden)]
pub use self::wait::block_on;

/// Decides, for every request, whether it may pass: by all its rules at once, all or nothing.
///
/// Share it by reference or in an `Arc`; every method takes `&self`.
///
/// ```
/// use tidegate_core::{Quota, Verdict};
/// use tidegate_store::Limiter;
///
/// let limiter = Limiter::builder()
///     .each("per-client", Quota::per_minute(100).burst(20))
///     .all("everyone", Quota::per_second(10_000))
///     .build()?;
///
/// let decision = limiter.decide(("client", 42));
/// assert_eq!(decision.verdict, Verdict::Allow);
/// assert_eq!(decision.remaining, 19);
/// # Ok::<(), tidegate_store::BuildError>(())
/// ```
pub struct Limiter {
    rules: Rules<Rule>,
    store: MemoryStore,
    clock: AnyClock,
    waiting: WaitList,
}

/// The system's clock without a detour, or any other.
#[derive(Debug)]
enum AnyClock {
    Other(Arc<dyn Clock>),
    System(SystemClock),
}

/// Its rules by their names, on one line: it may hold a million keys.
impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rules", &self.rules.names).finish_non_exhaustive()
    }
}

impl Limiter {
    /// One token bucket for each key.
    pub fn new(quota: impl ToPolicy) -> Result<Limiter, BuildError> {
        Limiter::builder().each("limit", quota).build()
    }

    /// A limiter of several rules, or with a store or clock of your choice.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::new()
    }

    /// Decides one request of one cell, and charges it if it passes.
    ///
    /// A rule of [`Kind::Concurrency`] hands out a permit that lasts for its
    /// lease; use [`Ask::enter`] to give it back earlier.
    ///
    /// A key is a string, a number, or a tuple of anything that can be hashed. One that is longer
    /// than [`Key::BYTES_MAX`] never passes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "whoever wants only the verdict pays only for that")]
    pub fn decide(&self, key: impl Hash) -> Decision {
        let key = self.store.key(key);
        // One rule for each key is the usual case: no list of anything is made for it.
        if let ([rule], Ok(key)) = (&*self.rules.each, key)
            && rule.scope() == Scope::Each
        {
            return self.store.decide(&rule.present(), key, self.now(), 1);
        }
        // Not returned but written to a place of its own: so the numbers of the short way above
        // stay in registers, and those that nobody reads are not even worked out.
        let mut answer = ask::never();
        self.decide_several(key, &mut answer);
        let Decision { verdict, limit, remaining, reset_after } = answer;
        Decision { verdict, limit, remaining, reset_after }
    }

    /// The long way, kept out of the short one's code.
    #[inline(never)]
    fn decide_several(&self, key: Result<Key, KeyTooLong>, answer: &mut Decision) {
        *answer = Ask::new(self, key).decide_each().decision();
    }

    /// Decides many requests of one cell, each by itself, in their order and at one tick.
    ///
    /// Several times faster than one by one when there are many keys: the clock is read once, and
    /// the memory that the keys need is asked for before the first of them is decided.
    ///
    /// ```
    /// # let limiter = tidegate_store::Limiter::new(tidegate_core::Quota::per_minute(2))?;
    /// let mut passed = 0;
    /// limiter.decide_batch(["ada", "bob", "ada", "ada"], |decision| {
    ///     passed += u32::from(decision.verdict.passes());
    /// });
    /// assert_eq!(passed, 3);
    /// # Ok::<(), tidegate_store::BuildError>(())
    /// ```
    pub fn decide_batch<K: Hash>(
        &self,
        keys: impl IntoIterator<Item = K>,
        each: impl FnMut(Decision),
    ) {
        batch::decide(self, keys, each);
    }

    /// What [`Limiter::decide`] would answer, without charging.
    pub fn peek(&self, key: impl Hash) -> Decision {
        self.key(key).peek()
    }

    /// A request for `key`, to say more about before it is decided.
    #[inline]
    pub fn key(&self, key: impl Hash) -> Ask<'_> {
        Ask::new(self, self.store.key(key))
    }

    /// Makes `key` fresh under every rule that counts each key.
    pub fn reset(&self, key: impl Hash) {
        self.key(key).reset();
        self.waiting.wake_every_line();
    }

    /// Changes the policy of a rule for all its keys: what was consumed is kept.
    ///
    /// ```
    /// use tidegate_core::Quota;
    /// use tidegate_store::Limiter;
    ///
    /// let limiter = Limiter::builder().each("per-client", Quota::per_minute(100)).build()?;
    /// limiter.key("ada").cost(80).decide();
    /// limiter.change("per-client", Quota::per_minute(150))?;
    /// assert_eq!(limiter.peek("ada").remaining, 70);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn change(&self, rule: &str, policy: impl ToPolicy) -> Result<(), ChangeError> {
        let policy: Policy = policy.to_policy().map_err(ChangeError::Quota)?;
        let rule = self.rules.get(rule).ok_or(ChangeError::UnknownRule)?;
        rule.change(|present| {
            let changed = self.store.change(present, policy, self.now());
            changed.map_err(|error: TooManyRules| ChangeError::TooMany(error))
        })?;
        self.waiting.wake_every_line();
        Ok(())
    }

    /// The present tick of the limiter's clock.
    #[inline]
    pub fn now(&self) -> Tick {
        match &self.clock {
            AnyClock::System(clock) => clock.now(),
            AnyClock::Other(clock) => clock.now(),
        }
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.store.len()
    }

    /// Whether something that refuses now may pass before time alone allows it.
    fn lends_permits(&self) -> bool {
        let lends = |rule: &LimiterRule<Rule>| rule.present().policy().kind() == Kind::Concurrency;
        self.rules.each.iter().any(lends)
    }

    fn clock(&self) -> &dyn Clock {
        match &self.clock {
            AnyClock::System(clock) => clock,
            AnyClock::Other(clock) => &**clock,
        }
    }
}
