//! governor's keyed limiter on keys of their own type: GCRA over `DashMap`. Every ratio is to this.

use governor::clock::DefaultClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use std::hash::Hash;
use std::num::NonZeroU32;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::{Form, Setting};

pub(super) const CONTENDER: Contender =
    Contender { pauses: true, decides: |_| true, ..Contender::new("governor", make) };

/// Limits what `key` says of a key.
struct Governor<K: Hash + Eq + Clone, F> {
    limiter: RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock>,
    key: F,
}

impl<K, F> Subject for Governor<K, F>
where
    K: Hash + Eq + Clone + Send + Sync,
    F: Fn(&Key) -> &K + Send + Sync,
{
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.limiter.check_key((self.key)(key)).is_ok()
    }

    fn sweep(&self) -> bool {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
        true
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    let burst = NonZeroU32::new(setting.quota.burst).expect("a burst is not zero");
    let quota = Quota::with_period(setting.quota.per).expect("a period is not zero");
    let quota = quota.allow_burst(burst);
    match setting.form {
        Form::Text => Box::new(Governor { limiter: RateLimiter::keyed(quota), key: text }),
        Form::Number => Box::new(Governor { limiter: RateLimiter::keyed(quota), key: number }),
    }
}

fn text(key: &Key) -> &String {
    &key.0
}

fn number(key: &Key) -> &u64 {
    &key.1
}
