//! Prometheus's text format, version 0.0.4.

use std::fmt::Write as _;

use super::histogram::Reading;
use super::seconds;

/// The media type of what [`Text`] writes.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics that is being written.
#[derive(Debug, Default)]
pub(crate) struct Text {
    page: String,
    family: String,
}

/// What kind of metric a family is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Text {
    /// Begins a family: what follows are its values.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        name.clone_into(&mut self.family);
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail; so everywhere here.
        let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One value of the family.
    pub(crate) fn value(&mut self, labels: &[(&str, &str)], value: u64) {
        self.line("", labels, None, &value.to_string());
    }

    /// One value of the family that is no whole number.
    pub(crate) fn number(&mut self, labels: &[(&str, &str)], value: &str) {
        self.line("", labels, None, value);
    }

    /// The values of a histogram.
    pub(crate) fn histogram(&mut self, labels: &[(&str, &str)], read: Reading<'_>) {
        let mut below = 0;
        for (count, bound) in read.buckets.iter().zip(read.bounds) {
            below += count;
            self.line("_bucket", labels, Some(&seconds(*bound)), &below.to_string());
        }
        let all = read.buckets.iter().sum::<u64>().to_string();
        self.line("_bucket", labels, Some("+Inf"), &all);
        self.line("_sum", labels, None, &seconds(read.sum));
        self.line("_count", labels, None, &all);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: &str) {
        let Text { page, family } = self;
        let _ = write!(page, "{family}{suffix}");
        let bound = bound.map(|bound| ("le", bound));
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(bound) {
            let _ = write!(page, "{separator}{name}=\"{}\"", escaped(value));
            separator = ',';
        }
        if separator == ',' {
            page.push('}');
        }
        let _ = writeln!(page, " {value}");
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.page
    }
}

/// A label's value, without what would end it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;

    use super::super::histogram::Histogram;
    use super::*;

    #[test]
    fn labels_cannot_break_out() {
        let mut text = Text::default();
        text.family("a_total", Kind::Counter, "Help.");
        text.value(&[("rule", "x\"} 1\n\\")], 7);
        let page = String::from(text);
        assert_eq!(page.lines().nth(2), Some(r#"a_total{rule="x\"} 1\n\\"} 7"#));
    }

    #[test]
    fn buckets_count_all_below_them() {
        let histogram = Histogram::default();
        histogram.add(Span::from_micros(30), 1);
        histogram.add(Span::from_micros(2_000_000), 2);
        let mut text = Text::default();
        text.family("b", Kind::Histogram, "Help.");
        histogram.read(|read| text.histogram(&[("door", "http")], read));
        let page = String::from(text);
        for line in [
            r#"b_bucket{door="http",le="0.000025"} 0"#,
            r#"b_bucket{door="http",le="0.000050"} 1"#,
            r#"b_bucket{door="http",le="1.000000"} 1"#,
            r#"b_bucket{door="http",le="+Inf"} 3"#,
            r#"b_sum{door="http"} 4.000030"#,
            r#"b_count{door="http"} 3"#,
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }
}
