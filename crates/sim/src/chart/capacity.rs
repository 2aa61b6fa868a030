//! A service that loses half of its workers, as a picture: for each guard, how many were in flight
//! beside how many the service can work on, and how long requests took.

use crate::adapt::{Dip, Guarded, Sample};
use crate::chart::svg::{Anchor, Area, Font, Part, Path, Point, Stroke, Svg};
use crate::chart::{LEFT, NOTE, PROSE, RIGHT, TITLE, WIDTH, color, count};

const TOP: f64 = 128.0;
const ROW: f64 = 236.0;
const PLOT: f64 = 138.0;
const WORDS: f64 = 46.0;
const GUTTER: f64 = 70.0;
/// What the left plots show at most, in requests.
const SLOTS_MAX: f64 = 220.0;
/// What the right plots show at most, in milliseconds.
const MILLIS_MAX: f64 = 60.0;
/// What cannot be had: the queue inside the service.
const QUEUED: &str = "#f3c9ad";

const LINE: Stroke = Stroke { color: color::PASSED, width: 2.0, dashes: "" };
const CAN: Stroke = Stroke { color: color::INK, width: 1.4, dashes: "6 4" };
const GRID: Stroke = Stroke { color: "#e6eaef", width: 1.0, dashes: "" };

/// Draws the story as an SVG document. The same story gives the same bytes.
pub fn draw_dip(dip: &Dip) -> String {
    let rows = f64::from(count(&dip.guards));
    let height = TOP + ROW * rows + 14.0;
    let title = "A service loses half of its workers for ten seconds";
    let mut svg = Svg::new(Area { left: 0.0, top: 0.0, width: WIDTH, height }, title);
    svg.text(Point { x: LEFT, y: 46.0 }, title, TITLE);
    let about = format!(
        "{} workers, 10 ms a request, asked for nine tenths of what they can do. What is in flight \
         beyond the workers only makes all of it slower.",
        Dip::WORKERS,
    );
    svg.text(Point { x: LEFT, y: 74.0 }, &about, PROSE);
    let mut top = TOP;
    for guarded in &dip.guards {
        row(&mut svg, dip, guarded, top);
        top += ROW;
    }
    svg.finish()
}

fn row(svg: &mut Svg, dip: &Dip, guarded: &Guarded, top: f64) {
    let name = Font { size: 17.0, color: color::INK, bold: true, anchor: Anchor::Start };
    let (title, about) = words(guarded.name);
    let parts = [Part { text: title, font: name }, Part { text: about, font: NOTE }];
    svg.parts(Point { x: LEFT, y: top + 8.0 }, &parts);
    verdict(svg, guarded, top);
    let width = (WIDTH - LEFT - RIGHT - GUTTER) / 2.0;
    let area = Area { left: LEFT, top: top + WORDS, width, height: PLOT };
    let left = Plot { area, most: SLOTS_MAX };
    left.ground(svg, &[0.0, 50.0, 100.0, 150.0, 200.0], "");
    left.caption(
        svg,
        "in flight; dashed: how many can be worked on at once; filled: those that only wait",
    );
    let samples = guarded.run.between(Dip::START, Dip::END);
    left.excess(svg, dip, samples);
    left.line(svg, samples, LINE, |_, sample| sample.in_flight);
    let workers = |at: f64, _: &Sample| f64::from(dip.scenario.workers_at(at));
    left.line(svg, samples, CAN, workers);
    left.beyond(svg, samples, |sample| sample.in_flight, |most| format!("up to {most:.0}"));
    let area = Area { left: LEFT + width + GUTTER, ..area };
    let right = Plot { area, most: MILLIS_MAX };
    right.ground(svg, &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0], " ms");
    right.caption(svg, "time inside the service; dashed: what a request takes");
    right.line(svg, samples, LINE, |_, sample| millis(sample));
    right.line(svg, samples, CAN, |_, _| 10.0);
    right.beyond(svg, samples, millis, |most| format!("up to {}", time(most)));
}

fn words(name: &str) -> (&'static str, &'static str) {
    match name {
        "none" => ("no limit", "everything is let in"),
        "envoy" => ("Envoy's gradient", "a published law, with its defaults"),
        _ => ("tidegate", "finds the limit by what is delivered"),
    }
}

fn verdict(svg: &mut Svg, guarded: &Guarded, top: f64) {
    let millis = 1e3 * guarded.latency_meanwhile();
    let ink = if millis < 12.5 { "#00704f" } else { "#b94700" };
    let loud = Font { size: 15.0, color: ink, bold: true, anchor: Anchor::End };
    let text = format!("with half the workers a request took {}", time(millis));
    svg.text(Point { x: WIDTH - RIGHT, y: top + 8.0 }, &text, loud);
}

