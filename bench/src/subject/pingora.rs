//! pingora-limits: a count-min sketch of two intervals. It keeps no keys, and counts a key
//! together with those that share its slots.

use pingora_limits::rate::Rate;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::Setting;

pub(super) const CONTENDER: Contender = Contender::new("pingora-limits (sketch)", make);

struct Sketch {
    rate: Rate,
    burst: isize,
}

impl Subject for Sketch {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.rate.observe(&key.0, 1) <= self.burst
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    let burst = isize::try_from(setting.quota.burst).expect("a 64-bit machine");
    Box::new(Sketch { rate: Rate::new(setting.quota.per), burst })
}
