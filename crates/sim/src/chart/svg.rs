//! A small writer of SVG: only the elements that the picture needs, and the same bytes every time.

use std::fmt::Write as _;

/// The families to draw text with, wherever the picture is opened.
const FONTS: &str = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// A document being written.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
}

/// A place in the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A rectangle in the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) color: &'static str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps, or nothing for a solid line.
    pub(super) dashes: &'static str,
}

/// How text is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) color: &'static str,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
}

/// Which end of a text stands at its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Part of a line of text, in its own color.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    pub(super) font: Font,
}

impl Svg {
    /// A white page of the given size. `title` is for those who cannot see it.
    pub(super) fn new(size: Area, title: &str) -> Svg {
        let (width, height) = (Number(size.width), Number(size.height));
        let mut svg = Svg { text: String::new() };
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONTS}\">"
        ));
        svg.put(format_args!("<title>{}</title>", Escaped(title)));
        svg.area(size, "#ffffff");
        svg
    }

    /// The whole document.
    pub(super) fn finish(mut self) -> String {
        self.put(format_args!("</svg>"));
        self.text
    }

    /// A filled rectangle.
    pub(super) fn area(&mut self, area: Area, fill: &str) {
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>",
            Number(area.left),
            Number(area.top),
            Number(area.width),
            Number(area.height),
        ));
    }

    /// A filled outline.
    pub(super) fn fill(&mut self, path: &Path, fill: &str) {
        if !path.0.is_empty() {
            self.put(format_args!("<path d=\"{}\" fill=\"{fill}\"/>", path.0));
        }
    }

    /// A line along an outline.
    pub(super) fn stroke(&mut self, path: &Path, stroke: Stroke) {
        if path.0.is_empty() {
            return;
        }
        let Stroke { color, width, dashes } = stroke;
        let dashes = match dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        self.put(format_args!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\" \
             stroke-linejoin=\"round\"{dashes}/>",
            path.0,
            Number(width),
        ));
    }

    /// A line of text.
    pub(super) fn text(&mut self, at: Point, text: &str, font: Font) {
        self.parts(at, &[Part { text, font }]);
    }

    /// A line of text in several fonts; the anchor is that of the first.
    pub(super) fn parts(&mut self, at: Point, parts: &[Part<'_>]) {
        let anchor = match parts.first().map(|part| part.font.anchor) {
            None | Some(Anchor::Start) => "",
            Some(Anchor::Middle) => " text-anchor=\"middle\"",
            Some(Anchor::End) => " text-anchor=\"end\"",
        };
        let mut spans = String::new();
        for (index, Part { text, font }) in parts.iter().enumerate() {
            let gap = if index == 0 { "" } else { " dx=\"10\"" };
            let weight = if font.bold { " font-weight=\"600\"" } else { "" };
            let (size, color, text) = (Number(font.size), font.color, Escaped(text));
            let _ = write!(
                spans,
                "<tspan{gap} font-size=\"{size}\"{weight} fill=\"{color}\">{text}</tspan>"
            );
        }
        let (x, y) = (Number(at.x), Number(at.y));
        self.put(format_args!("<text x=\"{x}\" y=\"{y}\"{anchor}>{spans}</text>"));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{element}");
    }
}

/// An outline being drawn.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Lifts the pen and puts it down at `to`.
    pub(super) fn start(&mut self, to: Point) -> &mut Path {
        let _ = write!(self.0, "M{} {}", Number(to.x), Number(to.y));
        self
    }

    /// A level line to `x`.
    pub(super) fn across(&mut self, x: f64) -> &mut Path {
        let _ = write!(self.0, "H{}", Number(x));
        self
    }

    /// An upright line to `y`.
    pub(super) fn up(&mut self, y: f64) -> &mut Path {
        let _ = write!(self.0, "V{}", Number(y));
        self
    }

    /// Back to where the pen was put down.
    pub(super) fn close(&mut self) -> &mut Path {
        self.0.push('Z');
        self
    }
}

/// A number with at most two decimals.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

/// Text as it has to be written inside an element.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            letter => f.write_char(letter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [1.0, 0.5, -0.001, 1.239, 100.0].map(|number| Number(number).to_string());
        assert_eq!(shown, ["1", "0.5", "0", "1.24", "100"]);
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(Escaped("a<b & c>").to_string(), "a&lt;b &amp; c&gt;");
    }
}
