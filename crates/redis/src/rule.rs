//! Rules: a policy with a name, and where its states are kept.

use std::sync::Arc;

use arrayvec::ArrayString;
use sha1_smol::Sha1;
use tidegate_core::{Applied, Kind, Policy, Receipt, Shape, Span, Tick};

use tidegate_store::TextKey as FleetKey;

/// Characters that tell a rule's states from others: 36 bits.
const ID: usize = 6;

type Id = ArrayString<ID>;

/// A rule of a [`RedisStore`](crate::RedisStore). Clones are the same rule.
#[derive(Clone, Debug)]
pub struct FleetRule(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    name: Box<str>,
    applied: Applied,
    id: Id,
    /// The policies before, latest first.
    formers: Vec<Former>,
    remembers_refusals: bool,
}

/// A policy under which keys of a rule may have left states, and until when.
#[derive(Clone, Debug)]
pub(crate) struct Former {
    pub(crate) applied: Applied,
    pub(crate) id: Id,
    ended_at: Tick,
    /// The most cells that a key could lack under it: after a cut, those of an earlier policy.
    most: u32,
    /// Whether the rule itself had it, and not another quota of its limit.
    is_own: bool,
}

impl Former {
    /// When the last state is forgotten that it can have left.
    fn gone_at(&self) -> Tick {
        let lives = match self.applied.policy.shape() {
            Shape::Calendar { .. } => return Tick::MAX,
            Shape::FixedWindow { per, .. } | Shape::Log { per, .. } => u128::from(per.get()),
            Shape::SlidingWindow { per, .. } => 2 * u128::from(per.get()),
            // What is repaid overdraws by a burst at most. A cell more: a part of a quota may be in
            // debt for less than that above its burst.
            Shape::Line(grains) => {
                let most = (2 * u128::from(self.most) + 1) * u128::from(grains.cell());
                most.div_ceil(grains.tick().into())
            }
        };
        // A minute more: not all nodes learn of a change at the same time.
        let lives = u64::try_from(lives).unwrap_or(u64::MAX).saturating_add(60_000_000);
        self.ended_at.after(Span::from_micros(lives))
    }
}

impl FleetRule {
    /// How many former policies a rule looks for states of.
    pub(crate) const FORMERS_MAX: usize = 16;

    pub(crate) fn new(name: &str, policy: Policy) -> FleetRule {
        let remembers_refusals = policy.kind() != Kind::Concurrency;
        let (id, applied) = (id(name, policy.shape()), Applied::whole(policy));
        let (name, formers) = (name.into(), Vec::new());
        FleetRule(Arc::new(Inner { name, applied, id, formers, remembers_refusals }))
    }

    /// Whether a key that was refused is refused in this process until time allows it again,
    /// without asking Redis. On by default, but for concurrency: permits come back at any time.
    #[must_use]
    pub fn remember_refusals(&self, yes: bool) -> FleetRule {
        let mut inner = (*self.0).clone();
        inner.remembers_refusals = yes;
        FleetRule(Arc::new(inner))
    }

    /// This rule with another policy from `now` on: what was consumed is kept.
    ///
    /// States are carried over when their key is next asked about. Up to sixteen former policies
    /// are looked for; a key that nobody asked about through more changes counts as fresh. A key
    /// that nobody asked about between a policy and its return is as if it had never gone.
    #[must_use]
    pub fn change(&self, policy: Policy, now: Tick) -> FleetRule {
        self.becomes(&self.0.name, Applied::whole(policy), now)
    }

    /// As [`FleetRule::change`], but the policy may be a part of a quota, and the name another one:
    /// nodes agree on a limit by its name.
    pub(crate) fn becomes(&self, name: &str, applied: Applied, now: Tick) -> FleetRule {
        let mut next = (*self.0).clone();
        (next.name, next.applied) = (name.into(), applied);
        next.id = id(name, applied.policy.shape());
        if next.id != self.0.id {
            next.formers.retain(|former| former.id != next.id);
            next.formers.insert(0, self.as_former(now));
        }
        next.within_bounds()
    }

