//! The `ratelimit` crate: one token bucket with no keys, so it runs on the hot key only.

use ::ratelimit::Ratelimiter;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::Setting;
use crate::workload::Workload;

pub(super) const CONTENDER: Contender = Contender {
    decides: Workload::is_hot,
    memory_keys: 0,
    ..Contender::new("ratelimit (no keys)", make)
};

struct Unkeyed(Ratelimiter);

impl Subject for Unkeyed {
    #[inline]
    fn decide(&self, _: &Key) -> bool {
        self.0.try_wait().is_ok()
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    let burst = u64::from(setting.quota.burst);
    let limiter = Ratelimiter::builder(1)
        .period(setting.quota.per)
        .max_tokens(burst)
        .initial_available(burst)
        .build()
        .expect("a quota that the crate accepts");
    Box::new(Unkeyed(limiter))
}
