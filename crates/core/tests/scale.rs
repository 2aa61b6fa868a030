//! What a part of a quota keeps: one that follows a load gives out less for a while, and no number
//! of changes gives anybody more than the whole.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Applied, Kind, Policy, Quota, Span, Tick};
use tidegate_sim::rng::Rng;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

const BUCKETS: [Kind; 4] = [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket, Kind::LeakyQueue];

/// So many sixteenths of `quota`: all of its rate, and whole cells of its burst.
fn part_of(kind: Kind, quota: Quota, burst: u32, sixteenths: u32) -> Policy {
    let (cells, per) = (quota.cells() * sixteenths, quota.per().get() * 16);
    let part = Quota::new(cells, Span::from_micros(per)).burst((burst * sixteenths / 16).max(1));
    Policy::new(kind, part).unwrap()
}

#[test]
fn a_bucket_stays_as_full_as_it_is() {
    for kind in BUCKETS {
        let [whole, half] = [16, 8].map(|part| part_of(kind, Quota::per_hour(1_600), 1_600, part));
        let mut state = whole.fresh();
        whole.decide(&mut state, NOW, 600);
        half.scale(&whole, &mut state, NOW);
        assert_eq!(half.peek(&mut state, NOW, 0).remaining, 500, "{kind}");
        half.decide(&mut state, NOW, 100);
        whole.scale(&half, &mut state, NOW);
        assert_eq!(whole.peek(&mut state, NOW, 0).remaining, 800, "{kind}");
    }
}

#[test]
fn all_others_keep_what_was_consumed() {
    for kind in [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog, Kind::Concurrency] {
        let [whole, half] =
            [100, 50].map(|cells| Policy::new(kind, Quota::per_hour(cells)).unwrap());
        let mut state = whole.fresh();
        whole.decide(&mut state, NOW, 80);
        half.scale(&whole, &mut state, NOW);
        assert_eq!(half.peek(&mut state, NOW, 0).remaining, 0, "{kind}");
        whole.scale(&half, &mut state, NOW);
        assert_eq!(whole.peek(&mut state, NOW, 0).remaining, 20, "{kind}");
    }
}

/// A look at a key meanwhile gives it nothing, and takes next to nothing.
#[test]
fn it_does_not_matter_who_looks_meanwhile() {
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let kind = BUCKETS[rng.below_u32(4) as usize];
        let quota = rng.small_quota();
        let burst = 1 + rng.below_u32(40);
        let parts: Vec<Policy> = (1..=16).map(|it| part_of(kind, quota, burst, it)).collect();
        let whole = &parts[15];
        let mut untouched = whole.fresh();
        let mut now = NOW;
        whole.decide(&mut untouched, now, 1 + rng.below_u32(burst));
        let mut looked = untouched.clone();
        let (mut present, changes) = (whole, rng.below(6));
        for _ in 0..changes {
            now = now.after(Span::from_micros(rng.below(quota.per().get())));
            let next = &parts[rng.below_u32(16) as usize];
            next.scale(present, &mut looked, now);
            present = next;
        }
        whole.scale(present, &mut looked, now);
        let resets = [untouched, looked].map(|mut it| whole.peek(&mut it, now, 0).reset_after);
        let [without, with] = resets.map(Span::get);
        assert!(without <= with && with <= without + changes + 2, "{kind} {quota}: {seed}");
    }
}

/// A request costs as many of the whole quota's cells as there are parts missing: twice as many
/// under a half. By that count no stretch of time sees more than the whole lets pass.
#[test]
fn no_number_of_changes_admits_more_than_the_whole() {
    // Divided by every number of sixteenths.
    const CELL: u128 = 720_720;
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let kind = BUCKETS[rng.below_u32(4) as usize];
        let (quota, burst) = (rng.small_quota(), 1 + rng.below_u32(40));
        let parts: Vec<Policy> = (1..=16).map(|it| part_of(kind, quota, burst, it)).collect();
        let weight = |place: usize| CELL * 16 / (place as u128 + 1);
        // At least one passes at once, whatever is left.
        let most = parts.iter().enumerate().map(|(it, part)| weight(it) * u128::from(part.limit()));
        let most = most.max().unwrap();
        let (mut at, mut now) = (15, NOW);
        let mut state = parts[at].fresh();
        let mut passed: Vec<(Tick, u128)> = Vec::new();
        for _ in 0..60 {
            now = now.after(Span::from_micros(rng.below(quota.per().get() / 4 + 2)));
            if rng.below(3) == 0 {
                let next = rng.below_u32(16) as usize;
                parts[next].scale(&parts[at], &mut state, now);
                at = next;
            }
            let cost = 1 + rng.below_u32(parts[at].limit());
            if parts[at].decide(&mut state, now, cost).verdict.passes() {
                passed.push((now, weight(at) * u128::from(cost)));
            }
        }
        for start in 0..passed.len() {
            let mut sum = 0;
            for (when, weight) in &passed[start..] {
                sum += weight;
                let time = u128::from(when.since(passed[start].0).get());
                let paid = time * u128::from(quota.cells()) * CELL;
                let per = u128::from(quota.per().get());
                assert!(sum * per <= most * per + paid, "{kind} {quota} {burst}: {seed}");
            }
        }
    }
}

