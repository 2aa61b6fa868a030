//! How much may pass: so many cells per so much time, so many at once.
//!
//! [`Quota`] is what a person asks for, and reads like it. [`Grains`] is the same thing checked and
//! reduced to the two whole numbers that the arithmetic runs on.

use core::fmt;

use crate::tick::Span;

/// `cells` per `per`, at most `burst` of them at once.
///
/// A plain description: nothing is checked until a [`Policy`](crate::Policy) is made of it.
///
/// ```
/// use tidegate_core::Quota;
///
/// let quota = Quota::per_minute(100).burst(20);
/// assert_eq!(quota.to_string(), "100 per 1min, 20 at once");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quota {
    cells: u32,
    per: Span,
    burst: Option<u32>,
}

impl Quota {
    /// The longest period: 366 days.
    pub const PER_MAX: Span = Span::from_micros(366 * 86_400_000_000);

    /// `cells` per `per`.
    pub const fn new(cells: u32, per: Span) -> Quota {
        Quota { cells, per, burst: None }
    }

    /// `cells` per second.
    pub const fn per_second(cells: u32) -> Quota {
        Quota::new(cells, Span::from_secs(1))
    }

    /// `cells` per minute.
    pub const fn per_minute(cells: u32) -> Quota {
        Quota::new(cells, Span::from_secs(60))
    }

    /// `cells` per hour.
    pub const fn per_hour(cells: u32) -> Quota {
        Quota::new(cells, Span::from_secs(3_600))
    }

    /// `cells` per day of 24 hours.
    pub const fn per_day(cells: u32) -> Quota {
        Quota::new(cells, Span::from_secs(86_400))
    }

    /// At most `cells` in flight, each for at most `lease`; for [`Kind::Concurrency`](crate::Kind).
    pub const fn in_flight(cells: u32, lease: Span) -> Quota {
        Quota::new(cells, lease)
    }

    /// This quota with at most `cells` at once. Without it, a whole period's cells may come at
    /// once.
    #[must_use]
    pub const fn burst(self, cells: u32) -> Quota {
        Quota { burst: Some(cells), ..self }
    }

    /// Cells per period.
    pub const fn cells(&self) -> u32 {
        self.cells
    }

    /// The period.
    pub const fn per(&self) -> Span {
        self.per
    }

    /// The burst that was asked for, if any was.
    pub const fn burst_asked(&self) -> Option<u32> {
        self.burst
    }

    /// Refuses what no algorithm can count.
    pub(crate) const fn check(&self) -> Result<(), QuotaError> {
        if self.cells == 0 {
            return Err(QuotaError::ZeroCells);
        }
        if self.per.get() == 0 {
            return Err(QuotaError::ZeroPeriod);
        }
        if Quota::PER_MAX.get() < self.per.get() {
            return Err(QuotaError::PeriodTooLong);
        }
        if matches!(self.burst, Some(0)) {
            return Err(QuotaError::ZeroBurst);
        }
        Ok(())
    }

    /// As [`Quota::check`], for an algorithm whose limit is the quota itself.
    pub(crate) const fn check_without_burst(&self) -> Result<(), QuotaError> {
        if self.burst.is_some() {
            return Err(QuotaError::BurstWithoutBucket);
        }
        self.check()
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.cells, self.per)?;
        self.burst.map_or(Ok(()), |burst| write!(f, ", {burst} at once"))
    }
}

/// A quota in grains: one cell weighs [`Grains::cell`], and every tick pays off [`Grains::tick`].
///
/// `tick / cell` is the rate as a reduced fraction, and it is never divided out, so *three per
/// second* is exactly that, for ever. Both numbers stay below 2^45 over the whole range of quotas,
/// so nothing has to be approximated; only `burst × cell` can outgrow a word, and then amounts take
/// two.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Grains {
    tick: u64,
    cell: u64,
    burst: u32,
}

impl Grains {
    /// Reduces `quota`.
    pub const fn of(quota: Quota) -> Result<Grains, QuotaError> {
        if let Err(error) = quota.check() {
            return Err(error);
        }
        let divisor = gcd(quota.cells as u64, quota.per.get());
        let burst = match quota.burst {
            Some(burst) => burst,
            None => quota.cells,
        };
        Ok(Grains { tick: quota.cells as u64 / divisor, cell: quota.per.get() / divisor, burst })
    }

    /// Grains paid off by one tick.
    pub const fn tick(&self) -> u64 {
        self.tick
    }

    /// Grains in one cell.
    pub const fn cell(&self) -> u64 {
        self.cell
    }

    /// The most cells that may come at once.
    pub const fn burst(&self) -> u32 {
        self.burst
    }
}

/// Why a quota was refused, and what to ask for instead.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The boundaries of a calendar window were not in order.
    Boundaries,
    /// A burst was asked of an algorithm whose limit is the quota itself.
    BurstWithoutBucket,
    /// What would be saved, or the rate at which it is spent, is more than can be counted.
    CreditsTooLarge,
    /// Credits were asked of an algorithm that saves nothing.
    CreditsWithoutBucket,
    /// An overdraft was asked of an algorithm that remembers every debit, or has none.
    OverdraftWithoutBucket,
    /// The period was longer than [`Quota::PER_MAX`].
    PeriodTooLong,
    /// Refused permits were to be charged.
    RefusedPermitsCharged,
    /// A burst of zero lets nothing pass.
    ZeroBurst,
    /// A quota of zero cells lets nothing pass.
    ZeroCells,
    /// The period was zero.
    ZeroPeriod,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuotaError::Boundaries => {
                "calendar boundaries are not in order: give three ticks, each later than the last"
            }
            QuotaError::BurstWithoutBucket => {
                "windows, logs and concurrency have no burst: leave it out, or choose a bucket"
            }
            QuotaError::CreditsTooLarge => {
                "credits come to more than can be counted: save for a shorter time, or spend slower"
            }
            QuotaError::CreditsWithoutBucket => {
                "only token bucket, GCRA and leaky bucket save credits: choose one of them"
            }
            QuotaError::OverdraftWithoutBucket => {
                "windows and logs remember every debit: leave the overdraft out, or choose a bucket"
            }
            QuotaError::PeriodTooLong => "the period is longer than 366 days: choose a shorter one",
            QuotaError::RefusedPermitsCharged => {
                "concurrency has nothing to charge a refusal to: leave it free"
            }
            QuotaError::ZeroBurst => "a burst of 0 lets nothing pass: give at least 1",
            QuotaError::ZeroCells => "a quota of 0 cells lets nothing pass: give at least 1",
            QuotaError::ZeroPeriod => "the period is zero: give at least one microsecond",
        })
    }
}

impl core::error::Error for QuotaError {}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
