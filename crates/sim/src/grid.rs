//! How time is cut up for a picture: bars to count in, and edges of windows to show.

use tidegate_core::{Span, Tick};

/// A duration cut into bars of equal length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grid {
    /// How long it all lasts.
    pub duration: Span,
    /// How long one bar lasts.
    pub bar: Span,
    /// The quota's period: windows start at its multiples.
    pub per: Span,
}

impl Grid {
    /// Parts into which a curve is cut, whatever the duration.
    pub const COLUMNS: usize = 1_080;

    /// The most bars that can be told apart.
    const BARS_MAX: u64 = 120;

    /// Bars of a twelfth or a tenth of `per`, or longer ones where those would be too many.
    pub fn new(per: Span, duration: Span) -> Grid {
        // Divisors of a period, so that bars of up to a period end where the period does.
        let parts: &[u64] =
            if per.get().is_multiple_of(12) { &[12, 6, 4, 3, 2, 1] } else { &[10, 5, 2, 1] };
        let mut bars = parts.iter().map(|parts| (per.get() / parts).max(1));
        let fits = |bar: &u64| duration.get().div_ceil(*bar) <= Grid::BARS_MAX;
        let bar = bars.find(fits).unwrap_or_else(|| {
            let periods = duration.get().div_ceil(per.get().max(1)).div_ceil(Grid::BARS_MAX);
            per.get().max(1) * periods.max(1)
        });
        Grid { duration, bar: Span::from_micros(bar), per }
    }

    /// Sums `cells` by bar. What comes after the end is left out.
    pub fn bars(&self, cells: impl Iterator<Item = (Tick, u32)>) -> Vec<u64> {
        let mut bars = vec![0; self.length()];
        for (at, cost) in cells {
            let index = usize::try_from(at.get() / self.bar.get()).unwrap_or(usize::MAX);
            if let Some(bar) = bars.get_mut(index) {
                *bar += u64::from(cost);
            }
        }
        bars
    }

    /// How high the bar of `cells` is drawn. One that is longer than a period shows the mean of a
    /// period, so that it can be compared with the quota.
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    pub(crate) fn height(&self, cells: u64) -> f64 {
        let periods = self.bar.get() as f64 / self.per.get().max(1) as f64;
        cells as f64 / periods.max(1.0)
    }

    fn length(&self) -> usize {
        let bars = self.duration.get().div_ceil(self.bar.get());
        usize::try_from(bars).expect("at most Grid::BARS_MAX")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(per: Span, duration: Span, bar: Span) {
        let grid = Grid::new(per, duration);
        assert_eq!(grid.bar, bar);
        let bars = grid.bars(std::iter::empty()).len();
        assert!((1..=120).contains(&bars), "{bars} bars");
    }

    #[test]
    fn bars_are_parts_of_a_period_until_there_are_too_many() {
        let minute = Span::from_secs(60);
        check(minute, Span::from_secs(240), Span::from_secs(5));
        check(minute, Span::from_secs(10 * 60), Span::from_secs(5));
        check(minute, Span::from_secs(11 * 60), Span::from_secs(10));
        check(minute, Span::from_secs(120 * 60), Span::from_secs(60));
        check(minute, Span::from_secs(121 * 60), Span::from_secs(120));
        check(Span::from_secs(1), Span::from_secs(4), Span::from_millis(100));
        check(Span::from_micros(1), Span::from_micros(4), Span::from_micros(1));
    }

    #[test]
    fn long_bars_show_the_mean_of_a_period() {
        // Bars of nine seconds, over which 27 cells are three a second.
        let grid = Grid::new(Span::from_secs(1), Span::from_secs(1_000));
        assert_eq!(grid.height(27).to_string(), "3");
        let grid = Grid::new(Span::from_secs(1), Span::from_secs(4));
        assert_eq!(grid.height(27).to_string(), "27");
    }

    #[test]
    fn cells_are_counted_where_they_start() {
        let grid = Grid::new(Span::from_secs(12), Span::from_secs(3));
        let at = |millis: u64| (Tick::from_micros(millis * 1_000), 2);
        assert_eq!(grid.bars([at(0), at(999), at(1_000), at(3_000)].into_iter()), [4, 2, 0]);
    }
}
