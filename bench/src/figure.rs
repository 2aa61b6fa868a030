//! A number with a target: what the build may be held to.

use std::fmt;

/// One measured number and what it is held to.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    /// Not a number if it could not be measured; then it does not hold.
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) target: Target,
}

/// The bound that a number may reach but not pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// None: it stands beside others.
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// A time or a speed divided by another of the same run.
    Ratio,
    BytesPerKey,
    BytesPerConnection,
    Mebibytes,
    Microseconds,
    Nanoseconds,
    /// How many requests of the largest kind.
    Requests,
    /// How often something happened that must not.
    Violations,
    Seconds,
}

impl Figure {
    pub(crate) fn holds(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
            Target::Any => true,
        }
    }

    /// One JSON object. Names are ours and need no escapes.
    pub(crate) fn json(&self) -> String {
        let value =
            if self.value.is_nan() { "null".to_owned() } else { format!("{:.4}", self.value) };
        format!(
            r#"{{"name":"{}","value":{value},"unit":"{}","target":{},"holds":{}}}"#,
            self.name,
            self.unit,
            self.target.bound(),
            self.holds(),
        )
    }
}

impl Target {
    /// As JSON has it.
    fn bound(self) -> String {
        match self {
            Self::AtMost(bound) | Self::AtLeast(bound) => bound.to_string(),
            Self::Any => "null".to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
            Self::Any => f.write_str("-"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "ratio",
            Self::BytesPerKey => "bytes/key",
            Self::BytesPerConnection => "bytes/connection",
            Self::Mebibytes => "MiB",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
            Self::Requests => "requests",
            Self::Violations => "violations",
            Self::Seconds => "s",
        })
    }
}

/// `gcra` of `tidegate gcra`; nothing for a peer. Only our own subjects have targets.
pub(crate) fn own_algorithm(subject: &str) -> Option<&str> {
    subject.strip_prefix("tidegate ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, value: f64, target: Target) -> Figure {
        Figure { name: name.into(), value, unit: Unit::Ratio, target }
    }

    #[test]
    fn a_figure_on_its_target_holds_and_says_so() {
        let figure = figure("decide/hot/gcra", 0.6, Target::AtMost(0.6));
        assert_eq!(
            figure.json(),
            r#"{"name":"decide/hot/gcra","value":0.6000,"unit":"ratio","target":0.6,"holds":true}"#
        );
        assert!(!Figure { value: 0.61, ..figure }.holds());
    }

    #[test]
    fn a_figure_may_be_bounded_from_below() {
        let figure = figure("redis/hot/gcra", 10.0, Target::AtLeast(10.0));
        assert!(figure.holds());
        assert_eq!(figure.target.to_string(), ">= 10");
        assert!(!Figure { value: 9.9, ..figure }.holds());
    }

    #[test]
    fn a_figure_without_a_target_holds() {
        let figure = figure("hostile/x", 9.0, Target::Any);
        assert!(figure.holds() && figure.json().contains(r#""target":null,"#));
    }

    #[test]
    fn a_figure_that_was_not_measured_does_not_hold() {
        for target in [Target::AtMost(1.0), Target::AtLeast(1.0)] {
            assert_eq!(
                figure("decide/x", f64::NAN, target).json(),
                r#"{"name":"decide/x","value":null,"unit":"ratio","target":1,"holds":false}"#
            );
        }
    }
}
