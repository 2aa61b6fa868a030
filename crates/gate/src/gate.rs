//! The gate: a policy in force, a store and a clock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use tidegate_config::{Request, Rules};
use tidegate_core::Tick;
use tidegate_store::{Clock, Store, Verb, Work, at_once};

use crate::adhoc::AdhocLimits;
use crate::admission::Admission;
use crate::build::{GateBuilder, OpenError};
use crate::counts::RuleCounts;
use crate::in_force::PolicyInForce;
use crate::judge::{How, Outcome};
use crate::load::Adapt;
use crate::orphans::OrphanLimits;
use crate::per_core::PolicyRefs;
use crate::secret::KeySecret;
use crate::snapshot::SnapshotRestored;
use crate::turn::{Patience, Turning};

/// Decides about requests by a policy file. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) current: ArcSwap<PolicyRefs>,
    pub(crate) home: Arc<Home>,
    pub(crate) adhoc: AdhocLimits,
    pub(crate) adapt: Adapt,
    /// Held while a policy is put in force: one after the other.
    pub(crate) reloading: std::sync::Mutex<()>,
    /// Held while limits turn into those of another policy.
    pub(crate) turning: std::sync::Mutex<()>,
    /// Held while a snapshot is saved.
    pub(crate) saving: std::sync::Mutex<()>,
    /// Limits of the snapshot that it began with, which nobody has asked for yet.
    pub(crate) orphans: OrphanLimits,
    pub(crate) began_with: Option<SnapshotRestored>,
}

/// What stays when policies change: a store, and the clock by which it counts.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// By which keys are named where they are kept, if there is one.
    pub(crate) secret: Option<KeySecret>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("policy", &self.in_force()).finish_non_exhaustive()
    }
}

impl Inner {
    /// The policy in force.
    pub(crate) fn in_force(&self) -> Arc<PolicyInForce> {
        Arc::clone(self.current.load().in_force())
    }
}

impl std::ops::Deref for Inner {
    type Target = Home;

    fn deref(&self) -> &Home {
        &self.home
    }
}

/// A decision that is being made. With the store in this process it is there at once.
#[must_use = "nothing has been decided until this is polled"]
#[derive(Debug)]
pub struct Admit(Admitting);

enum Admitting {
    Asking(Work<Admission>),
    Decided(Box<Admission>),
    Done,
    Turning(Box<Turning>),
}

impl Gate {
    /// A gate by the policy file at `path`, or by a folder of them; in this process, by the
    /// system's clock.
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Gate, OpenError> {
        Gate::builder().file(path).open()
    }

    /// A gate by a policy in YAML.
    pub fn from_text(policy: &str) -> Result<Gate, OpenError> {
        Gate::builder().text(policy).open()
    }

    /// A gate with a store or a clock of your choice.
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    /// Decides about a request, and charges every limit that is for it if all let it pass.
    ///
    /// What passes and falls into a share of the policy waits for its turn there, for as long as
    /// the share or [`Request::patience`] says; without one in time it is charged nothing, and
    /// refused as [crowded](crate::Reason::Crowded). The admission has the place until it is
    /// dropped.
    ///
    /// With the store in this process and no turn to wait for, the answer is there at the first
    /// poll; see [`Gate::decide`].
    ///
    /// [`Request::patience`]: tidegate_config::Request::patience
    pub fn admit(&self, request: &dyn Request) -> Admit {
        self.advance();
        if self.0.store.answers_at_once() {
            return Admit(match self.decide_at_once(request, Patience::Usual) {
                Ok(admission) => Admitting::Decided(admission),
                Err(turning) => Admitting::Turning(turning),
            });
        }
        let current = self.0.current.load();
        let in_force = current.mine();
        let facts = in_force.rules.facts(request, self.0.clock.now());
        let how = how(in_force, request);
        // All that is needed of the request is taken here.
        let mut admission = Admission::found(in_force, &facts);
        let asking = in_force.asking(&facts, admission.route_cost, Patience::Usual);
        Admit(Admitting::Asking(Box::pin(async move {
            admission.judge(how).await;
            match asking.filter(|_| admission.verdict.passes()) {
                Some(asking) => *admission.turning(asking).await,
                None => *admission,
            }
        })))
    }

