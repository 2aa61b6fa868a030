//! What happened, as data: one [`Report`] for each policy, and what they share.

use tidegate_core::{Kind, Policy, Quota, Span};

use crate::busiest::{Busiest, busiest, level};
use crate::grid::Grid;
use crate::run::{Outcome, Pass, run};
use crate::shape::{Scenario, Shape};
use crate::trace::{Trace, TraceError};

/// Several policies over the same trace.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What the trace was made from.
    pub scenario: Scenario,
    /// How long a request is under way, for [`Kind::Concurrency`].
    pub hold: Span,
    /// Requests offered.
    pub requests: u64,
    /// Cells offered.
    pub cells: u64,
    /// How time is cut up in the curves below.
    pub grid: Grid,
    /// Whose traffic is shown apart, and what it offered.
    pub lanes: Vec<Lane>,
    /// What each policy did.
    pub reports: Vec<Report>,
}

/// Tenants that are shown together.
#[derive(Clone, Debug)]
pub struct Lane {
    /// What they are called.
    pub name: &'static str,
    /// The first of them.
    pub first: u32,
    /// How many there are.
    pub tenants: u32,
    /// Requests that they made.
    pub requests: u64,
    /// Cells offered in each bar of the grid.
    pub offered: Vec<u64>,
}

/// What one policy did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which algorithm it was.
    pub kind: Kind,
    /// The most cells that it lets pass at once.
    pub limit: u32,
    /// Requests that passed.
    pub requests: u64,
    /// Cells that passed.
    pub cells: u64,
    /// How many requests had to wait.
    pub delayed: u64,
    /// The longest that any of them had to wait.
    pub delay_max: Span,
    /// The length of the span that the limit is about: a period, or one request under way.
    pub span: Span,
    /// The busiest such span of any tenant.
    pub worst: Busiest,
    /// How that compares with the quota.
    pub standing: Standing,
    /// How even the output was: 1 is even, 0.1 is a whole quota in a tenth of a period.
    pub smoothness: f64,
    /// Bytes that the largest state of any tenant took at any time.
    pub state_bytes_max: usize,
    /// What passed in each lane.
    pub lanes: Vec<LaneReport>,
}

/// What passed in one lane.
#[derive(Clone, Debug)]
pub struct LaneReport {
    /// Requests that were refused.
    pub refused: u64,
    /// Cells that started in each bar of the grid.
    pub passed: Vec<u64>,
    /// Cells that started within the last span, where the lane is a single tenant.
    pub level: Option<Vec<u64>>,
}

/// How the busiest span compares with the quota.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It never held more than the quota.
    Kept,
    /// It held up to a tenth more.
    Close,
    /// It held more, as a bucket may: no more than a burst and one period's cells.
    Burst,
    /// It held more than a tenth more, and no burst was asked for.
    Over,
}

impl Standing {
    /// The standing of `cells` in the busiest span, under `kind` with `quota`.
    fn of(kind: Kind, limit: u32, quota: Quota, cells: u64) -> Standing {
        let quota = u64::from(quota.cells());
        if cells <= quota {
            Standing::Kept
        } else if cells <= quota + quota / 10 {
            Standing::Close
        } else if kind.has_burst() && cells <= quota + u64::from(limit) {
            Standing::Burst
        } else {
            Standing::Over
        }
    }

    /// The standing in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Standing::Kept => "kept",
            Standing::Close => "close",
            Standing::Burst => "burst",
            Standing::Over => "over",
        }
    }
}

impl Comparison {
    /// Runs every one of `policies` over the trace of `scenario`.
    pub fn run(
        scenario: Scenario,
        policies: &[Policy],
        hold: Span,
    ) -> Result<Comparison, TraceError> {
        let trace = scenario.trace()?;
        let grid = Grid::new(scenario.quota.per(), trace.duration());
        let hold = hold.min(scenario.quota.per()).max(Span::from_micros(1));
        let mut comparison = Comparison {
            scenario,
            hold,
            requests: count(trace.requests().len()),
            cells: trace.requests().iter().map(|request| u64::from(request.cost)).sum(),
            grid,
            lanes: lanes(scenario.shape, &trace, &grid),
            reports: Vec::new(),
        };
        for policy in policies {
            let outcome = run(policy, &trace, hold);
            let report = comparison.report(policy, &outcome);
            comparison.reports.push(report);
        }
        Ok(comparison)
    }

