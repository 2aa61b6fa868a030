//! Who was served, over time, with one noisy tenant: one panel for each guard.
//!
//! What quiet tenants were served stands at the bottom, the noisy one on top of it. The dark line
//! is what the quiet ones asked for: where it lies above what they got, the gap is striped.

use crate::chart::svg::{Anchor, Area, Font, Part, Path, Point, Stroke, Svg};
use crate::chart::words::spaced;
use crate::chart::{LEFT, NOTE, PROSE, RIGHT, TITLE, WIDTH, color};
use crate::sharing::{Guard, Shared, Sharing, round};

const TOP: f64 = 160.0;
const PANEL: f64 = 232.0;
const WORDS: f64 = 50.0;
const PLOT: f64 = 146.0;
const FOOT: f64 = 30.0;
/// Requests a second at the top of a plot.
const MOST: f64 = 124.0;
/// Answers are averaged over so many spans to either side: a second in all.
const SMOOTH: usize = 2;

const NOISY: &str = "#e69f00";
const LOST: &str = "#d55e00";
const GOOD: &str = "#00704f";
const BAD: &str = "#b94700";
const STRONG: Font = Font { size: 17.0, color: color::INK, bold: true, anchor: Anchor::Start };

/// Draws it as an SVG document. The same run gives the same bytes.
pub fn draw_sharing(sharing: &Sharing) -> String {
    let height = TOP + PANEL * 3.0 + FOOT;
    let page = Area { left: 0.0, top: 0.0, width: WIDTH, height };
    let title = "One noisy tenant among ten: who is served?";
    let mut svg = Svg::new(page, title);
    svg.text(Point { x: LEFT, y: 46.0 }, title, TITLE);
    let (from, until) = Sharing::NOISY;
    let about = format!(
        "A service answers {} requests a second. Nine tenants ask for 8 a second each; the tenth \
         asks for {} from {from} s to {until} s. Everybody gives up after a second.",
        Sharing::CAPACITY,
        Sharing::NOISE,
    );
    svg.text(Point { x: LEFT, y: 74.0 }, &about, PROSE);
    legend(&mut svg, Point { x: LEFT, y: 112.0 });
    for (nth, shared) in (0_u8..).zip(&sharing.guards) {
        let top = TOP + PANEL * f64::from(nth);
        words(&mut svg, shared, top);
        let (left, width) = (LEFT, WIDTH - LEFT - RIGHT);
        let area = Area { left, top: top + WORDS, width, height: PLOT };
        Plot { area, sharing, shared, is_small: false }.draw(&mut svg);
    }
    svg.finish()
}

