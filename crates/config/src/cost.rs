//! What a request costs: so many cells, or what the request or its response says.

use crate::attribute::Attribute;
use crate::facts::Facts;
use crate::request::Response;

/// A cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Cost {
    /// The same for each.
    Cells(u32),
    /// What an attribute says.
    From(Measure),
}

/// A cost that is read from somewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Measure {
    pub(crate) what: Measured,
    /// Where it says nothing that is a number; for a response, what is taken until it is there.
    pub(crate) otherwise: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// How much of what is measured makes a cell.
    pub(crate) per_cell: u32,
}

/// Where a cost is read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Measured {
    Request(Attribute),
    /// A header of the response, by its name in lower case.
    Response(Box<str>),
}

impl Cost {
    /// What to take when the request comes.
    pub(crate) fn at_request(&self, facts: &Facts<'_, '_>) -> u32 {
        match self {
            Cost::Cells(cells) => *cells,
            Cost::From(measure) => match &measure.what {
                Measured::Request(attribute) => {
                    let mut dearest = None;
                    for reading in facts.readings() {
                        reading.has_value(attribute, |value| {
                            dearest = dearest.max(Some(measure.cells(Some(value))));
                            false
                        });
                    }
                    dearest.unwrap_or(measure.otherwise)
                }
                Measured::Response(_) => measure.otherwise,
            },
        }
    }

    /// What it was, once the response is there; `None` if the response has no say in it.
    pub(crate) fn at_response(&self, response: &dyn Response) -> Option<u32> {
        let Cost::From(measure) = self else { return None };
        match &measure.what {
            Measured::Response(name) => Some(measure.cells(response.header(name))),
            Measured::Request(_) => None,
        }
    }

    /// Whether the response has a say in it.
    pub(crate) fn is_by_response(&self) -> bool {
        matches!(self, Cost::From(Measure { what: Measured::Response(_), .. }))
    }
}

impl Measure {
    fn cells(&self, said: Option<&[u8]>) -> u32 {
        let number = said.and_then(number).map(|it| it.div_ceil(self.per_cell.max(1).into()));
        let cells = number.map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        cells.map_or(self.otherwise, |it| it.clamp(self.min, self.max))
    }
}

/// A number of digits only; one that is too large is the largest.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        let add =
            |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
        text.iter().fold(0, add)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(measure: &Measure, said: &str) -> u32 {
        measure.cells(Some(said.as_bytes()))
    }

    #[test]
    fn a_cost_stays_in_its_bounds() {
        let what = Measured::Request(Attribute::Header("content-length".into()));
        let measure = Measure { what, otherwise: 7, min: 1, max: 100, per_cell: 10 };
        for (said, cost) in
            [("0", 1), ("1", 1), ("10", 1), ("11", 2), ("99999999999999999999", 100)]
        {
            assert_eq!(cells(&measure, said), cost, "{said}");
        }
        for nonsense in ["", "-1", "1e3", "ten", "1 0", "0x10"] {
            assert_eq!(cells(&measure, nonsense), 7, "{nonsense}");
        }
        assert_eq!(measure.cells(None), 7);
    }
}
