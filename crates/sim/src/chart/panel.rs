//! One algorithm: its name and how it did, above what was offered and what passed.

use tidegate_core::{Kind, Span};

use crate::chart::axis::{cell_marks, round_marks, time_marks};
use crate::chart::legend::{EDGE, QUOTA, shows_edges};
use crate::chart::svg::{Anchor, Area, Font, Part, Path, Point, Stroke, Svg};
use crate::chart::words::{grouped, share, short, spaced, tagline, verdict};
use crate::chart::{LEFT, NOTE, RIGHT, WIDTH, color, real};
use crate::grid::Grid;
use crate::report::{Comparison, Lane, LaneReport, Report, Standing};

/// Everything that belongs to one algorithm.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) report: &'a Report,
    pub(super) top: f64,
    pub(super) plots: Vec<Plot<'a>>,
}

/// One lane of it.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    pub(super) lane: &'a Lane,
    pub(super) passed: &'a LaneReport,
    pub(super) area: Area,
    /// Cells at the top of the plot.
    pub(super) most: f64,
}

impl Panel<'_> {
    pub(super) fn draw(&self, svg: &mut Svg) {
        self.words(svg);
        for plot in &self.plots {
            plot.ground(svg, self.comparison);
            if let Some(level) = &plot.passed.level {
                plot.above(svg, level, 0, color::BELOW);
            }
            plot.edges(svg, self.comparison);
            plot.bars(svg, self.comparison);
            if let Some(level) = &plot.passed.level {
                let quota = u64::from(self.comparison.scenario.quota.cells());
                let burst = self.report.standing == Standing::Burst;
                let fill = if burst { color::BURST } else { color::EXCESS };
                plot.above(svg, level, quota, fill);
                plot.level(svg, level, &self.comparison.grid);
                plot.quota(svg, quota);
                self.bracket(svg, plot);
            }
        }
    }

    fn words(&self, svg: &mut Svg) {
        let report = self.report;
        let name = Font { size: 17.0, color: color::INK, bold: true, anchor: Anchor::Start };
        svg.parts(
            Point { x: LEFT, y: self.top + 18.0 },
            &[
                Part { text: report.kind.name(), font: name },
                Part { text: tagline(report.kind), font: Font { size: 13.5, ..NOTE } },
            ],
        );
        if self.plots.len() == 1 {
            svg.text(Point { x: LEFT, y: self.top + 39.0 }, &self.numbers(), NOTE);
        }
        let ink = color::ink_of(report.standing);
        let loud = Font { size: 15.0, color: ink, bold: true, anchor: Anchor::End };
        let right = WIDTH - RIGHT;
        svg.text(Point { x: right, y: self.top + 18.0 }, &verdict(self.comparison, report), loud);
        for plot in self.plots.iter().filter(|_| 1 < self.plots.len()) {
            svg.text(Point { x: plot.area.left, y: self.top + 39.0 }, &plot.name(), NOTE);
        }
    }

    fn numbers(&self) -> String {
        let (report, comparison) = (self.report, self.comparison);
        let (passed, offered) = (grouped(report.requests), grouped(comparison.requests));
        let smooth = 100.0 * report.smoothness;
        let mut text = format!("passed {passed} of {offered}");
        if 0 < report.delayed {
            let (delayed, most) = (grouped(report.delayed), waited(report.delay_max));
            text = format!("{text}, {delayed} of them after a wait of up to {most}");
        }
        let bytes = u64::try_from(report.state_bytes_max).expect("a size fits");
        format!("{text}  ·  smoothness {smooth:.0}%  ·  {} bytes per key", grouped(bytes))
    }

    /// Marks the busiest span where it held too much.
    fn bracket(&self, svg: &mut Svg, plot: &Plot<'_>) {
        let report = self.report;
        let loud = matches!(report.standing, Standing::Over | Standing::Burst);
        if !loud || report.worst.tenant != plot.lane.first || report.kind == Kind::Concurrency {
            return;
        }
        let duration = self.comparison.grid.duration;
        let from = Span::from_micros(report.worst.from.get());
        let to = Span::from_micros(report.worst.from.after(report.span).get()).min(duration);
        let (left, right) = (plot.x(from, duration), plot.x(to, duration));
        let y = plot.area.top + 8.0;
        let color = color::ink_of(report.standing);
        let mut path = Path::default();
        path.start(Point { x: left, y: y + 5.0 }).up(y - 1.0).across(right).up(y + 5.0);
        svg.stroke(&path, Stroke { color, width: 1.4, dashes: "" });
    }

    /// Writes the time below the plots; for the lowest panel.
    pub(super) fn time_labels(&self, svg: &mut Svg) {
        let duration = self.comparison.grid.duration;
        let font = Font { anchor: Anchor::Middle, ..NOTE };
        for plot in &self.plots {
            let y = plot.area.bottom() + 20.0;
            let marks = time_marks(duration);
            let every = if 1 < self.plots.len() { 2 } else { 1 };
            for (at, label) in marks.iter().step_by(every) {
                let x = plot.x(Span::from_micros(*at), duration);
                svg.text(Point { x, y }, label, font);
            }
        }
    }
}

