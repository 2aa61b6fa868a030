//! trypema's local absolute limiter: a sliding window of counts per key over `DashMap`.
//!
//! Its cleanup thread is off: on two cores it would run in the other subjects' time.

use std::sync::Arc;

use ::trypema::local::LocalRateLimiterProvider;
use ::trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::{Contender, MILLION, Subject};
use crate::key::Key;
use crate::setting::Setting;

pub(super) const CONTENDER: Contender =
    Contender { memory_keys: MILLION, ..Contender::new("trypema", make) };

struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Subject for Trypema {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        matches!(self.provider.absolute().inc(&key.0, &self.rate, 1), RateLimitDecision::Allowed)
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    let seconds = setting.quota.per.as_secs();
    let provider = LocalRateLimiterProvider::builder()
        .window_size(WindowSize::seconds(seconds).expect("a window of whole seconds"))
        .disable_cleanup()
        .build()
        .expect("the default bucket is shorter than the window");
    // trypema multiplies the rate by the window and drops the fraction. The half keeps a
    // rounding error from costing a whole cell.
    let burst = f64::from(setting.quota.burst) + 0.5;
    let rate = RateLimit::per_second(burst / setting.quota.per.as_secs_f64()).expect("a rate");
    Box::new(Trypema { provider, rate })
}
