//! A comparison as a picture: one panel for each algorithm, all over the same time.
//!
//! Bars show what was offered and what passed. The dark line shows what passed within the last
//! period, which is what a quota is about: wherever it rises above the quota, the gap is filled.

mod axis;
mod capacity;
mod color;
mod legend;
mod panel;
#[cfg(feature = "png")]
mod png;
mod sharing;
mod svg;
pub mod words;

use tidegate_core::Kind;

use crate::chart::panel::{Panel, Plot};
use crate::chart::svg::{Anchor, Area, Font, Point, Svg};
use crate::chart::words::{grouped, period, spaced};
use crate::report::{Comparison, Lane};
use crate::shape::Shape;

pub use self::capacity::draw_dip;
#[cfg(feature = "png")]
pub use self::png::{PngError, png};
pub use self::sharing::{draw_sharing, draw_sharing_small};

const WIDTH: f64 = 1_200.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
/// Where the first panel starts.
const TOP: f64 = 150.0;
/// The height of a panel with its words, and the gap below it.
const PANEL: f64 = 196.0;
/// The part of it that holds the words.
const WORDS: f64 = 50.0;
/// The part of it that holds the plot.
const PLOT: f64 = 118.0;
/// Room between two plots beside each other.
const GUTTER: f64 = 60.0;
/// Room for the time axis and the foot.
const FOOT: f64 = 46.0;

const TITLE: Font = Font { size: 25.0, color: color::INK, bold: true, anchor: Anchor::Start };
const PROSE: Font =
    Font { size: 14.5, color: color::QUIET_INK, bold: false, anchor: Anchor::Start };
const NOTE: Font = Font { size: 12.5, color: color::QUIET_INK, bold: false, anchor: Anchor::Start };

/// Draws `comparison` as an SVG document. The same comparison gives the same bytes.
pub fn draw(comparison: &Comparison) -> String {
    let count = count(&comparison.reports);
    let height = TOP + PANEL * f64::from(count) + FOOT - (PANEL - WORDS - PLOT) + 10.0;
    let page = Area { left: 0.0, top: 0.0, width: WIDTH, height };
    let title = title(comparison);
    let mut svg = Svg::new(page, &title);
    svg.text(Point { x: LEFT, y: 46.0 }, &title, TITLE);
    svg.text(Point { x: LEFT, y: 74.0 }, &subtitle(comparison), PROSE);
    legend::draw(&mut svg, comparison, Point { x: LEFT, y: 108.0 });
    let mosts = mosts(comparison);
    for (report, nth) in comparison.reports.iter().zip(0_u32..) {
        let top = TOP + PANEL * f64::from(nth);
        let plots = comparison.lanes.iter().zip(&report.lanes).zip(columns(comparison, top));
        let plots = plots.zip(&mosts).map(|(((lane, passed), area), most)| Plot {
            lane,
            passed,
            area,
            most: *most,
        });
        let panel = Panel { comparison, report, top, plots: plots.collect() };
        panel.draw(&mut svg);
        if nth + 1 == count {
            panel.time_labels(&mut svg);
        }
    }
    svg.finish()
}

/// Where the plots of the panel at `top` go: one for each lane.
fn columns(comparison: &Comparison, top: f64) -> impl Iterator<Item = Area> {
    let count = count(&comparison.lanes);
    let gutters = GUTTER * f64::from(count - 1);
    let width = (WIDTH - LEFT - RIGHT - gutters) / f64::from(count);
    (0..count).map(move |nth| Area {
        left: LEFT + (width + GUTTER) * f64::from(nth),
        top: top + WORDS,
        width,
        height: PLOT,
    })
}

/// The most cells that the plots of each lane have to show: the same for all panels, so that
/// heights can be compared. What was offered is cut off where it would dwarf everything else.
fn mosts(comparison: &Comparison) -> Vec<f64> {
    let quota = f64::from(comparison.scenario.quota.cells());
    let grid = &comparison.grid;
    let highest = |bars: &[u64]| grid.height(bars.iter().copied().max().unwrap_or(0));
    let most = |(index, lane): (usize, &Lane)| {
        let alone = lane.tenants == 1;
        let offered = highest(&lane.offered);
        let mut most: f64 = if alone { quota.max(offered.min(3.0 * quota)) } else { offered };
        for lane in comparison.reports.iter().map(|report| &report.lanes[index]) {
            most = most.max(highest(&lane.passed));
            let level = lane.level.iter().flatten().copied().max();
            most = most.max(real(level.unwrap_or(0)));
        }
        1.18 * most.max(1.0)
    };
    comparison.lanes.iter().enumerate().map(most).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture, to a hundredth of a unit")]
fn real(number: u64) -> f64 {
    number as f64
}

fn count<T>(few: &[T]) -> u32 {
    u32::try_from(few.len()).expect("a picture holds few of anything")
}

fn title(comparison: &Comparison) -> String {
    let quota = comparison.scenario.quota;
    let name = match comparison.scenario.shape {
        Shape::Steady => "A steady stream",
        Shape::BoundaryBurst => "A burst across a window's edge",
        Shape::IdleThenBurst => "A burst after a silence",
        Shape::OnOff => "On and off",
        Shape::Poisson => "Random arrivals",
        Shape::FlashCrowd => "A flash crowd",
        Shape::NoisyTenant => "One noisy tenant among quiet ones",
    };
    let (cells, per) = (grouped(quota.cells().into()), period(quota.per()));
    format!("{name}, against {cells} per {per}")
}

fn subtitle(comparison: &Comparison) -> String {
    let about = comparison.scenario.shape.about();
    let (first, rest) = about.split_at(1);
    let requests = grouped(comparison.requests);
    let cost = match comparison.scenario.cost {
        1 => String::new(),
        cost => format!(" of {} cells", grouped(cost.into())),
    };
    let hold = if comparison.reports.iter().any(|report| report.kind == Kind::Concurrency) {
        format!(" For concurrency, each is under way for {}.", spaced(comparison.hold))
    } else {
        String::new()
    };
    let duration = spaced(comparison.grid.duration);
    let first = first.to_uppercase();
    format!("{first}{rest}: {requests} requests{cost} in {duration}.{hold}")
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Policy, Quota, Span};

    use super::*;
    use crate::shape::Scenario;

    fn picture(shape: Shape) -> String {
        let quota = Quota::per_minute(100);
        let policies = Kind::ALL.map(|kind| Policy::new(kind, quota).unwrap());
        let scenario = Scenario { shape, quota, cost: 1, tenants: 5, duration: None, seed: 1 };
        draw(&Comparison::run(scenario, &policies, Span::from_secs(6)).unwrap())
    }

    #[test]
    fn every_shape_can_be_drawn_and_always_the_same() {
        for shape in Shape::ALL {
            let svg = picture(shape);
            assert_eq!(svg, picture(shape));
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
            for kind in Kind::ALL {
                assert!(svg.contains(&format!(">{kind}</tspan>")), "{kind} is missing");
            }
        }
    }

    #[cfg(feature = "png")]
    #[test]
    fn it_can_be_rendered() {
        let dots = png(&picture(Shape::NoisyTenant)).unwrap();
        assert_eq!(&dots[..8], b"\x89PNG\r\n\x1a\n");
    }
}
