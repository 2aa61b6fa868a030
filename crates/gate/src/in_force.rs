//! A policy in force: its rules, and where the store keeps what each of them counts.
//!
//! On a reload, a limit of the same name keeps what was consumed. Limits of a calendar become those
//! of the next window while requests go on, by the first caller that asks; a policy that is not in
//! force any more turns no windows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_config::{Rule, Rules, Timed, Variant};
use tidegate_core::adapt::Fraction;
use tidegate_core::{Kind, Span, Tick, WithoutStore};
use tidegate_store::{PreparedLimits, RestoredRule, Store, StoreFailure, StoreLimit, WantedLimit};

use crate::admission::Judged;
use crate::counts::Counts;
use crate::gate::Home;
use crate::kept::{KeptLimits, QuotaName};
use crate::shares::Shares;
use crate::taken_over::TakenOver;

/// A policy in force.
pub(crate) struct PolicyInForce {
    pub(crate) home: Arc<Home>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) shares: Shares,
    /// Whether one of its limits holds requests back.
    pub(crate) holds_back: bool,
    /// By rule, then by variant: the limits that judge together.
    limits: Vec<Vec<Limits>>,
    /// By rule.
    counts: Vec<Arc<Counts>>,
    over: Over,
}

/// Whether another policy is in force by now. Held while a window is turned, or a policy is
/// replaced: one after the other.
type Over = Arc<Mutex<bool>>;

pub(crate) type Limits = SmallVec<[Limit; 1]>;

/// A limit, and where the store keeps it.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Under which it keeps its consumption.
    pub(crate) name: Box<str>,
    rule: StoreLimit,
    calendar: Option<Box<Calendar>>,
    /// Its name as clients see it.
    pub(crate) name_shown: Box<str>,
    /// The most cells at once.
    pub(crate) cells: u32,
    /// The time in which it comes back in full.
    pub(crate) window: Span,
    /// Whether clients see it.
    pub(crate) is_shown: bool,
    /// Whether its rule says itself what a request costs.
    pub(crate) has_own_cost: bool,
    /// Whether it hands out permits, which come back.
    pub(crate) is_permit: bool,
}

/// What it takes to go from one window to the next.
#[derive(Debug)]
struct Calendar {
    window: ArcSwap<Window>,
    without: WithoutStore,
    /// What the rule gives out of its limit.
    share: Fraction,
    over: Over,
}

/// A limit of a calendar, as it is in this window.
#[derive(Debug)]
pub(crate) struct Window {
    rule: StoreLimit,
    until: Tick,
}

/// A limit as it is now.
pub(crate) enum Present<'g> {
    Always(&'g StoreLimit),
    Window(Arc<Window>),
}

/// Its size only: a policy may have thousands of rules, and every admission refers to one.
impl fmt::Debug for PolicyInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rules) = (self.rules.name(), self.rules.rules().len());
        f.debug_struct("Policy").field("name", &name).field("rules", &rules).finish_non_exhaustive()
    }
}

