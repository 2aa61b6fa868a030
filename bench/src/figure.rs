//! A number with a target: what the build may be held to.

use std::fmt;

/// One measured number and the most that it may be.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    /// Not a number if it could not be measured; then it does not hold.
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) target: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// A time divided by another time of the same run.
    Ratio,
    BytesPerKey,
    Microseconds,
}

impl Figure {
    pub(crate) fn holds(&self) -> bool {
        self.value <= self.target
    }

    /// One JSON object. Names are ours and need no escapes.
    pub(crate) fn json(&self) -> String {
        let value =
            if self.value.is_nan() { "null".to_owned() } else { format!("{:.4}", self.value) };
        format!(
            r#"{{"name":"{}","value":{value},"unit":"{}","target":{},"holds":{}}}"#,
            self.name,
            self.unit,
            self.target,
            self.holds(),
        )
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ratio => "ratio",
            Self::BytesPerKey => "bytes/key",
            Self::Microseconds => "us",
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

    #[test]
    fn a_figure_on_its_target_holds_and_says_so() {
        let figure =
            Figure { name: "decide/hot/gcra".into(), value: 0.6, unit: Unit::Ratio, target: 0.6 };
        assert_eq!(
            figure.json(),
            r#"{"name":"decide/hot/gcra","value":0.6000,"unit":"ratio","target":0.6,"holds":true}"#
        );
        assert!(!Figure { value: 0.61, ..figure }.holds());
    }

    #[test]
    fn a_figure_that_was_not_measured_does_not_hold() {
        let figure =
            Figure { name: "decide/x".into(), value: f64::NAN, unit: Unit::Ratio, target: 1.0 };
        assert_eq!(
            figure.json(),
            r#"{"name":"decide/x","value":null,"unit":"ratio","target":1,"holds":false}"#
        );
    }
}