/// The three panels beside each other, on a page that is low enough to stand in a text.
pub fn draw_sharing_small(sharing: &Sharing) -> String {
    const WIDTH: f64 = 880.0;
    const EDGE: f64 = 40.0;
    const GAP: f64 = 16.0;
    let page = Area { left: 0.0, top: 0.0, width: WIDTH, height: 330.0 };
    let title = "One noisy tenant among ten: who is served?";
    let mut svg = Svg::new(page, title);
    svg.text(Point { x: EDGE, y: 34.0 }, title, Font { size: 20.0, ..TITLE });
    let (from, until) = Sharing::NOISY;
    let about = format!(
        "A service answers {} requests a second. Nine tenants ask for 8 a second each, the tenth \
         for {} from {from} s to {until} s.",
        Sharing::CAPACITY,
        Sharing::NOISE,
    );
    svg.text(Point { x: EDGE, y: 57.0 }, &about, PROSE);
    let entries = [
        (0.0, color::PASSED, "quiet tenants, served"),
        (180.0, NOISY, "the noisy tenant, served"),
        (380.0, LOST, "quiet requests without an answer"),
    ];
    for (x, fill, text) in entries {
        svg.area(Area { left: EDGE + x, top: 71.0, width: 14.0, height: 12.0 }, fill);
        svg.text(Point { x: EDGE + x + 21.0, y: 82.0 }, text, PROSE);
    }
    let x = EDGE + 640.0;
    let line = Stroke { color: color::LEVEL, width: 2.0, dashes: "" };
    svg.stroke(Path::default().start(Point { x, y: 77.0 }).across(x + 20.0), line);
    svg.text(Point { x: x + 26.0, y: 82.0 }, "asked for by the quiet", PROSE);
    let width = (WIDTH - EDGE - GAP - GAP * 2.0) / 3.0;
    for (nth, shared) in (0_u8..).zip(&sharing.guards) {
        let left = EDGE + (width + GAP) * f64::from(nth);
        let name = match shared.guard {
            Guard::Nothing => "Nothing",
            Guard::Limits => "A limit for each tenant",
            Guard::FairQueue => "Tidegate's fair share",
        };
        svg.text(Point { x: left, y: 120.0 }, name, STRONG);
        let [(served, is_served), (used, is_used)] = figures(shared);
        for (y, text, is_good) in [
            (140.0, format!("{served}% of quiet requests answered"), is_served),
            (158.0, format!("{used}% of the service used"), is_used),
        ] {
            let color = if is_good { GOOD } else { BAD };
            let font = Font { size: 14.5, color, bold: true, anchor: Anchor::Start };
            svg.text(Point { x: left, y }, &text, font);
        }
        let area = Area { left, top: 170.0, width, height: 126.0 };
        let plot = Plot { area, sharing, shared, is_small: true };
        plot.draw(&mut svg);
        if nth == 0 {
            plot.rates(&mut svg);
        }
    }
    svg.finish()
}

/// How many of the quiet requests were answered, and how much of the capacity was used, each in
/// percent and with whether that is good.
fn figures(shared: &Shared) -> [(u32, bool); 2] {
    let (from, until) = Sharing::NOISY;
    let percent = 100 * shared.quiet_answered / shared.quiet_asked.max(1);
    let used = shared.answered * 100 / ((until - from) * Sharing::CAPACITY);
    [percent, used].map(|figure| (figure, 95 <= figure))
}

fn legend(svg: &mut Svg, at: Point) {
    let swatch = |x, width| Area { left: x, top: at.y - 11.0, width, height: 14.0 };
    let entries = [
        (0.0, color::PASSED, "nine quiet tenants, served"),
        (245.0, NOISY, "the noisy tenant, served"),
        (470.0, color::GROUND, "quiet requests that were not answered"),
    ];
    for (x, fill, text) in entries {
        svg.area(swatch(at.x + x, 14.0), fill);
        svg.text(Point { x: at.x + x + 21.0, y: at.y + 1.0 }, text, PROSE);
    }
    for stripe in [0.0, 5.0, 10.0] {
        svg.area(swatch(at.x + 470.0 + stripe, 2.6), LOST);
    }
    let x = at.x + 770.0;
    let line = Stroke { color: color::LEVEL, width: 2.0, dashes: "" };
    svg.stroke(Path::default().start(Point { x: x + 20.0, y: at.y - 4.0 }).across(x + 42.0), line);
    svg.text(Point { x: x + 50.0, y: at.y + 1.0 }, "what quiet tenants asked for", PROSE);
}

/// What the panel shows, in words and two numbers.
fn words(svg: &mut Svg, shared: &Shared, top: f64) {
    let (name, about) = match shared.guard {
        Guard::Nothing => ("Nothing", "first come, first served: whoever asks most gets most"),
        Guard::Limits => {
            ("Plain limits", "ten a second each: the quiet are safe, and what they leave is wasted")
        }
        Guard::FairQueue => {
            ("Fair queue", "the quiet get all they ask for, and the noisy one gets the rest")
        }
    };
    let at = Point { x: LEFT, y: top + 20.0 };
    svg.parts(at, &[Part { text: name, font: STRONG }, Part { text: about, font: PROSE }]);
    let [(percent, is_served), (used, is_used)] = figures(shared);
    let font = |is_good| {
        let color = if is_good { GOOD } else { BAD };
        Font { size: 14.5, color, bold: true, anchor: Anchor::Start }
    };
    let served = format!("quiet requests answered during the noise: {percent}%");
    let capacity = format!("capacity used: {used}%");
    let wait = format!("99 of 100 of them waited less than {}", spaced(round(shared.quiet_wait)));
    let parts = [
        Part { text: &served, font: font(is_served) },
        Part { text: &capacity, font: font(is_used) },
        Part { text: &wait, font: NOTE },
    ];
    svg.parts(Point { x: LEFT, y: top + 41.0 }, &parts);
}

