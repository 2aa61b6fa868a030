//! Quotas under load: a rule marked `adaptive` gives out a part of them.
//!
//! The rate and the burst are scaled alike, so a bucket fills in the time that it always took, and
//! what is held back waits no longer. A bucket's rate is scaled exactly. Windows and lists count
//! whole cells: rounded down, and at least one.

use tidegate_core::adapt::Fraction;
use tidegate_core::{Grains, Policy, Quota, Shape, Span, Tick};

use crate::rule::{Rule, Timed};
use crate::rules::Rules;

impl Rules {
    /// Whether any rule gives way under load.
    pub fn are_adaptive(&self) -> bool {
        self.rules().iter().any(|rule| rule.adaptive().is_some())
    }
}

impl Rule {
    /// The part of its limits that is left whatever the load; nothing for a rule that does not
    /// give way.
    pub fn adaptive(&self) -> Option<Fraction> {
        self.limit()?.adaptive
    }

    /// What it gives out of its limits when `factor` is left of those that give way.
    pub fn share(&self, factor: Fraction) -> Fraction {
        self.adaptive().map_or(Fraction::WHOLE, |floor| factor.max(floor).min(Fraction::WHOLE))
    }
}

impl Timed {
    /// The policy at a tick, with `share` of its quota.
    pub fn scaled(&self, now: Tick, share: Fraction) -> Policy {
        scaled(self.policy(now), share)
    }

    /// The time in which the limit of this policy, scaled, comes back in full.
    pub fn window_of(&self, policy: &Policy) -> Span {
        policy.grains().map_or(self.window, fills)
    }
}

/// The time in which a bucket fills.
pub(crate) fn fills(grains: &Grains) -> Span {
    let burst = u128::from(grains.burst()) * u128::from(grains.cell());
    Span::from_micros(u64::try_from(burst.div_ceil(grains.tick().into())).unwrap_or(u64::MAX))
}

fn scaled(policy: Policy, share: Fraction) -> Policy {
    if Fraction::WHOLE <= share {
        return policy;
    }
    let made = match policy.shape() {
        Shape::Calendar { limit, boundaries } => Policy::calendar(cells(limit, share), boundaries),
        Shape::FixedWindow { limit, per }
        | Shape::Log { limit, per }
        | Shape::SlidingWindow { limit, per } => {
            Policy::new(policy.kind(), Quota::new(cells(limit, share), per))
        }
        Shape::Line(grains) => Policy::new(policy.kind(), line(&grains, share)),
    };
    // A smaller part of what is possible is possible; if not, nothing changes.
    made.unwrap_or(policy)
}

fn cells(limit: u32, share: Fraction) -> u32 {
    u32::try_from(share.of_amount(limit.into())).unwrap_or(limit).max(1)
}

/// The rate of `grains` times `share`, exact where there is room for it and never rounded up.
fn line(grains: &Grains, share: Fraction) -> Quota {
    let (part, whole) = (u64::from(share.get().max(1)), u64::from(Fraction::WHOLE.get()));
    let (part, whole) = reduced(part, whole);
    let mut rate = u128::from(grains.tick()) * u128::from(part);
    let mut per = u128::from(grains.cell()) * u128::from(whole);
    // Both halved, cells down and time up, until they are in range: the rate only falls. Slower
    // than the slowest quota it cannot be.
    while (u128::from(Quota::PER_MAX.get()) < per || u128::from(u32::MAX) < rate) && 1 < rate {
        (rate, per) = (rate / 2, per.div_ceil(2));
    }
    let per = u64::try_from(per).unwrap_or(u64::MAX).clamp(1, Quota::PER_MAX.get());
    let rate = u32::try_from(rate).unwrap_or(u32::MAX).max(1);
    Quota::new(rate, Span::from_micros(per)).burst(cells(grains.burst(), share))
}