#[test]
fn the_largest_quotas_can_be_scaled() {
    for kind in BUCKETS {
        for quota in [Quota::new(u32::MAX, Quota::PER_MAX), Quota::new(1, Quota::PER_MAX)] {
            for burst in [1, u32::MAX] {
                let quota = quota.burst(burst);
                let slow = Policy::new(kind, quota).unwrap();
                let fast = Policy::new(kind, Quota::new(u32::MAX, Span::from_micros(1_000)));
                let fast = fast.unwrap();
                for (old, new) in [(&slow, &fast), (&fast, &slow)] {
                    let mut state = old.fresh();
                    old.decide(&mut state, NOW, old.limit());
                    new.scale(old, &mut state, NOW);
                    assert!(new.peek(&mut state, NOW, 0).remaining < new.limit());
                    assert_eq!(new.unpack_checked(new.pack(&state)), Some(state));
                }
            }
        }
    }
}

/// What was charged under one part and is given back under another gives nobody more than it took.
#[test]
fn cells_are_given_back_for_what_they_are_worth() {
    for kind in BUCKETS {
        let hour = Quota::per_hour(1_600);
        let parts: Vec<Policy> = (0..=16).map(|it| part_of(kind, hour, 1_600, it.max(1))).collect();
        let worth = |whole: [&Policy; 2], (from, to): (usize, usize), cells| {
            let [old, new] = [(from, whole[0]), (to, whole[1])]
                .map(|(it, whole)| Applied { policy: parts[it], whole: *whole });
            new.worth(&old, cells)
        };
        let (whole, other) = (&parts[16], Policy::new(kind, Quota::per_hour(3_200)).unwrap());
        for (from, to, left) in [(16, 8, 80), (16, 1, 10), (3, 2, 106), (8, 16, 160), (7, 7, 160)] {
            assert_eq!(worth([whole; 2], (from, to), 160), left, "{kind}: {from} to {to}");
        }
        assert_eq!(worth([whole; 2], (16, 1), 15), 0, "{kind}");
        // Of another quota a cell is a cell; under half of that it is half of one.
        assert_eq!(worth([whole, &other], (16, 16), 160), 80, "{kind}");
        assert_eq!(Applied::whole(other).worth(&Applied::whole(*whole), 160), 160, "{kind}");
    }
    let log = |cells| Policy::new(Kind::SlidingLog, Quota::per_hour(cells)).unwrap();
    let part = |policy, whole| Applied { policy, whole };
    assert_eq!(part(log(8), log(16)).worth(&part(log(16), log(16)), 7), 7);
    let (slowest, fastest) =
        (Quota::new(1, Quota::PER_MAX), Quota::new(u32::MAX, Span::from_micros(1_000)));
    let [slowest, fastest] = [slowest, fastest].map(|it| Policy::token_bucket(it).unwrap());
    let [slowest, fastest] = [slowest, fastest].map(|it| part(it, fastest));
    assert_eq!(slowest.worth(&fastest, u32::MAX), 0);
    assert_eq!(fastest.worth(&slowest, 7), 7);
}

/// It makes no difference whether a part is given out when the quota changes.
#[test]
fn a_part_of_a_quota_is_carried_by_way_of_its_whole() {
    for kind in BUCKETS {
        let whole = |cells: u32| Policy::new(kind, Quota::per_hour(cells)).unwrap();
        let half = |cells: u32| Applied {
            policy: Policy::new(kind, Quota::per_hour(cells / 2)).unwrap(),
            whole: whole(cells),
        };
        let key = |applied: Applied, cells| {
            let mut state = applied.policy.fresh();
            assert!(applied.policy.decide(&mut state, NOW, cells).verdict.passes());
            (applied, state)
        };
        for ((old, mut state), new, left) in [
            (key(Applied::whole(whole(100)), 60), Applied::whole(whole(200)), 140),
            (key(Applied::whole(whole(100)), 60), half(200), 70),
            (key(half(100), 30), Applied::whole(whole(200)), 140),
            (key(half(100), 30), half(200), 70),
            (key(half(100), 30), Applied::whole(whole(100)), 40),
        ] {
            new.carry(&old, &mut state, NOW);
            assert_eq!(new.policy.peek(&mut state, NOW, 0).remaining, left, "{kind}");
        }
    }
}