    fn report(&self, policy: &Policy, outcome: &Outcome) -> Report {
        let quota = self.scenario.quota;
        let span = if policy.kind() == Kind::Concurrency { self.hold } else { quota.per() };
        let worst = busiest(&outcome.passes, span);
        Report {
            kind: policy.kind(),
            limit: policy.limit(),
            requests: count(outcome.passes.len()),
            cells: cells(&outcome.passes),
            delayed: outcome.delayed,
            delay_max: outcome.delay_max,
            span,
            worst,
            standing: Standing::of(policy.kind(), policy.limit(), quota, worst.cells),
            smoothness: smoothness(&outcome.passes, quota, self.scenario.cost),
            state_bytes_max: outcome.state_bytes_max,
            lanes: self.lanes.iter().map(|lane| lane.report(outcome, span, &self.grid)).collect(),
        }
    }

    /// How many times the quota the busiest span of `report` held.
    pub fn ratio(&self, report: &Report) -> f64 {
        ratio(report.worst.cells, u64::from(self.scenario.quota.cells()))
    }

    /// The lane of the quiet tenants and what `report` says of it, if there are any.
    pub fn quiet<'a>(&'a self, report: &'a Report) -> Option<(&'a Lane, &'a LaneReport)> {
        self.lanes.get(1).zip(report.lanes.get(1))
    }
}

impl Report {
    /// Cells that the busiest span held beyond `quota`.
    pub fn excess(&self, quota: Quota) -> u64 {
        self.worst.cells.saturating_sub(u64::from(quota.cells()))
    }
}

impl Lane {
    fn holds(&self, tenant: u32) -> bool {
        (self.first..self.first + self.tenants).contains(&tenant)
    }

    fn report(&self, outcome: &Outcome, span: Span, grid: &Grid) -> LaneReport {
        let from = outcome.passes.partition_point(|pass| pass.tenant < self.first);
        let own = &outcome.passes[from..];
        let own = &own[..own.partition_point(|pass| self.holds(pass.tenant))];
        let refused = outcome.refused.iter().zip(0..).filter(|(_, tenant)| self.holds(*tenant));
        LaneReport {
            refused: refused.map(|(refused, _)| refused).sum(),
            passed: grid.bars(own.iter().map(|pass| (pass.starts, pass.cost))),
            level: (self.tenants == 1).then(|| level(own, span, grid.duration, Grid::COLUMNS)),
        }
    }
}

/// One lane for all; or, where one tenant is noisy, that one and the others.
fn lanes(shape: Shape, trace: &Trace, grid: &Grid) -> Vec<Lane> {
    let lane = |name, first, tenants| {
        let mut lane = Lane { name, first, tenants, requests: 0, offered: Vec::new() };
        let own = || trace.requests().iter().filter(|request| lane.holds(request.tenant));
        let requests = count(own().count());
        let offered = grid.bars(own().map(|request| (request.at, request.cost)));
        (lane.requests, lane.offered) = (requests, offered);
        lane
    };
    if shape == Shape::NoisyTenant {
        vec![lane("noisy", 0, 1), lane("quiet", 1, trace.tenants() - 1)]
    } else {
        vec![lane("all", 0, trace.tenants())]
    }
}

/// An even tenth of the quota, divided by the busiest tenth of a period; at most 1.
///
/// An even tenth is rounded up to whole requests: nothing comes more evenly than one at a time.
fn smoothness(passes: &[Pass], quota: Quota, cost: u32) -> f64 {
    let cost = u64::from(cost.max(1));
    let even = cost * u64::from(quota.cells()).div_ceil(10 * cost);
    let tenth = Span::from_micros((quota.per().get() / 10).max(1));
    ratio(even, busiest(passes, tenth).cells).min(1.0)
}

