//! governor's keyed limiter on `String` keys: GCRA over `DashMap`. Every ratio is to this.

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::num::NonZeroU32;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::Setting;

pub(super) const CONTENDER: Contender =
    Contender { pauses: true, ..Contender::new("governor", make) };

struct Governor(DefaultKeyedRateLimiter<String>);

impl Subject for Governor {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.0.check_key(&key.0).is_ok()
    }

    fn sweep(&self) -> bool {
        self.0.retain_recent();
        self.0.shrink_to_fit();
        true
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    let burst = NonZeroU32::new(setting.quota.burst).expect("a burst is not zero");
    let quota = Quota::with_period(setting.quota.per).expect("a period is not zero");
    Box::new(Governor(RateLimiter::keyed(quota.allow_burst(burst))))
}
