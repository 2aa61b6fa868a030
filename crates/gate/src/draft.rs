//! The draft's two fields, written over those of the response before.
//!
//! Most responses tell of the same limits as the last, and of numbers that differ from its numbers
//! by a digit or two: what is the same stays.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::admission::{Judged, LimitPlace};
use crate::generation::{GenerationId, Limit, SEPARATOR};
use crate::headers::seconds;

/// `RateLimit-Policy` and `RateLimit`.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The quotas of the limits.
    listed: String,
    /// Tells this list from every other, once somebody has asked for that.
    edition: Option<Edition>,
    /// What is left of each.
    text: Vec<u8>,
    /// Which limits these are: of a policy, and in their order.
    of: Option<GenerationId>,
    items: SmallVec<[Item; 4]>,
}

/// Tells one `RateLimit-Policy` from every other that this process has written: where it is the
/// same, the field is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edition(u64);

/// What is told of a limit.
#[derive(Debug)]
struct Item {
    place: LimitPlace,
    remaining: Digits,
    reset: Digits,
}

/// A number, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Digits {
    number: u64,
    at: usize,
    end: usize,
    /// The least and the greatest number of as many digits.
    least: u64,
    most: u64,
}

impl Draft {
    /// Writes both fields about limits of a policy, in their order.
    #[inline]
    pub(crate) fn write<'j, 'g>(
        &mut self,
        of: GenerationId,
        shown: impl Iterator<Item = &'j Judged> + Clone,
        limit: impl Fn(&Judged) -> &'g Limit,
    ) {
        if self.of != Some(of) || !self.write_over(shown.clone()) {
            self.write_anew(of, shown, limit);
        }
    }

    /// `RateLimit-Policy`
    pub(crate) fn listed(&self) -> &str {
        &self.listed
    }

    /// Of that.
    pub(crate) fn edition(&mut self) -> Edition {
        *self.edition.get_or_insert_with(Edition::next)
    }

    /// `RateLimit`
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// What is left of a limit, in digits.
    pub(crate) fn remaining(&self, place: LimitPlace) -> Option<&[u8]> {
        let item = self.items.iter().find(|item| item.place == place)?;
        self.text.get(item.remaining.at..item.remaining.end)
    }

    /// Writes the numbers where the last ones stand, if these are of the same limits and as long;
    /// otherwise some may have been written in vain.
    #[inline]
    fn write_over<'j>(&mut self, shown: impl Iterator<Item = &'j Judged>) -> bool {
        let mut items = self.items.iter_mut();
        for judged in shown {
            let same = |item: &&mut Item| item.place == judged.place();
            let Some(item) = items.next().filter(same) else { return false };
            let (remaining, reset) = told(judged);
            if !item.remaining.write_over(&mut self.text, remaining)
                || !item.reset.write_over(&mut self.text, reset)
            {
                return false;
            }
        }
        items.next().is_none()
    }

    #[inline(never)]
    fn write_anew<'j, 'g>(
        &mut self,
        of: GenerationId,
        shown: impl Iterator<Item = &'j Judged> + Clone,
        limit: impl Fn(&Judged) -> &'g Limit,
    ) {
        let places = self.items.iter().map(|item| item.place);
        if self.of != Some(of) || !shown.clone().map(Judged::place).eq(places) {
            self.of = Some(of);
            self.list(shown.clone().map(&limit));
        }
        self.text.clear();
        self.items.clear();
        for judged in shown {
            let remains = &limit(judged).remains;
            self.text.extend_from_slice(item(self.text.is_empty(), remains).as_bytes());
            let (remaining, reset) = told(judged);
            let remaining = Digits::write(&mut self.text, remaining);
            self.text.extend_from_slice(b";t=");
            let reset = Digits::write(&mut self.text, reset);
            self.items.push(Item { place: judged.place(), remaining, reset });
        }
    }

    #[cold]
    fn list<'g>(&mut self, limits: impl Iterator<Item = &'g Limit>) {
        self.edition = None;
        self.listed.clear();
        for limit in limits {
            self.listed.push_str(item(self.listed.is_empty(), &limit.listed));
        }
    }
}

impl Edition {
    #[cold]
    fn next() -> Edition {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Edition(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Digits {
    fn write(text: &mut Vec<u8>, number: u64) -> Digits {
        let at = text.len();
        text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        let end = text.len();
        let power =
            |digits: usize| u32::try_from(digits).ok().and_then(|it| 10_u64.checked_pow(it));
        let least = if end - at == 1 { 0 } else { power(end - at - 1).unwrap_or(u64::MAX) };
        let most = power(end - at).map_or(u64::MAX, |power| power - 1);
        Digits { number, at, end, least, most }
    }

    /// Writes another number in the place of this one, if it is as long.
    #[inline]
    fn write_over(&mut self, text: &mut [u8], number: u64) -> bool {
        let Some(place) = text.get_mut(self.at..self.end) else { return false };
        if number < self.least || self.most < number {
            return false;
        }
        let (mut new, mut old) = (number, self.number);
        self.number = number;
        for digit in place.iter_mut().rev() {
            if new == old {
                // So are the digits that are left.
                break;
            }
            *digit = b'0' + u8::try_from(new % 10).unwrap_or(0);
            (new, old) = (new / 10, old / 10);
        }
        true
    }
}

/// What is told of a limit: how many cells are left, and in how many seconds all of them are.
#[inline]
fn told(judged: &Judged) -> (u64, u64) {
    let decision = judged.decision();
    (decision.remaining.into(), seconds(decision.reset_after))
}

/// An item of a list. It has a comma before it, which the first does not need.
fn item(is_first: bool, item: &str) -> &str {
    if is_first { &item[SEPARATOR.len()..] } else { item }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is written over whatever, the digits are those of the number.
    #[test]
    fn digits_are_written_over() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        let around =
            powers.flat_map(|power| [power - 1, power, power + 1, power.saturating_mul(7)]);
        let numbers: Vec<u64> = around.chain([u64::MAX - 1, u64::MAX]).collect();
        for before in &numbers {
            for number in &numbers {
                let mut text = b"r=".to_vec();
                let mut digits = Digits::write(&mut text, *before);
                text.extend_from_slice(b";t=1");
                let is_as_long = before.to_string().len() == number.to_string().len();
                assert_eq!(digits.write_over(&mut text, *number), is_as_long);
                let there = if is_as_long { number } else { before };
                assert_eq!(String::from_utf8_lossy(&text), format!("r={there};t=1"));
            }
        }
    }
}