fn reduced(part: u64, whole: u64) -> (u64, u64) {
    let (mut a, mut b) = (part, whole);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (part / a, whole / a)
}

#[cfg(test)]
mod tests {
    use tidegate_core::Kind;

    use super::*;

    /// Every kind of rate with every quota of these.
    fn policies() -> impl Iterator<Item = Policy> {
        let quotas = [
            Quota::per_second(1),
            Quota::per_second(997).burst(7),
            Quota::per_minute(100),
            Quota::per_hour(12_345),
            Quota::per_day(1),
            Quota::new(u32::MAX, Span::from_micros(1)),
            Quota::new(1, Quota::PER_MAX),
            Quota::new(u32::MAX, Quota::PER_MAX),
        ];
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Concurrency);
        kinds.flat_map(move |kind| {
            quotas.into_iter().filter_map(move |it| Policy::new(kind, it).ok())
        })
    }

    fn shares() -> impl Iterator<Item = Fraction> {
        let sixteenths = (1..=16).map(|part| Fraction::from_millionths(part * 62_500));
        sixteenths.chain([1, 333_333, 999_999].map(Fraction::from_millionths))
    }

    #[test]
    fn a_scaled_quota_is_never_more_than_its_share_and_never_nothing() {
        for (policy, share) in policies().flat_map(|it| shares().map(move |share| (it, share))) {
            let less = scaled(policy, share);
            let wanted = share.of_amount(policy.limit().into()).max(1);
            assert_eq!(u64::from(less.limit()), wanted, "{policy:?} {share}");
            assert_eq!(less.kind(), policy.kind());
            if let (Some(less), Some(full)) = (less.grains(), policy.grains()) {
                let (part, whole) = rates(less, full);
                let is_slowest = less.tick() == 1 && less.cell() == Quota::PER_MAX.get();
                let most = whole * u128::from(share.get());
                assert!(part * 1_000_000 <= most || is_slowest, "{policy:?} {share}");
            }
        }
    }

    /// The rates of two buckets over one denominator. `tick / cell` is the rate.
    fn rates(a: &Grains, b: &Grains) -> (u128, u128) {
        let rate = |a: &Grains, b: &Grains| u128::from(a.tick()) * u128::from(b.cell());
        (rate(a, b), rate(b, a))
    }

    #[test]
    fn rates_that_people_write_are_scaled_exactly() {
        for cells in [1, 3, 100, 997, 10_000] {
            for quota in [Quota::per_second(cells), Quota::per_minute(cells), Quota::per_day(cells)]
            {
                let full = Policy::token_bucket(quota).unwrap();
                for part in 1..=16_u32 {
                    let less = scaled(full, Fraction::from_millionths(part * 62_500));
                    let (less, full) = rates(less.grains().unwrap(), full.grains().unwrap());
                    assert_eq!(less * 16, full * u128::from(part), "{quota} {part}");
                }
            }
        }
    }

    #[test]
    fn the_whole_changes_nothing() {
        for policy in policies() {
            assert_eq!(scaled(policy, Fraction::WHOLE), policy);
        }
    }

    #[test]
    fn a_share_is_between_the_floor_and_the_whole_and_only_of_rules_that_give_way() {
        let text = "rules: [{ name: a, limit: 1/s, adaptive: 20% }, { name: b, limit: 1/s }]";
        let rules = Rules::from_text(text).unwrap().rules;
        assert!(rules.are_adaptive());
        let [a, b] = rules.rules() else { panic!("two rules") };
        for (factor, expected) in [(0, 20), (10, 20), (50, 50), (100, 100), (200, 100)] {
            let factor = Fraction::from_percent(factor);
            assert_eq!(a.share(factor), Fraction::from_percent(expected));
            assert_eq!(b.share(factor), Fraction::WHOLE);
        }
        assert!(
            !Rules::from_text("rules: [{ name: b, limit: 1/s }]").unwrap().rules.are_adaptive()
        );
    }
}