impl PolicyInForce {
    /// Puts `rules` in force after `before`, whose consumption is kept, and that of limits which
    /// were restored and have not been in force yet, or have not been for a while. Rules that give
    /// way are left `factor`.
    pub(crate) fn new<'h>(
        (rules, factor): (Arc<Rules>, Fraction),
        (before, restored): (Option<&PolicyInForce>, &[RestoredRule]),
        home: &'h Arc<Home>,
        now: Tick,
    ) -> Result<(PolicyInForce, TakenOver, PreparedLimits<'h>), StoreFailure> {
        let kept = KeptLimits::new(before, restored, home.secret.as_ref());
        let counted = before.map(PolicyInForce::counts_by_name).unwrap_or_default();
        let over = Over::default();
        let (limits, taken_over, prepared) =
            limits((&rules, factor), &kept, &*home.store, (now, &over))?;
        let counts = rules.rules().iter();
        let counts = counts.map(|rule| counted.get(rule.name()).cloned().unwrap_or_default());
        let shares = Shares::new(&rules, before.map(|it| (&*it.rules, &it.shares)), &home.clock);
        let (counts, holds_back) = (counts.collect(), holds_back(&rules));
        let home = Arc::clone(home);
        let made = PolicyInForce { home, rules, shares, holds_back, limits, counts, over };
        Ok((made, taken_over, prepared))
    }

    /// Puts what its shares say in force after `before`.
    pub(crate) fn take_over_shares(&self, before: &PolicyInForce) {
        self.shares.take_over(&self.rules, (&*before.rules, &before.shares));
    }

    /// Keeps windows as they are until another policy is in force; see [`Over`].
    pub(crate) fn hold(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits of a rule's variant.
    pub(crate) fn limits(&self, rule: usize, variant: usize) -> &[Limit] {
        &self.limits[rule][variant]
    }

    /// The limit that is asked, as it is at `now`.
    #[inline]
    pub(crate) fn present(&self, judged: &Judged, now: Tick) -> Present<'_> {
        let (rule, variant) = (judged.rule as usize, judged.variant as usize);
        let part = usize::from(judged.part);
        let limit = &self.limits[rule][variant][part];
        if let Some(always) = limit.always() {
            return Present::Always(always);
        }
        let timed = &self.rule(rule).variants()[variant].policies()[part];
        limit.present(timed, &*self.home.store, now)
    }

    pub(crate) fn rule(&self, number: usize) -> &Rule {
        &self.rules.rules()[number]
    }

    pub(crate) fn counts(&self, rule: usize) -> &Counts {
        &self.counts[rule]
    }

    /// The limits that are kept in this process, as they are now, by their names.
    pub(crate) fn named_rules(&self) -> Vec<RestoredRule> {
        let mut rules = Vec::new();
        self.each_limit(|limit, of| {
            if let Some(rule) = memory_rule(&limit.present_rule()).cloned() {
                let of = if *of == *limit.name { String::new() } else { of };
                rules.push(RestoredRule { name: limit.name.to_string(), limit: of, rule });
            }
        });
        rules
    }

    /// The limits that are kept in this process and did not go on, by their names.
    pub(crate) fn left_behind(&self, taken_over: &TakenOver) -> Vec<RestoredRule> {
        let mut rules = self.named_rules();
        rules.retain(|it| !taken_over.went_on.contains(&*it.name));
        rules
    }

    /// Shows every quota, and the name of the limit that it is a quota of.
    pub(crate) fn each_limit(&self, mut each: impl FnMut(&Limit, String)) {
        for (rule, variants) in self.rules.rules().iter().zip(&self.limits) {
            for (variant, limits) in rule.variants().iter().zip(variants) {
                for (timed, limit) in variant.policies().iter().zip(limits) {
                    each(limit, QuotaName::new(rule, variant, timed).limit);
                }
            }
        }
    }

    /// The limits of a rule that are kept in this process, as they are now.
    pub(crate) fn rules_here(&self, rule: usize) -> impl Iterator<Item = tidegate_store::Rule> {
        let limits = self.limits[rule].iter().flatten();
        limits.filter_map(|limit| memory_rule(&limit.present_rule()).cloned())
    }

    fn counts_by_name(&self) -> HashMap<&str, Arc<Counts>> {
        self.rules.rules().iter().map(Rule::name).zip(self.counts.iter().cloned()).collect()
    }
}

impl Limit {
    fn new(
        (rule, timed): (&Rule, &Timed),
        share: Fraction,
        (wanted, made): (WantedLimit<'_>, StoreLimit),
        (now, over): (Tick, &Over),
    ) -> Limit {
        let WantedLimit { name, policy, .. } = wanted;
        let calendar = timed.changes_at(now).map(|until| {
            let window = ArcSwap::from_pointee(Window { rule: made.clone(), until });
            let (without, over) = (rule.without_store(), Arc::clone(over));
            Box::new(Calendar { window, without, share, over })
        });
        let (cells, window) = (policy.limit(), timed.window_of(&policy));
        let name_shown = name_shown(rule, timed);
        Limit {
            name: name.into(),
            rule: made,
            calendar,
            name_shown,
            cells,
            window,
            is_shown: rule.is_shown(),
            has_own_cost: rule.has_own_cost(),
            is_permit: timed.kind() == Kind::Concurrency,
        }
    }

    pub(crate) fn present_rule(&self) -> StoreLimit {
        match &self.calendar {
            Some(calendar) => calendar.window.load().rule.clone(),
            None => self.rule.clone(),
        }
    }

    /// The limit, if it is the same at any time.
    #[inline]
    pub(crate) fn always(&self) -> Option<&StoreLimit> {
        self.calendar.is_none().then_some(&self.rule)
    }

    /// The limit as it is at `now`.
    #[inline]
    pub(crate) fn present(&self, timed: &Timed, store: &dyn Store, now: Tick) -> Present<'_> {
        match &self.calendar {
            None => Present::Always(&self.rule),
            Some(calendar) => Present::Window(calendar.window(&self.name, timed, store, now)),
        }
    }
}

