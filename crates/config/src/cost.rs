//! What a request costs: so many cells, or what the request or its response says.

use crate::attribute::Attribute;
use crate::facts::Facts;
use crate::length::{Length, number};
use crate::matcher::Certainty;
use crate::request::Response;

/// A cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Cost {
    /// So many cells for each request.
    Cells(u32),
    /// What an attribute says.
    From(Measure),
}

/// A cost that is read from somewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Measure {
    pub(crate) what: Measured,
    /// Where it says nothing; for a response, what is taken until it is there.
    pub(crate) otherwise: Otherwise,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// How much of what is measured makes a cell.
    pub(crate) per_cell: u32,
}

/// What is taken where nothing is said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Otherwise {
    Cells(u32),
    /// As much as the limit ever lets pass at once.
    Largest,
    /// The request is refused.
    Refuse,
}

/// What a request takes when it comes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Price {
    Cells(u32),
    /// As much as the limit ever lets pass at once, but no more than this.
    Largest(u32),
    /// It has to say how long its body is.
    Unsaid,
}

/// Where a cost is read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Measured {
    /// The length of the request's body.
    Length,
    Request(Attribute),
    /// A header of the response, by its name in lower case.
    Response(Box<str>),
}

impl Cost {
    /// Whether it is never nothing, for any request that has something to it.
    pub(crate) fn is_positive(&self) -> bool {
        match self {
            Cost::Cells(cells) => 0 < *cells,
            Cost::From(measure) => 0 < measure.min || measure.what == Measured::Length,
        }
    }

    /// How much some requests cost whatever they say: those that say the least, or nothing.
    pub(crate) fn always(&self) -> u32 {
        match self {
            Cost::Cells(cells) => *cells,
            Cost::From(measure) => match measure.otherwise {
                Otherwise::Cells(cells) => cells.max(measure.min),
                Otherwise::Largest | Otherwise::Refuse => measure.min,
            },
        }
    }

    /// What to take when the request comes.
    pub(crate) fn at_request(&self, facts: &Facts<'_, '_>) -> Price {
        let measure = match self {
            Cost::Cells(cells) => return Price::Cells(*cells),
            Cost::From(measure) => measure,
        };
        match &measure.what {
            Measured::Length => match facts.request.length() {
                Length::Known(bytes) => Price::Cells(measure.bounded(bytes)),
                Length::Unknown => measure.unsaid(),
            },
            Measured::Request(attribute) => {
                let mut dearest = None;
                for reading in facts.readings() {
                    reading.has_value(attribute, Certainty::Perhaps, |value| {
                        dearest = dearest.max(Some(measure.price(value)));
                        false
                    });
                    if reading.says_too_much(attribute) {
                        dearest = dearest.max(Some(Price::Largest(measure.max)));
                    }
                }
                dearest.unwrap_or_else(|| measure.unsaid())
            }
            Measured::Response(_) => measure.unsaid(),
        }
    }

    /// What it was, once the response is there; `None` if the response has no say in it.
    pub(crate) fn at_response(&self, response: &dyn Response) -> Option<u32> {
        let Cost::From(measure) = self else { return None };
        match &measure.what {
            // What the application says is no trick of a client.
            Measured::Response(name) => {
                let said = response.header(name).and_then(number);
                let price =
                    said.map_or_else(|| measure.unsaid(), |it| Price::Cells(measure.bounded(it)));
                Some(price.cells(u32::MAX))
            }
            Measured::Length | Measured::Request(_) => None,
        }
    }

    /// Whether the response has a say in it.
    pub(crate) fn is_by_response(&self) -> bool {
        matches!(self, Cost::From(Measure { what: Measured::Response(_), .. }))
    }
}

impl Measure {
    /// The price of what a request says. Some applications read `1e2` or `+100` as a number, and to
    /// others it is none: so it is the dearest.
    fn price(&self, said: &[u8]) -> Price {
        match (number(said), self.otherwise) {
            (Some(said), _) => Price::Cells(self.bounded(said)),
            (None, Otherwise::Cells(cells)) if self.max < u32::MAX => {
                Price::Cells(cells.max(self.max))
            }
            (None, _) => Price::Largest(self.max),
        }
    }

    fn bounded(&self, said: u64) -> u32 {
        let cells = said.div_ceil(self.per_cell.max(1).into());
        u32::try_from(cells).unwrap_or(u32::MAX).clamp(self.min, self.max)
    }

    fn unsaid(&self) -> Price {
        match self.otherwise {
            Otherwise::Cells(cells) => Price::Cells(cells),
            Otherwise::Largest => Price::Largest(self.max),
            Otherwise::Refuse => Price::Unsaid,
        }
    }
}

impl Price {
    /// The cells of a limit that lets `most` pass at once.
    pub(crate) fn cells(self, most: u32) -> u32 {
        match self {
            Price::Cells(cells) => cells,
            Price::Largest(max) => most.min(max),
            Price::Unsaid => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_stays_in_its_bounds() {
        let what = Measured::Request(Attribute::Header("x-cost".into()));
        let otherwise = Otherwise::Cells(7);
        let mut measure = Measure { what, otherwise, min: 1, max: 100, per_cell: 10 };
        let price = |said: &str| measure.price(said.as_bytes());
        for (said, cost) in
            [("0", 1), ("1", 1), ("10", 1), ("11", 2), ("99999999999999999999", 100)]
        {
            assert_eq!(price(said), Price::Cells(cost), "{said}");
        }
        assert_eq!(measure.unsaid(), Price::Cells(7));
        let odd = [" ", "-1", "+1", "1e3", "1.0", "ten", "1 0", "0x10", "1abc", "1_0", "\u{ff11}"];
        for odd in odd {
            assert_eq!(price(odd), Price::Cells(100), "{odd}");
        }
        measure.otherwise = Otherwise::Cells(700);
        assert_eq!(measure.price(b"1e3"), Price::Cells(700));
        measure.max = u32::MAX;
        assert_eq!(measure.price(b"1e3"), Price::Largest(u32::MAX));
    }

    #[test]
    fn what_is_not_known_is_dearer_than_what_is() {
        assert!(Price::Cells(u32::MAX) < Price::Largest(0));
        assert!(Price::Largest(u32::MAX) < Price::Unsaid);
        assert_eq!(Price::Largest(100).cells(1_000), 100);
        assert_eq!(Price::Largest(u32::MAX).cells(1_000), 1_000);
        assert_eq!(Price::Cells(5_000).cells(1_000), 5_000);
    }
}