impl Plot<'_> {
    fn x(&self, at: Span, duration: Span) -> f64 {
        self.area.left + self.area.width * real(at.get()) / real(duration.get().max(1))
    }

    fn y(&self, cells: f64) -> f64 {
        self.area.bottom() - self.area.height * (cells / self.most).min(1.0)
    }

    fn name(&self) -> String {
        let Lane { name, tenants, requests, .. } = self.lane;
        let refused = self.passed.refused;
        let share = share(refused, *requests);
        let (refused, requests) = (grouped(refused), grouped(*requests));
        let who = if *tenants == 1 {
            format!("The {name} tenant")
        } else {
            format!("The {} {name} tenants together", grouped((*tenants).into()))
        };
        format!("{who}: {refused} of {requests} refused ({share})")
    }

    /// The ground, and the marks of the cells.
    fn ground(&self, svg: &mut Svg, comparison: &Comparison) {
        svg.area(self.area, color::GROUND);
        let quota = u64::from(comparison.scenario.quota.cells());
        let alone = self.passed.level.is_some();
        let marks = if alone { cell_marks(quota, self.most) } else { round_marks(self.most) };
        for mark in marks {
            let y = self.y(real(mark));
            let mut path = Path::default();
            path.start(Point { x: self.area.left, y }).across(self.area.right());
            svg.stroke(&path, Stroke { color: "#e6eaef", width: 1.0, dashes: "" });
            let bold = alone && mark == quota;
            let ink = if bold { color::INK } else { color::QUIET_INK };
            let font = Font { anchor: Anchor::End, bold, color: ink, ..NOTE };
            let at = Point { x: self.area.left - 8.0, y: y + 4.0 };
            // Labels that would touch the quota's own are left out.
            if bold || !alone || 12.0 < (y - self.y(real(quota))).abs() {
                svg.text(at, &short(mark), font);
            }
        }
    }

    fn edges(&self, svg: &mut Svg, comparison: &Comparison) {
        let Grid { duration, per, .. } = comparison.grid;
        let edges = duration.get() / per.get().max(1);
        if shows_edges(&comparison.grid) {
            let mut path = Path::default();
            for nth in 1..=edges {
                let x = self.x(Span::from_micros(nth * per.get()), duration);
                path.start(Point { x, y: self.area.top }).up(self.area.bottom());
            }
            svg.stroke(&path, EDGE);
        }
    }

    fn bars(&self, svg: &mut Svg, comparison: &Comparison) {
        let Grid { duration, bar, .. } = comparison.grid;
        for (curve, fill) in
            [(&self.lane.offered, color::OFFERED), (&self.passed.passed, color::PASSED)]
        {
            let mut path = Path::default();
            for (cells, nth) in curve.iter().zip(0_u64..).filter(|(cells, _)| 0 < **cells) {
                let left = self.x(Span::from_micros(nth * bar.get()), duration);
                let end = Span::from_micros((nth + 1) * bar.get()).min(duration);
                let right = self.x(end, duration);
                let gap = ((right - left) / 10.0).min(1.0);
                // Even one cell among thousands is to be seen.
                let y = self.y(comparison.grid.height(*cells)).min(self.area.bottom() - 1.5);
                path.start(Point { x: left + gap, y: self.area.bottom() });
                path.up(y).across(right - gap).up(self.area.bottom()).close();
            }
            svg.fill(&path, fill);
        }
    }

    /// Fills what rises above `floor`.
    fn above(&self, svg: &mut Svg, level: &[u64], floor: u64, fill: &str) {
        let mut path = Path::default();
        let mut nth = 0;
        for run in level.chunk_by(|a, b| a == b) {
            let (left, right) = (self.column(nth), self.column(nth + run.len()));
            nth += run.len();
            if floor < run[0] {
                path.start(Point { x: left, y: self.y(real(floor)) });
                path.up(self.y(real(run[0]))).across(right).up(self.y(real(floor))).close();
            }
        }
        svg.fill(&path, fill);
    }

    fn level(&self, svg: &mut Svg, level: &[u64], grid: &Grid) {
        let mut path = Path::default();
        path.start(Point {
            x: self.area.left,
            y: self.y(real(level.first().copied().unwrap_or(0))),
        });
        let mut nth = 0;
        for run in level.chunk_by(|a, b| a == b) {
            nth += run.len();
            path.up(self.y(real(run[0]))).across(self.column(nth));
        }
        // Over many periods it goes up and down with hardly a gap.
        let width = if shows_edges(grid) { 1.8 } else { 0.8 };
        svg.stroke(&path, Stroke { color: color::LEVEL, width, dashes: "" });
    }

    fn quota(&self, svg: &mut Svg, quota: u64) {
        let mut path = Path::default();
        path.start(Point { x: self.area.left, y: self.y(real(quota)) }).across(self.area.right());
        svg.stroke(&path, QUOTA);
    }

    /// Where a column of a curve starts.
    fn column(&self, nth: usize) -> f64 {
        let part = |count: usize| u32::try_from(count).expect("at most Grid::COLUMNS");
        self.area.left + self.area.width * f64::from(part(nth)) / f64::from(part(Grid::COLUMNS))
    }
}

/// A wait, rounded up to something that can be read.
fn waited(span: Span) -> String {
    const TENTH: u64 = 100_000;
    match span.get() {
        0..TENTH => spaced(Span::from_micros(span.get().div_ceil(1_000) * 1_000)),
        micros => spaced(Span::from_micros(micros.div_ceil(TENTH) * TENTH)),
    }
}