    /// This rule with a policy that is a part of a quota.
    pub(crate) fn of(&self, applied: Applied) -> FleetRule {
        FleetRule(Arc::new(Inner { applied, ..(*self.0).clone() }))
    }

    /// This rule, with another policy that it had before this process began: states that were left
    /// under that one are carried over as if it had been changed just now.
    ///
    /// A node that starts with a new quota does not know the old one by itself, and every key would
    /// start fresh. Keep the old one here for as long as its states last: an hour for a quota of so
    /// many an hour.
    #[must_use]
    pub fn formerly(&self, policy: Policy) -> FleetRule {
        let mut next = (*self.0).clone();
        let id = id(&next.name, policy.shape());
        if id != next.id && !next.formers.iter().any(|former| former.id == id) {
            let (applied, ended_at, most) = (Applied::whole(policy), Tick::MAX, policy.limit());
            next.formers.push(Former { applied, id, ended_at, most, is_own: true });
        }
        next.within_bounds()
    }

    /// This rule, with keys that were counted under `others` until `now`: what is found there is
    /// carried over. With former policies, up to sixteen of them are looked for.
    pub(crate) fn after<'a>(
        &self,
        others: impl Iterator<Item = &'a FleetRule>,
        now: Tick,
    ) -> FleetRule {
        let mut next = (*self.0).clone();
        let pasts: Vec<Vec<Former>> = others.map(|other| other.past(now)).collect();
        let mut formers: Vec<Former> = Vec::new();
        // The latest of each goes before what any of them was earlier.
        for nth in 0..pasts.iter().map(Vec::len).max().unwrap_or(0) {
            let found = pasts.iter().filter_map(|past| past.get(nth));
            formers.extend(found.filter(|former| former.id != next.id).cloned());
        }
        let own = next.formers.iter().filter(|own| formers.iter().all(|other| other.id != own.id));
        let own: Vec<Former> = own.cloned().collect();
        formers.extend(own);
        next.formers = formers;
        next.within_bounds()
    }

    /// What it is until `now`, and what it was before, latest first: for another rule, to which its
    /// keys go.
    fn past(&self, now: Tick) -> Vec<Former> {
        let own = self.0.formers.iter().filter(|former| former.is_own).cloned();
        let past = std::iter::once(self.as_former(now)).chain(own);
        past.map(|former| Former { is_own: false, ..former }).collect()
    }

    fn as_former(&self, ended_at: Tick) -> Former {
        let Inner { applied, id, formers, .. } = &*self.0;
        let limits = formers.iter().map(|former| former.most).chain([applied.policy.limit()]);
        // Under a smaller part of a quota a cell is more of them.
        let most = limits.chain([applied.whole.limit()]).max().unwrap_or(u32::MAX);
        Former { applied: *applied, id: *id, ended_at, most, is_own: true }
    }

    /// The rule's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The policy that it has.
    pub fn policy(&self) -> &Policy {
        &self.0.applied.policy
    }

    /// The policy, and what it is a part of.
    pub(crate) fn applied(&self) -> &Applied {
        &self.0.applied
    }

    pub(crate) fn formers(&self) -> &[Former] {
        &self.0.formers
    }

    /// How many of them may have left a state that still counts.
    pub(crate) fn formers_alive(&self, now: impl FnOnce() -> Tick) -> usize {
        if self.0.formers.is_empty() {
            return 0;
        }
        let now = now();
        self.0.formers.iter().rposition(|former| now < former.gone_at()).map_or(0, |last| last + 1)
    }

    /// How many of the cells of a receipt are given back, which may be from before a change.
    pub(crate) fn worth(&self, receipt: &Receipt) -> u32 {
        let since = |former: &&Former| charged_at(former, receipt) <= former.ended_at;
        let own = self.0.formers.iter().filter(|former| former.is_own).take_while(since);
        // Which of them it was charged under is not known: the least of all counts.
        let worth = own.map(|former| self.0.applied.worth(&former.applied, receipt.cost()));
        worth.min().unwrap_or(receipt.cost())
    }

    pub(crate) fn remembers_refusals(&self) -> bool {
        self.0.remembers_refusals
    }

    /// Whether `other` is the same rule with the same policy.
    pub(crate) fn is(&self, other: &FleetRule) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What tells it from other rules of this process, for as long as it is there.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Where the state of `key` is kept.
    pub(crate) fn place(&self, prefix: &str, key: &FleetKey) -> Place {
        let tag = key.tag();
        let id_at = prefix.len() + tag.len() + 2;
        let text = key.text().map_or(0, |text| 1 + text.len());
        let mut name = Vec::with_capacity(id_at + ID + text);
        name.extend_from_slice(prefix.as_bytes());
        name.push(b'{');
        name.extend_from_slice(tag);
        name.push(b'}');
        name.extend_from_slice(self.0.id.as_bytes());
        // The mark says that a text follows, even an empty one.
        if let Some(text) = key.text() {
            name.push(b':');
            name.extend_from_slice(text);
        }
        Place { name: name.into(), tag_at: prefix.len() + 1, id_at }
    }
}