    /// What [`Gate::admit`] would answer: the same verdicts, with the numbers as they are now.
    /// Charges and counts nothing, so there is nothing to settle either. Shares have no say in it.
    pub fn peek(&self, request: &dyn Request) -> Admit {
        let current = self.0.current.load();
        let in_force = current.mine();
        let facts = in_force.rules.facts(request, self.0.clock.now());
        let mut admission = Admission::found(in_force, &facts);
        let how = How { verb: Verb::Peek, patience: None };
        Admit(if self.0.store.answers_at_once() {
            at_once(admission.judge(how));
            Admitting::Decided(admission)
        } else {
            Admitting::Asking(Box::pin(async move {
                admission.judge(how).await;
                *admission
            }))
        })
    }

    /// Decides as [`Gate::admit`] does, for code that is not async. It waits for nothing: a share
    /// that has no place free refuses it.
    ///
    /// # Panics
    ///
    /// If states are not kept in this process: then there is something to wait for.
    pub fn decide(&self, request: &dyn Request) -> Admission {
        assert!(
            self.0.store.answers_at_once(),
            "await `admit` where states are not kept in this process"
        );
        self.advance();
        match self.decide_at_once(request, Patience::None) {
            Ok(admission) => *admission,
            Err(turning) => *turning.given_up(),
        }
    }

    /// Decides by a store that answers at once. What passes may have to wait for a turn.
    fn decide_at_once(
        &self,
        request: &dyn Request,
        patience: Patience,
    ) -> Result<Box<Admission>, Box<Turning>> {
        loop {
            let current = self.0.current.load();
            let in_force = current.mine();
            let facts = in_force.rules.facts(request, self.0.clock.now());
            let mut admission = Admission::found(in_force, &facts);
            if at_once(admission.judge(how(in_force, request))) == Outcome::Changed {
                // Another policy comes into force just now: it judges the request from the start.
                self.wait_for_turn();
                continue;
            }
            if in_force.shares.is_empty() || !admission.verdict.passes() {
                return Ok(admission);
            }
            return match in_force.begin(&facts, admission.route_cost, patience) {
                Some(begun) => admission.begun(begun),
                None => Ok(admission),
            };
        }
    }