impl Calendar {
    /// The window's rule. The first caller in a new window makes the next. Nothing of the last one
    /// counts in it, so it is a rule of its own, and the last is forgotten.
    fn window(&self, name: &str, timed: &Timed, store: &dyn Store, now: Tick) -> Arc<Window> {
        let present = self.window.load_full();
        if now < present.until {
            return present;
        }
        let is_over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.window.load_full();
        // A policy that was replaced goes by what its rules have become.
        if now < present.until || *is_over {
            return present;
        }
        let policy = timed.scaled(now, self.share);
        let mut next = WantedLimit::new(name, (policy, self.without), None);
        next.whole = timed.policy(now);
        let next = store.put(&[next], now).map(Vec::into_iter).map(|mut made| made.next());
        match (next, timed.changes_at(now)) {
            (Ok(Some(rule)), Some(until)) => {
                let next = Arc::new(Window { rule, until });
                self.window.store(Arc::clone(&next));
                next
            }
            // Where there is no room for another rule the last window goes on: it refuses too much.
            _ => present,
        }
    }
}

impl std::ops::Deref for Present<'_> {
    type Target = StoreLimit;

    #[inline]
    fn deref(&self) -> &StoreLimit {
        match self {
            Present::Always(rule) => rule,
            Present::Window(window) => &window.rule,
        }
    }
}

fn holds_back(rules: &Rules) -> bool {
    let variants = rules.rules().iter().flat_map(Rule::variants);
    variants.flat_map(Variant::policies).any(|timed| timed.kind() == Kind::LeakyQueue)
}

/// Every limit of the rules, by rule and variant. The store has all of them, or all stays as it is.
fn limits<'s>(
    (rules, factor): (&Rules, Fraction),
    kept: &KeptLimits<'_>,
    store: &'s dyn Store,
    (now, over): (Tick, &Over),
) -> Result<(Vec<Vec<Limits>>, TakenOver, PreparedLimits<'s>), StoreFailure> {
    let mut taken_over = TakenOver::default();
    let wanted = wanted(rules, factor, kept, now, &mut taken_over);
    let prepared = store.prepare(&wanted, now)?;
    let mut made = wanted.into_iter().zip(prepared.limits().to_vec());
    let mut limits_of = |rule: &Rule, variant: &Variant| -> Limits {
        let made = variant.policies().iter().zip(&mut made);
        let share = rule.share(factor);
        made.map(|(timed, made)| Limit::new((rule, timed), share, made, (now, over))).collect()
    };
    let limits_of_rule = |rule: &Rule| -> Vec<Limits> {
        rule.variants().iter().map(|variant| limits_of(rule, variant)).collect()
    };
    Ok((rules.rules().iter().map(limits_of_rule).collect(), taken_over, prepared))
}

/// What the rules want of the store, rule by rule and variant by variant.
fn wanted<'k>(
    rules: &Rules,
    factor: Fraction,
    kept: &'k KeptLimits<'_>,
    now: Tick,
    taken_over: &mut TakenOver,
) -> Vec<WantedLimit<'k>> {
    let each =
        || rules.rules().iter().flat_map(|rule| rule.variants().iter().map(move |it| (rule, it)));
    let quotas =
        || each().flat_map(|(rule, it)| it.policies().iter().map(move |timed| (rule, it, timed)));
    let names: HashSet<String> =
        quotas().map(|(rule, it, timed)| QuotaName::new(rule, it, timed).name).collect();
    let mut wanted = Vec::with_capacity(names.len());
    for (rule, variant, timed) in quotas() {
        let quota = QuotaName::new(rule, variant, timed);
        let before = kept.before(&quota.name);
        taken_over.went_on.extend(before.map(|(name, _)| name.into()));
        if kept.begin_anew(rule, variant, &quota) {
            taken_over.begin_anew(rule.name(), variant.tier());
        }
        wanted.push(WantedLimit {
            policy: timed.scaled(now, rule.share(factor)),
            whole: timed.policy(now),
            without: rule.without_store(),
            others: kept.others(&quota, &names),
            before: before.map(|(_, rule)| rule),
            name: quota.name,
            limit: quota.limit,
        });
    }
    wanted
}

/// The rule of a limit that is kept in this process.
pub(crate) fn memory_rule(limit: &StoreLimit) -> Option<&tidegate_store::Rule> {
    match limit {
        StoreLimit::Memory(rule) => Some(rule),
        StoreLimit::Other(_) => None,
    }
}

/// The limit's name as clients see it.
fn name_shown(rule: &Rule, timed: &Timed) -> Box<str> {
    let dash = if timed.part().is_empty() { "" } else { "-" };
    format!("{}{dash}{}", rule.name(), timed.part()).into()
}
