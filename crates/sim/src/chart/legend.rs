//! What the colors and lines of the picture mean.

use tidegate_core::Kind;

use crate::chart::NOTE;
use crate::chart::color;
use crate::chart::svg::{Area, Path, Point, Stroke, Svg};
use crate::chart::words::{period, spaced};
use crate::grid::Grid;
use crate::report::{Comparison, Standing};

/// The sample beside a word of the legend.
#[derive(Clone, Copy, Debug)]
enum Sample {
    Block(&'static str),
    Line(Stroke),
}

/// Draws the legend from `at` to the right.
pub(super) fn draw(svg: &mut Svg, comparison: &Comparison, at: Point) {
    let mut x = at.x;
    for (sample, words) in entries(comparison) {
        match sample {
            Sample::Block(fill) => {
                svg.area(Area { left: x, top: at.y - 10.0, width: 14.0, height: 12.0 }, fill);
            }
            Sample::Line(stroke) => {
                let mut path = Path::default();
                path.start(Point { x: x - 4.0, y: at.y - 4.0 }).across(x + 16.0);
                svg.stroke(&path, stroke);
            }
        }
        svg.text(Point { x: x + 21.0, y: at.y }, &words, NOTE);
        x += 21.0 + words.chars().map(letter_width).sum::<f64>() + 24.0;
    }
}

/// About how wide a letter of the legend is.
fn letter_width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | ',' | '.' => 4.2,
        'm' | 'w' => 10.0,
        _ => 7.2,
    }
}

fn entries(comparison: &Comparison) -> Vec<(Sample, String)> {
    let per = period(comparison.grid.per);
    let bar = if comparison.grid.per < comparison.grid.bar {
        format!("{per}, mean of {}", spaced(comparison.grid.bar))
    } else {
        spaced(comparison.grid.bar)
    };
    let solid = Stroke { color: color::LEVEL, width: 1.8, dashes: "" };
    let mut entries = vec![
        (Sample::Block(color::OFFERED), format!("offered per {bar}")),
        (Sample::Block(color::PASSED), format!("passed per {bar}")),
    ];
    let concurrency = |kind| kind == Kind::Concurrency;
    let rates = comparison.reports.iter().any(|report| !concurrency(report.kind));
    let flights = comparison.reports.iter().any(|report| concurrency(report.kind));
    entries.push((
        Sample::Line(solid),
        match (rates, flights) {
            (true, true) => format!("passed in the last {per}, or in flight"),
            (false, true) => "in flight".to_owned(),
            _ => format!("passed in the last {per}"),
        },
    ));
    entries.push((Sample::Line(QUOTA), "quota".to_owned()));
    let has = |standing| comparison.reports.iter().any(|report| report.standing == standing);
    if has(Standing::Over) || has(Standing::Close) {
        entries.push((Sample::Block(color::EXCESS), "above the quota".to_owned()));
    }
    if has(Standing::Burst) {
        entries.push((Sample::Block(color::BURST), "covered by the burst".to_owned()));
    }
    if shows_edges(&comparison.grid) {
        entries.push((Sample::Line(EDGE), "edge of a window".to_owned()));
    }
    entries
}

/// Whether there are few enough windows to show their edges: more than these are a carpet.
pub(super) fn shows_edges(grid: &Grid) -> bool {
    grid.duration.get() / grid.per.get().max(1) <= 40
}

/// How the quota is drawn.
pub(super) const QUOTA: Stroke = Stroke { color: color::QUOTA, width: 1.0, dashes: "7 4" };

/// How edges of windows are drawn.
pub(super) const EDGE: Stroke = Stroke { color: color::EDGE, width: 1.0, dashes: "2 3" };