    /// Waits while limits turn into those of another policy.
    #[cold]
    pub(crate) fn wait_for_turn(&self) {
        drop(self.0.turning.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// Puts other rules in force, or changes nothing. What was consumed is kept under rules of the
    /// same name; requests that are being decided go on by the rules that they began with. A rule
    /// that is gone and comes back within its period finds what it had left.
    ///
    /// A key that gets a quota of its own, or loses it, takes along what it had consumed, and
    /// permits that are held count until they come back. A tier is a limit of its own, and a key
    /// with a quota of its own is in no tier: where a rule gets tiers or loses them, keys begin
    /// anew, and a log line says so.
    ///
    /// In Redis, up to sixteen quotas that a key may have had are looked for, and the first that
    /// knows it counts. Permits do not count there under a quota that the key did not have before,
    /// and a rule that comes back with another quota begins afresh.
    ///
    /// With states in Redis a policy of another name is refused: nodes that are started with it
    /// would count apart.
    pub fn replace(&self, rules: impl Into<Arc<Rules>>) -> Result<(), OpenError> {
        self.replace_noting(rules.into()).map(drop)
    }

    /// Replaces the rules, and says what operators have to know of it, a line each.
    pub(crate) fn replace_noting(&self, rules: Arc<Rules>) -> Result<String, OpenError> {
        if !self.0.store.takes_policy(rules.name()) {
            let (from, to) = (self.rules().name().map(Into::into), rules.name().map(Into::into));
            return Err(OpenError::Renamed { from, to });
        }
        let notes = self.put(Some(rules))?;
        if !notes.is_empty() {
            tracing::warn!(notes = %notes.trim_end(), "limits begin anew under the policy");
        }
        self.0.adapt.look_at(self.0.clock.now());
        Ok(notes)
    }

    /// Puts the rules in force again, with what the load leaves of them.
    pub(crate) fn scale(&self) -> Result<(), OpenError> {
        self.put(None).map(drop)
    }

    /// Puts other rules in force, or the same with another factor; says what becomes of limits.
    fn put(&self, rules: Option<Arc<Rules>>) -> Result<String, OpenError> {
        let _one_by_one =
            self.0.reloading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = self.0.in_force();
        let mut is_over = before.hold();
        let now = self.0.home.now();
        let rules = rules.unwrap_or_else(|| Arc::clone(&before.rules));
        let rules = (rules, self.0.adapt.factor());
        let next = || {
            let waiting = self.0.orphans.present(now);
            PolicyInForce::new(rules.clone(), (Some(&before), &waiting), &self.0.home, now)
        };
        // A policy that is in force matters more than one that was.
        let next = next().or_else(|why| if self.0.orphans.make_room() { next() } else { Err(why) });
        let (next, taken_over, prepared) = next.map_err(OpenError::Store)?;
        let next = Arc::new(next);
        let in_force = Arc::new(PolicyRefs::new(&next));
        // Before that: a snapshot finds them here or there.
        self.0.orphans.wait(before.left_behind(&taken_over), now);
        *is_over = true;
        // All that takes time has been done: this takes microseconds, and requests that find one
        // of their limits changed wait for it.
        let turning = self.0.turning.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(prepared.commit());
        self.0.current.store(in_force);
        drop((turning, is_over));
        next.take_over_shares(&before);
        // After that: a snapshot finds them here or there.
        self.0.orphans.claimed(taken_over.went_on.iter().map(|name| &**name));
        Ok(taken_over.notes())
    }

    /// The rules in force.
    pub fn rules(&self) -> impl std::ops::Deref<Target = Rules> + use<> {
        RulesInForce(self.0.in_force())
    }

    /// How often each rule said what, in the order of the rules.
    pub fn counts(&self) -> Vec<(String, RuleCounts)> {
        let in_force = self.0.in_force();
        let rules = in_force.rules.rules().iter().enumerate();
        rules.map(|(at, rule)| (rule.name().to_owned(), in_force.counts(at).read())).collect()
    }

    /// The present tick of the gate's clock.
    pub fn now(&self) -> Tick {
        self.0.clock.now()
    }

    /// The gate's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The store that keeps its states.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The most keys that are remembered here, of each size of state.
    pub fn keys_max(&self) -> usize {
        self.0.store.keys_max()
    }

    /// How many keys are remembered here.
    pub fn keys(&self) -> usize {
        match self.0.store.memory() {
            Some(store) => store.len(),
            None => self.0.store.stats().memory.keys,
        }
    }
}

fn how(in_force: &PolicyInForce, request: &dyn Request) -> How {
    let patience = if in_force.holds_back { request.patience() } else { None };
    How { verb: Verb::Decide, patience }
}

/// The rules of a generation.
struct RulesInForce(Arc<PolicyInForce>);

impl std::ops::Deref for RulesInForce {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.0.rules
    }
}

impl Admit {
    /// Whether it waits for a turn in a share, in this process: for as long as somebody is patient,
    /// not for as long as a store needs.
    pub fn awaits_turn(&self) -> bool {
        matches!(self.0, Admitting::Turning(_))
    }

    /// The decision, if it has been made already: always so with the store in this process, unless
    /// a turn has to be waited for.
    #[inline]
    pub fn ready(self) -> Result<Box<Admission>, Admit> {
        match self.0 {
            Admitting::Decided(admission) => Ok(admission),
            admitting => Err(Admit(admitting)),
        }
    }
}

impl Future for Admit {
    type Output = Admission;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Admission> {
        match &mut self.0 {
            Admitting::Asking(asking) => return asking.as_mut().poll(context),
            Admitting::Turning(turning) => {
                return Pin::new(&mut **turning).poll(context).map(|admission| *admission);
            }
            Admitting::Decided(_) | Admitting::Done => {}
        }
        match std::mem::replace(&mut self.0, Admitting::Done) {
            Admitting::Decided(admission) => Poll::Ready(*admission),
            _ => panic!("polled after it was done"),
        }
    }
}

impl std::fmt::Debug for Admitting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Admitting::Asking(_) => "asking the store",
            Admitting::Decided(_) => "decided",
            Admitting::Done => "done",
            Admitting::Turning(_) => "waiting for a turn",
        })
    }
}
