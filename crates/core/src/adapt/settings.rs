//! What an operator may say about a controller. Everything else it finds out.

use core::fmt;

use super::Fraction;
use crate::tick::Span;

/// The bounds within which a controller moves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The fewest requests that may be in flight, whatever is measured.
    pub limit_min: u32,
    /// The most requests that may be in flight, whatever is measured.
    pub limit_max: u32,
    /// How many may be in flight before anything is known.
    pub limit_start: u32,
    /// How far brakes may lower the limit: this share of what was learned remains.
    pub brake_floor: Fraction,
    /// How far rate rules marked `adaptive` may be scaled down.
    pub factor_floor: Fraction,
    /// How long a request may stand in our queue before that counts as a standing queue.
    pub queue_target: Span,
    /// From which share of time lost to waiting for the host's resources it brakes.
    pub pressure_max: Fraction,
    /// From which share of failures and timeouts it brakes.
    pub failures_max: Fraction,
}

/// Why settings cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingsError {
    /// `limit_min` is zero: a limit of none finds out nothing.
    NoLimit,
    /// `limit_max` is above [`Settings::LIMIT_MAX`].
    LimitTooHigh,
    /// Not `limit_min` ≤ `limit_start` ≤ `limit_max`.
    LimitsOutOfOrder,
    /// A floor of nothing, or above the whole.
    Floor,
}

impl Settings {
    /// The highest limit that can be set.
    pub const LIMIT_MAX: u32 = 1_000_000;

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let Settings { limit_min, limit_max, limit_start, .. } = *self;
        if limit_min == 0 {
            return Err(SettingsError::NoLimit);
        }
        if Settings::LIMIT_MAX < limit_max {
            return Err(SettingsError::LimitTooHigh);
        }
        if limit_start < limit_min || limit_max < limit_start {
            return Err(SettingsError::LimitsOutOfOrder);
        }
        let floors = [self.brake_floor, self.factor_floor];
        if floors.iter().any(|floor| *floor == Fraction::NONE || Fraction::WHOLE < *floor) {
            return Err(SettingsError::Floor);
        }
        Ok(())
    }
}

impl Default for Settings {
    /// Between 1 and 1,000 in flight, starting at 20.
    fn default() -> Settings {
        Settings {
            limit_min: 1,
            limit_max: 1_000,
            limit_start: 20,
            brake_floor: Fraction::from_percent(25),
            factor_floor: Fraction::from_percent(10),
            queue_target: Span::from_millis(5),
            pressure_max: Fraction::from_percent(60),
            failures_max: Fraction::from_percent(5),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::NoLimit => f.write_str("limit_min is 0: let at least 1 pass"),
            SettingsError::LimitTooHigh => {
                write!(f, "limit_max is above {}: lower it", Settings::LIMIT_MAX)
            }
            SettingsError::LimitsOutOfOrder => {
                f.write_str("order the limits: limit_min <= limit_start <= limit_max")
            }
            SettingsError::Floor => {
                f.write_str("a floor is a fraction above nothing and at most the whole: change it")
            }
        }
    }
}

impl core::error::Error for SettingsError {}
