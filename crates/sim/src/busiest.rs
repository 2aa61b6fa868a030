//! How much passed in any span of a given length: exactly, over every place the span could be.

use tidegate_core::{Span, Tick};

use crate::run::Pass;

/// The span in which the most cells started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Busiest {
    /// Cells that started in it.
    pub cells: u64,
    /// The first tick of it.
    pub from: Tick,
    /// Whose cells they were.
    pub tenant: u32,
}

/// The busiest half-open span `[from, from + span)` of any single tenant.
///
/// `passes` are ordered by tenant, and for each tenant by start.
pub fn busiest(passes: &[Pass], span: Span) -> Busiest {
    let mut most = Busiest::default();
    for own in passes.chunk_by(|a, b| a.tenant == b.tenant) {
        let mut oldest = 0;
        let mut cells: u64 = 0;
        for (index, pass) in own.iter().enumerate() {
            cells += u64::from(pass.cost);
            // A busiest span can always be slid right until it starts with a pass.
            while oldest < index && own[oldest].starts.after(span) <= pass.starts {
                cells -= u64::from(own[oldest].cost);
                oldest += 1;
            }
            if most.cells < cells {
                most = Busiest { cells, from: own[oldest].starts, tenant: pass.tenant };
            }
        }
    }
    most
}

/// Cells that started within the last `span`, as a curve: the highest value in each of `columns`
/// equal parts of `duration`. `passes` are those of one tenant, in order of starting.
pub fn level(passes: &[Pass], span: Span, duration: Span, columns: usize) -> Vec<u64> {
    let mut highest = vec![0; columns];
    let (mut joined, mut left, mut cells) = (0, 0, 0_u64);
    for (column, high) in highest.iter_mut().enumerate() {
        *high = cells;
        let end = column_end(column, duration, columns);
        loop {
            let joins = passes.get(joined).map(|pass| pass.starts);
            let leaves = passes[left..joined].first().map(|pass| pass.starts.after(span));
            match (joins, leaves) {
                (joins, Some(leaves)) if leaves < end && joins.is_none_or(|at| leaves <= at) => {
                    cells -= u64::from(passes[left].cost);
                    left += 1;
                }
                (Some(joins), _) if joins < end => {
                    cells += u64::from(passes[joined].cost);
                    joined += 1;
                }
                _ => break,
            }
            *high = cells.max(*high);
        }
    }
    highest
}

/// The tick at which `column` ends and the next one starts.
fn column_end(column: usize, duration: Span, columns: usize) -> Tick {
    let after = |count: usize| u128::try_from(count).expect("a count fits");
    let end = u128::from(duration.get()) * after(column + 1) / after(columns.max(1));
    Tick::from_micros(u64::try_from(end).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn random_passes(rng: &mut Rng) -> Vec<Pass> {
        let count = rng.below(40);
        let mut passes: Vec<Pass> = (0..count)
            .map(|_| Pass {
                starts: Tick::from_micros(rng.below(60)),
                tenant: u32::try_from(rng.below(3)).unwrap(),
                cost: u32::try_from(rng.below(4)).unwrap(),
            })
            .collect();
        passes.sort_by_key(|pass| (pass.tenant, pass.starts));
        passes
    }

    /// Every start, every pass: slowly.
    fn naive(passes: &[Pass], span: Span) -> u64 {
        let sums = passes.iter().map(|first| {
            let within = |pass: &&Pass| {
                pass.tenant == first.tenant
                    && first.starts <= pass.starts
                    && pass.starts < first.starts.after(span)
            };
            passes.iter().filter(within).map(|pass| u64::from(pass.cost)).sum()
        });
        sums.max().unwrap_or(0)
    }

    #[test]
    fn the_busiest_span_is_the_one_that_trying_all_of_them_finds() {
        let mut rng = Rng::new(1);
        for _ in 0..3_000 {
            let passes = random_passes(&mut rng);
            let span = Span::from_micros(1 + rng.below(30));
            let most = busiest(&passes, span);
            assert_eq!(most.cells, naive(&passes, span));
            let inside = most.from..most.from.after(span);
            let again = passes.iter().filter(|pass| pass.tenant == most.tenant);
            let again = again.filter(|pass| inside.contains(&pass.starts));
            assert_eq!(again.map(|pass| u64::from(pass.cost)).sum::<u64>(), most.cells);
        }
    }

    #[test]
    fn the_span_does_not_hold_its_own_end() {
        let pass = |starts| Pass { starts: Tick::from_micros(starts), tenant: 0, cost: 1 };
        assert_eq!(busiest(&[pass(0), pass(10)], Span::from_micros(10)).cells, 1);
        assert_eq!(busiest(&[pass(0), pass(9)], Span::from_micros(10)).cells, 2);
    }

    #[test]
    fn the_level_peaks_at_the_busiest_span() {
        let mut rng = Rng::new(2);
        for _ in 0..1_000 {
            let mut passes = random_passes(&mut rng);
            passes.retain(|pass| pass.tenant == 0);
            let span = Span::from_micros(1 + rng.below(30));
            let curve = level(&passes, span, Span::from_micros(60), 7);
            assert_eq!(curve.into_iter().max(), Some(busiest(&passes, span).cells));
        }
    }
}
