//! Which responses count: failed logins do, cached answers may not.

use crate::glob::Glob;
use crate::request::Response;

/// A condition on a response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// Statuses, from and to; any if there are none.
    pub(crate) status: Vec<(u16, u16)>,
    /// Headers that have to be like one of these.
    pub(crate) headers: Vec<(Box<str>, Vec<Glob>)>,
    /// What must not hold.
    pub(crate) not: Option<Box<Outcome>>,
}

impl Outcome {
    pub(crate) fn holds(&self, response: &dyn Response) -> bool {
        let status = response.status();
        let has_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&status);
        let has_header = |(name, like): &(Box<str>, Vec<Glob>)| {
            let value = response.header(name);
            value.is_some_and(|value| like.iter().any(|glob| glob.matches(value.trim_ascii())))
        };
        (self.status.is_empty() || self.status.iter().any(has_status))
            && self.headers.iter().all(has_header)
            && !self.not.as_ref().is_some_and(|not| not.holds(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answered(u16, Option<&'static [u8]>);

    impl Response for Answered {
        fn status(&self) -> u16 {
            self.0
        }

        fn header(&self, name: &str) -> Option<&[u8]> {
            self.1.filter(|_| name == "x-cache")
        }
    }

    #[test]
    fn failed_logins_count() {
        let failed = Outcome { status: vec![(401, 401), (403, 403)], ..Outcome::default() };
        assert!(failed.holds(&Answered(401, None)));
        assert!(!failed.holds(&Answered(200, None)));
    }

    #[test]
    fn cached_answers_do_not() {
        let cached = Outcome {
            headers: vec![("x-cache".into(), vec![Glob::new("HIT*")])],
            ..Outcome::default()
        };
        let fresh = Outcome { not: Some(Box::new(cached)), ..Outcome::default() };
        assert!(fresh.holds(&Answered(200, None)));
        assert!(fresh.holds(&Answered(200, Some(b"MISS"))));
        assert!(!fresh.holds(&Answered(200, Some(b"HIT from edge"))));
    }
}