impl Inner {
    /// With as many formers as are looked for. Other quotas go first: few keys had them, and all
    /// had what the rule itself was.
    fn within_bounds(mut self) -> FleetRule {
        while FleetRule::FORMERS_MAX < self.formers.len() {
            let last = self.formers.iter().rposition(|former| !former.is_own);
            self.formers.remove(last.unwrap_or(self.formers.len() - 1));
        }
        FleetRule(Arc::new(self))
    }
}

/// When a receipt was charged, at the earliest. That of a queue says when its slot ends, which is
/// at most a burst later.
fn charged_at(former: &Former, receipt: &Receipt) -> Tick {
    match former.applied.policy.kind() {
        Kind::LeakyQueue => {
            let burst = former.gone_at().since(former.ended_at);
            Tick::from_micros(receipt.at().get().saturating_sub(burst.get()))
        }
        _ => receipt.at(),
    }
}

/// The name of a state in Redis.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) name: Box<[u8]>,
    tag_at: usize,
    id_at: usize,
}

impl Place {
    /// The tenant, and the key behind its mark, if there is one.
    pub(crate) fn key(&self) -> (&[u8], &[u8]) {
        let text = &self.name[self.id_at + ID..];
        (&self.name[self.tag_at..self.id_at - 1], text.get(1..).unwrap_or_default())
    }

    /// Whether it is a place of `key`.
    pub(crate) fn is_of(&self, key: &FleetKey) -> bool {
        let (tag, text) = self.key();
        let has_text = self.id_at + ID < self.name.len();
        let wanted = key.text().unwrap_or_default();
        has_text == key.text().is_some() && same(tag, key.tag()) && same(text, wanted)
    }

    /// The name that the state had under a former policy.
    pub(crate) fn former(&self, former: &Former) -> Vec<u8> {
        let mut name = self.name.to_vec();
        name[self.id_at..self.id_at + ID].copy_from_slice(former.id.as_bytes());
        name
    }
}

/// Whether two short texts are the same. One has just been written, byte by byte: reading it in
/// wider steps would wait until that has reached the cache.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

/// What tells the states of a rule from others: its name, and all that it takes to read them.
fn id(name: &str, shape: Shape) -> Id {
    let reads = match shape {
        // Calendars go on: what stays is about how long their windows are.
        Shape::Calendar { boundaries: [start, middle, _], .. } => {
            format!("calendar {}", middle.since(start).get().ilog2())
        }
        Shape::FixedWindow { per, .. } => format!("fixed {}", per.get()),
        Shape::Line(grains) => {
            format!("line {} {} {}", grains.tick(), grains.cell(), grains.burst())
        }
        Shape::Log { per, .. } => format!("log {}", per.get()),
        Shape::SlidingWindow { per, .. } => format!("sliding {}", per.get()),
    };
    let whole = format!("{} {name} {reads}", name.len());
    let mut id = Id::new();
    tidegate_store::text_key::digest::push(
        &mut id,
        Sha1::from(whole.as_bytes()).digest().bytes(),
        ID,
    );
    id
}