fn cells(passes: &[Pass]) -> u64 {
    passes.iter().map(|pass| u64::from(pass.cost)).sum()
}

fn count(length: usize) -> u64 {
    u64::try_from(length).expect("a length fits")
}

/// `a / b`, and 1 where both are nothing.
#[expect(clippy::cast_precision_loss, reason = "for people to read, to three digits")]
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(shape: Shape, kinds: &[Kind]) -> Comparison {
        let quota = Quota::per_minute(100);
        let policies = kinds.iter().map(|kind| Policy::new(*kind, quota).unwrap());
        let scenario = Scenario { shape, quota, cost: 1, tenants: 5, duration: None, seed: 1 };
        Comparison::run(scenario, &policies.collect::<Vec<_>>(), Span::from_secs(12)).unwrap()
    }

    #[track_caller]
    fn check(kind: Kind, cells: u64, standing: Standing) {
        assert_eq!(Standing::of(kind, 50, Quota::per_minute(100), cells), standing);
    }

    #[test]
    fn a_standing_is_what_the_quota_and_the_burst_say() {
        check(Kind::FixedWindow, 100, Standing::Kept);
        check(Kind::FixedWindow, 101, Standing::Close);
        check(Kind::FixedWindow, 110, Standing::Close);
        check(Kind::FixedWindow, 111, Standing::Over);
        check(Kind::TokenBucket, 111, Standing::Burst);
        check(Kind::TokenBucket, 150, Standing::Burst);
        check(Kind::TokenBucket, 151, Standing::Over);
    }

    #[test]
    fn the_default_comparison_tells_the_story() {
        let kinds = [Kind::FixedWindow, Kind::SlidingLog, Kind::LeakyQueue];
        let comparison = compare(Shape::BoundaryBurst, &kinds);
        let worst = comparison.reports.iter().map(|report| report.worst.cells);
        assert_eq!(worst.collect::<Vec<_>>(), [200, 100, 100]);
        let smooth = |report: &Report| format!("{:.2}", report.smoothness);
        let smooth = comparison.reports.iter().map(smooth);
        assert_eq!(smooth.collect::<Vec<_>>(), ["0.05", "0.10", "1.00"]);
        let fixed = &comparison.reports[0];
        assert_eq!(fixed.worst.from.get(), 59_000_000);
        assert_eq!(fixed.excess(comparison.scenario.quota), 100);
    }

    #[test]
    fn concurrency_is_measured_by_what_is_in_flight() {
        let comparison = compare(Shape::FlashCrowd, &[Kind::Concurrency]);
        let report = &comparison.reports[0];
        assert_eq!((report.span, report.worst.cells), (Span::from_secs(12), 100));
        assert_eq!(report.standing, Standing::Kept);
    }

    #[test]
    fn nothing_is_smoother_than_one_request_at_a_time() {
        let every_third = |nth: u64| Pass {
            starts: tidegate_core::Tick::from_micros(nth * 20_000_000),
            tenant: 0,
            cost: 1,
        };
        let passes: Vec<Pass> = (0..9).map(every_third).collect();
        let smoothness = smoothness(&passes, Quota::per_minute(3), 1);
        assert_eq!(smoothness.to_string(), "1");
    }

    #[test]
    fn lanes_hold_every_request_once() {
        let comparison = compare(Shape::NoisyTenant, &Kind::ALL);
        assert_eq!(comparison.lanes.iter().map(|lane| lane.tenants).collect::<Vec<_>>(), [1, 4]);
        let requests: u64 = comparison.lanes.iter().map(|lane| lane.requests).sum();
        assert_eq!(requests, comparison.requests);
        for report in &comparison.reports {
            let refused: u64 = report.lanes.iter().map(|lane| lane.refused).sum();
            assert_eq!(report.requests + refused, comparison.requests, "{}", report.kind);
            let passed: u64 = report.lanes.iter().flat_map(|lane| &lane.passed).sum();
            // What a queue holds back may start after the end.
            let shown = passed == report.cells || report.kind == Kind::LeakyQueue;
            assert!(shown, "{}: {passed} of {}", report.kind, report.cells);
        }
    }
}
