//! A policy in plain numbers, so that states can be carried over should the policy file change.

use tidegate_core::{Kind, Policy, Quota, Shape, Span, Tick};

use super::bytes::Bytes;

/// Each algorithm by a number that stays.
const KINDS: [(u8, Kind); 8] = [
    (1, Kind::TokenBucket),
    (2, Kind::Gcra),
    (3, Kind::LeakyBucket),
    (4, Kind::LeakyQueue),
    (5, Kind::FixedWindow),
    (6, Kind::SlidingWindow),
    (7, Kind::SlidingLog),
    (8, Kind::Concurrency),
];

/// A fixed window of a calendar.
const CALENDAR: u8 = 9;

pub(super) fn put_policy(policy: &Policy, into: &mut Vec<u8>) {
    let kind = KINDS.into_iter().find(|(_, kind)| *kind == policy.kind());
    let kind = kind.map_or(0, |(number, _)| number);
    let (number, words, limit) = match policy.shape() {
        Shape::Calendar { limit, boundaries } => (CALENDAR, boundaries.map(Tick::get), limit),
        Shape::Line(grains) => (kind, [grains.tick(), grains.cell(), 0], grains.burst()),
        Shape::FixedWindow { limit, per }
        | Shape::Log { limit, per }
        | Shape::SlidingWindow { limit, per } => (kind, [0, per.get(), 0], limit),
    };
    into.push(number);
    for word in words {
        into.extend(word.to_le_bytes());
    }
    into.extend(limit.to_le_bytes());
}

pub(super) fn read_policy(bytes: &mut Bytes<'_>) -> Option<Policy> {
    let number = bytes.u8()?;
    let words = [bytes.u64()?, bytes.u64()?, bytes.u64()?];
    let limit = bytes.u32()?;
    if number == CALENDAR {
        let in_range = words.iter().all(|&tick| tick <= Tick::MAX.get());
        let made = in_range.then(|| Policy::calendar(limit, words.map(Tick::from_micros)));
        return made?.ok();
    }
    let (_, kind) = KINDS.into_iter().find(|(known, _)| *known == number)?;
    let [tick, per, _] = words;
    let per = Span::from_micros(per);
    let quota = if kind.has_burst() {
        Quota::new(u32::try_from(tick).ok()?, per).burst(limit)
    } else {
        Quota::new(limit, per)
    };
    Policy::new(kind, quota).ok()
}

#[cfg(test)]
mod tests {
    use tidegate_sim::rng::Rng;

    use super::*;

    fn again(policy: &Policy) -> Option<Policy> {
        let mut bytes = Vec::new();
        put_policy(policy, &mut bytes);
        let mut left = Bytes(&bytes);
        read_policy(&mut left).filter(|_| left.is_empty())
    }

    #[test]
    fn every_policy_is_the_same_again() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            for kind in Kind::ALL {
                let quota = rng.any_quota();
                let plain = Quota::new(quota.cells(), quota.per());
                let policy = Policy::new(kind, if kind.has_burst() { quota } else { plain });
                let policy = policy.unwrap();
                assert_eq!(again(&policy), Some(policy), "{kind} {quota}");
            }
            let start = rng.of_bits(50);
            let boundaries = [start, start + 1 + rng.of_bits(40), start + (1 << 41)];
            let policy = Policy::calendar(7, boundaries.map(Tick::from_micros)).unwrap();
            assert_eq!(again(&policy), Some(policy));
        }
    }

    #[test]
    fn numbers_that_are_no_policy_are_refused() {
        for (number, words, limit) in [
            (0, [1, 1, 0], 1),
            (10, [1, 1, 0], 1),
            (1, [0, 1, 0], 1),
            (1, [1 << 32, 1, 0], 1),
            (2, [1, 0, 0], 1),
            (3, [1, Quota::PER_MAX.get() + 1, 0], 1),
            (4, [1, 1, 0], 0),
            (5, [0, 1, 0], 0),
            (9, [5, 5, 6], 1),
            (9, [1, 2, u64::MAX], 1),
        ] {
            let mut bytes = vec![number];
            for word in words {
                bytes.extend(u64::to_le_bytes(word));
            }
            bytes.extend(u32::to_le_bytes(limit));
            assert_eq!(read_policy(&mut Bytes(&bytes)), None, "{number} {words:?} {limit}");
        }
    }
}