/// The mean latency of what ended, in milliseconds.
fn millis(sample: &Sample) -> f64 {
    1e3 * sample.latency_sum / sample.ended.max(1.0)
}

fn time(millis: f64) -> String {
    if 1e3 <= millis { format!("{:.1} s", millis / 1e3) } else { format!("{millis:.0} ms") }
}

#[derive(Clone, Copy, Debug)]
struct Plot {
    area: Area,
    most: f64,
}

impl Plot {
    fn x(&self, at: f64) -> f64 {
        self.area.left + self.area.width * (at - Dip::START) / (Dip::END - Dip::START)
    }

    fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.area.height * (value / self.most).min(1.0)
    }

    /// Says how far a line goes that leaves the plot, beside where it does so.
    fn beyond(
        &self,
        svg: &mut Svg,
        samples: &[Sample],
        of: impl Fn(&Sample) -> f64,
        say: impl Fn(f64) -> String,
    ) {
        let most = samples.iter().map(&of).fold(0.0, f64::max);
        let leaves = self.columns(samples).filter(|(.., sample)| self.most < of(sample));
        // A few columns beyond are a peak: the words stand right of it.
        let edges: Vec<f64> = leaves.map(|(_, right, ..)| right).collect();
        let peak = edges.len() * 10 < samples.len();
        let Some(right) = (if peak { edges.last() } else { edges.first() }) else { return };
        let font = Font { size: 13.0, color: "#b94700", bold: true, anchor: Anchor::Start };
        svg.text(Point { x: right + 8.0, y: self.area.top + 18.0 }, &say(most), font);
    }

    fn caption(&self, svg: &mut Svg, text: &str) {
        svg.text(Point { x: self.area.left, y: self.area.top - 9.0 }, text, NOTE);
    }

    fn ground(&self, svg: &mut Svg, marks: &[f64], unit: &str) {
        svg.area(self.area, color::GROUND);
        for mark in marks {
            let y = self.y(*mark);
            let mut path = Path::default();
            path.start(Point { x: self.area.left, y }).across(self.area.right());
            svg.stroke(&path, GRID);
            let font = Font { anchor: Anchor::End, ..NOTE };
            svg.text(Point { x: self.area.left - 8.0, y: y + 4.0 }, &format!("{mark}{unit}"), font);
        }
        for (at, nth) in [15.0, 20.0, 25.0, 30.0, 35.0, 40.0].into_iter().zip(0_u32..) {
            let font = Font { anchor: Anchor::Middle, ..NOTE };
            let label = format!("{} s", 5 * nth);
            svg.text(Point { x: self.x(at), y: self.area.bottom() + 17.0 }, &label, font);
        }
    }

    /// Fills what is in flight beyond the workers.
    fn excess(&self, svg: &mut Svg, dip: &Dip, samples: &[Sample]) {
        let mut path = Path::default();
        for (left, right, at, sample) in self.columns(samples) {
            let workers = f64::from(dip.scenario.workers_at(at));
            if workers < sample.in_flight {
                path.start(Point { x: left, y: self.y(workers) });
                path.up(self.y(sample.in_flight)).across(right).up(self.y(workers)).close();
            }
        }
        svg.fill(&path, QUEUED);
    }

    fn line(
        &self,
        svg: &mut Svg,
        samples: &[Sample],
        ink: Stroke,
        of: impl Fn(f64, &Sample) -> f64,
    ) {
        let mut path = Path::default();
        for (left, right, at, sample) in self.columns(samples) {
            let y = self.y(of(at, sample));
            if left <= self.area.left {
                path.start(Point { x: left, y });
            }
            path.up(y).across(right);
        }
        svg.stroke(&path, ink);
    }

    /// Left edge, right edge, time and sample of each column.
    fn columns<'a>(
        &self,
        samples: &'a [Sample],
    ) -> impl Iterator<Item = (f64, f64, f64, &'a Sample)> {
        let columns = f64::from(count(samples));
        let (plot, step) = (*self, (Dip::END - Dip::START) / columns);
        samples.iter().zip(0_u32..).map(move |(sample, nth)| {
            let from = Dip::START + step * f64::from(nth);
            (plot.x(from), plot.x(from + step), from + step / 2.0, sample)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_drawn_the_same_every_time() {
        let svg = draw_dip(&Dip::run(1));
        assert_eq!(svg, draw_dip(&Dip::run(1)));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        for name in ["no limit", "Envoy's gradient", "tidegate"] {
            assert!(svg.contains(&format!(">{name}</tspan>")), "{name} is missing");
        }
    }
}
