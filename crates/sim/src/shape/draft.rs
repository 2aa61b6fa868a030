//! A trace being written: requests even or scattered over a span, and never too many.

use tidegate_core::{Span, Tick};

use crate::rng::Rng;
use crate::shape::Scenario;
use crate::trace::{Request, Trace, TraceError};

/// Requests written so far, and the scenario that bounds them.
#[derive(Debug)]
pub(super) struct Draft {
    requests: Vec<Request>,
    rng: Rng,
    cost: u32,
    duration: Span,
    /// Ticks in one period.
    pub(super) per: u64,
    /// Requests that use up the quota of one period.
    pub(super) pace: u64,
}

/// A stretch of time, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) ticks: u64,
}

/// So many requests in so many ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) requests: u64,
    pub(super) ticks: u64,
}

impl Draft {
    pub(super) fn new(scenario: &Scenario) -> Draft {
        Draft {
            requests: Vec::new(),
            rng: Rng::new(scenario.seed),
            cost: scenario.cost,
            duration: scenario.duration(),
            per: scenario.quota.per().get(),
            pace: u64::from((scenario.quota.cells() / scenario.cost.max(1)).max(1)),
        }
    }

    /// Ticks from the start to the end.
    pub(super) fn end(&self) -> u64 {
        self.duration.get()
    }

    /// From the start to the end.
    pub(super) fn whole(&self) -> Stretch {
        Stretch { from: 0, ticks: self.end() }
    }

    /// `count` requests of `tenant`, evenly over `stretch`, the first at its first tick.
    pub(super) fn even(
        &mut self,
        tenant: u32,
        stretch: Stretch,
        count: u64,
    ) -> Result<(), TraceError> {
        self.reserve(count)?;
        for nth in 0..count {
            let into = u128::from(stretch.ticks) * u128::from(nth) / u128::from(count);
            let into = u64::try_from(into).expect("a part of the stretch is no longer than it");
            self.push(tenant, stretch.from + into);
        }
        Ok(())
    }

    /// `count` requests of `tenant`, each at a random tick of `stretch`.
    pub(super) fn scattered(
        &mut self,
        tenant: u32,
        stretch: Stretch,
        count: u64,
    ) -> Result<(), TraceError> {
        self.reserve(count)?;
        for _ in 0..count {
            let into = self.rng.below(stretch.ticks.max(1));
            self.push(tenant, stretch.from + into);
        }
        Ok(())
    }

    /// Requests of `tenant` over `stretch` that know nothing of each other, on average as many as
    /// `pace` says.
    pub(super) fn poisson(
        &mut self,
        tenant: u32,
        stretch: Stretch,
        pace: Pace,
    ) -> Result<(), TraceError> {
        // Gaps of a few ticks would be rounded too coarsely, so time is finer here.
        const PARTS: u64 = 1_024;
        let gap = pace.ticks * PARTS / pace.requests.max(1);
        let ticks = stretch.ticks * PARTS;
        self.reserve(ticks / gap.max(1))?;
        let mut into = exponential(&mut self.rng, gap);
        while into < ticks {
            self.reserve(1)?;
            self.push(tenant, stretch.from + into / PARTS);
            into += exponential(&mut self.rng, gap);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Trace, TraceError> {
        Trace::new(self.requests, self.duration)
    }

    /// Refuses before anything is allocated: a huge quota must not fill the memory first.
    fn reserve(&self, count: u64) -> Result<(), TraceError> {
        let room = Trace::REQUESTS_MAX - self.requests.len();
        if usize::try_from(count).is_ok_and(|count| count <= room) {
            Ok(())
        } else {
            Err(TraceError::TooManyRequests)
        }
    }

    fn push(&mut self, tenant: u32, at: u64) {
        if at < self.end() {
            self.requests.push(Request { at: Tick::from_micros(at), tenant, cost: self.cost });
        }
    }
}

/// A random wait of `mean` ticks on average, exponentially distributed.
///
/// This is von Neumann's method: it compares uniform numbers and takes no logarithm, so a seed
/// gives the same trace on every machine.
fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    let mean = mean.max(1);
    let mut whole = 0;
    loop {
        let first = rng.next_u64();
        let mut last = first;
        let mut run = 1;
        loop {
            let next = rng.next_u64();
            if last <= next {
                break;
            }
            last = next;
            run += 1;
        }
        if run % 2 == 1 {
            let part = (u128::from(first) * u128::from(mean)) >> 64;
            return u64::try_from(part).expect("a part of the mean is less than it") + whole;
        }
        whole += mean;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_exponential() {
        let mut rng = Rng::new(7);
        let waits: Vec<u64> = (0..100_000).map(|_| exponential(&mut rng, 1_000_000)).collect();
        let mean = waits.iter().sum::<u64>() / 100_000;
        assert!((980_000..1_020_000).contains(&mean), "the mean is {mean}");
        // One in e waits is longer than the mean, and one in e² longer than twice the mean.
        let longer = |than| waits.iter().filter(|wait| than < **wait).count();
        assert!((36_000..37_600).contains(&longer(1_000_000)));
        assert!((13_000..14_100).contains(&longer(2_000_000)));
    }
}