struct Plot<'a> {
    area: Area,
    sharing: &'a Sharing,
    shared: &'a Shared,
    is_small: bool,
}

impl Plot<'_> {
    fn draw(&self, svg: &mut Svg) {
        svg.area(self.area, color::GROUND);
        let quiet = smooth(&self.shared.quiet);
        let noisy = smooth(&self.shared.noisy);
        let both: Vec<f64> = quiet.iter().zip(&noisy).map(|(one, other)| one + other).collect();
        let asked = smooth(&self.sharing.asked);
        let zero = vec![0.0; quiet.len()];
        svg.fill(&self.between(&zero, &quiet), color::PASSED);
        svg.fill(&self.between(&quiet, &both), NOISY);
        // Answers come later than questions: only a real gap is one.
        let lost: Vec<f64> = quiet
            .iter()
            .zip(&asked)
            .map(|(got, asked)| if got + 12.0 < *asked { *asked } else { *got })
            .collect();
        svg.fill(&self.stripes(&quiet, &lost), LOST);
        let line = Stroke { color: color::LEVEL, width: 2.0, dashes: "" };
        svg.stroke(&self.steps(&asked), line);
        if self.is_small {
            return self.noise(svg);
        }
        self.capacity(svg);
        self.axes(svg);
    }

    /// From when until when it is noisy, and where the capacity ends.
    fn noise(&self, svg: &mut Svg) {
        let line = Stroke { color: color::QUOTA, width: 1.2, dashes: "5 4" };
        let start = Point { x: self.area.left, y: self.y(f64::from(Sharing::CAPACITY)) };
        svg.stroke(Path::default().start(start).across(self.area.right()), line);
        let (from, until) = Sharing::NOISY;
        for second in [from, until] {
            let x = self.x(f64::from(second));
            let line = Stroke { color: color::QUIET_INK, width: 1.0, dashes: "2 3" };
            let top = Point { x, y: self.area.top };
            svg.stroke(Path::default().start(top).up(self.area.bottom()), line);
        }
        let x = self.x(f64::midpoint(f64::from(from), f64::from(until)));
        let font = Font { anchor: Anchor::Middle, ..NOTE };
        svg.text(Point { x, y: self.area.bottom() + 17.0 }, "one tenant is noisy", font);
    }

    fn capacity(&self, svg: &mut Svg) {
        let y = self.y(f64::from(Sharing::CAPACITY));
        let line = Stroke { color: color::QUOTA, width: 1.2, dashes: "5 4" };
        let start = Point { x: self.area.left, y };
        svg.stroke(Path::default().start(start).across(self.area.right()), line);
        let font = Font { anchor: Anchor::End, ..NOTE };
        svg.text(Point { x: self.area.right() - 4.0, y: y - 6.0 }, "capacity", font);
        if self.shared.guard == Guard::Limits {
            let (from, until) = Sharing::ASLEEP;
            let x = self.x(f64::midpoint(f64::from(from), f64::from(until)));
            let font = Font { size: 14.5, color: "#b94700", bold: true, anchor: Anchor::Middle };
            svg.text(Point { x, y: self.y(72.0) }, "unused, while requests are refused", font);
        }
    }

    fn axes(&self, svg: &mut Svg) {
        let edge = Stroke { color: color::EDGE, width: 1.0, dashes: "" };
        let below = Point { x: self.area.left, y: self.area.bottom() };
        svg.stroke(Path::default().start(below).across(self.area.right()), edge);
        self.rates(svg);
        let (noise, end) = Sharing::NOISY;
        let (asleep, _) = Sharing::ASLEEP;
        let marks = [
            (noise, "the noise begins"),
            (asleep, "four others fall asleep"),
            (end, "all as before"),
        ];
        for (second, text) in marks {
            let x = self.x(f64::from(second));
            let line = Stroke { color: color::QUIET_INK, width: 1.0, dashes: "2 3" };
            let path = &mut Path::default();
            svg.stroke(path.start(Point { x, y: self.area.top }).up(self.area.bottom()), line);
            let text = format!("{second} s: {text}");
            svg.text(Point { x: x + 4.0, y: self.area.bottom() + 17.0 }, &text, NOTE);
        }
        svg.text(Point { x: self.area.left, y: self.area.bottom() + 17.0 }, "0 s", NOTE);
        let font = Font { anchor: Anchor::End, ..NOTE };
        let end = format!("{} s", Sharing::SECONDS);
        svg.text(Point { x: self.area.right(), y: self.area.bottom() + 17.0 }, &end, font);
    }

    fn rates(&self, svg: &mut Svg) {
        for mark in [0.0, 50.0, 100.0] {
            let font = Font { anchor: Anchor::End, ..NOTE };
            let left = if self.is_small { self.area.left - 4.0 } else { self.area.left - 8.0 };
            svg.text(Point { x: left, y: self.y(mark) + 4.0 }, &format!("{mark:.0}/s"), font);
        }
    }

    /// The outline between two curves.
    fn between(&self, low: &[f64], high: &[f64]) -> Path {
        let mut path = Path::default();
        for (index, (low, high)) in (0_u32..).zip(low.iter().zip(high)) {
            let (left, right) = self.edges(index);
            if low < high {
                path.start(Point { x: left, y: self.y(*low) });
                path.up(self.y(*high)).across(right).up(self.y(*low)).close();
            }
        }
        path
    }

    /// The area between two curves in stripes, which let what is behind them be seen.
    fn stripes(&self, low: &[f64], high: &[f64]) -> Path {
        let mut path = Path::default();
        for (index, (low, high)) in (0_u32..).zip(low.iter().zip(high)) {
            let (left, right) = self.edges(index);
            if low < high {
                let (left, right) =
                    (f64::midpoint(left, right) - 1.3, f64::midpoint(left, right) + 1.3);
                path.start(Point { x: left, y: self.y(*low) });
                path.up(self.y(*high)).across(right).up(self.y(*low)).close();
            }
        }
        path
    }

    fn steps(&self, values: &[f64]) -> Path {
        let mut path = Path::default();
        for (index, value) in (0_u32..).zip(values) {
            let (left, right) = self.edges(index);
            if index == 0 {
                path.start(Point { x: left, y: self.y(*value) });
            }
            path.up(self.y(*value)).across(right);
        }
        path
    }

    fn edges(&self, index: u32) -> (f64, f64) {
        let second = |index: u32| f64::from(index) / f64::from(Sharing::SPANS);
        // A hair over, so that neighbors leave no gap.
        (self.x(second(index)), self.x(second(index + 1)) + 0.3)
    }

    fn x(&self, second: f64) -> f64 {
        self.area.left + self.area.width * second / f64::from(Sharing::SECONDS)
    }

    fn y(&self, rate: f64) -> f64 {
        self.area.bottom() - self.area.height * (rate / MOST).min(1.0)
    }
}

/// Counts as rates, each averaged with its neighbors.
fn smooth(counts: &[u32]) -> Vec<f64> {
    let around = |at: usize| &counts[at.saturating_sub(SMOOTH)..counts.len().min(at + SMOOTH + 1)];
    let mean = |some: &[u32]| {
        let sum: u32 = some.iter().sum();
        f64::from(sum) * f64::from(Sharing::SPANS)
            / f64::from(u32::try_from(some.len()).unwrap_or(1))
    };
    (0..counts.len()).map(|at| mean(around(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_drawn_and_always_the_same() {
        for draw in [draw_sharing, draw_sharing_small] {
            let svg = draw(&Sharing::run(1));
            assert_eq!(svg, draw(&Sharing::run(1)));
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
