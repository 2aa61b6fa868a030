//! Which key comes next. `decide` draws before its timer starts; a decision by Redis takes a
//! thousand times as long as a draw.

/// `length` draws in which every one of `keys` is as likely as any other.
pub(crate) fn uniform(keys: u32, length: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    (0..length).map(|_| random.below(keys)).collect()
}

/// `length` draws in which the k-th most popular key has weight 1 / k^0.99, as in YCSB.
///
/// Popularity is dealt out at random: neighbors in rank were not inserted one after the other.
pub(crate) fn zipf(keys: u32, length: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    let by_rank = shuffled(keys, &mut random);
    let mut weight_so_far = 0.0;
    let cumulative: Vec<f64> = (1..=keys)
        .map(|rank| {
            weight_so_far += f64::from(rank).powf(-EXPONENT);
            weight_so_far
        })
        .collect();
    (0..length)
        .map(|_| {
            let drawn = random.fraction() * weight_so_far;
            let rank = cumulative.partition_point(|&weight| weight <= drawn);
            by_rank[rank.min(by_rank.len() - 1)]
        })
        .collect()
}

fn shuffled(keys: u32, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..keys).collect();
    for last in (1..keys).rev() {
        numbers.swap(last as usize, random.below(last + 1) as usize);
    }
    numbers
}

/// `SplitMix64`: a few lines, and the same draws on every machine.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn fraction(&mut self) -> f64 {
        f64::from(self.below(u32::MAX)) / f64::from(u32::MAX)
    }
}

const EXPONENT: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_draws_reach_every_key_and_no_other() {
        let mut seen = [0_u32; 10];
        for key in uniform(10, 10_000, 1) {
            seen[key as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }

    #[test]
    fn the_first_of_a_hundred_zipf_keys_takes_a_fifth() {
        let mut seen = [0_u32; 100];
        for key in zipf(100, 100_000, 1) {
            seen[key as usize] += 1;
        }
        seen.sort_unstable();
        // 1 / (sum of k^-0.99 for k up to 100) = 0.189.
        assert!((18_000..20_000).contains(&seen[99]), "{seen:?}");
        assert!(seen[0] > 0, "{seen:?}");
    }
}
