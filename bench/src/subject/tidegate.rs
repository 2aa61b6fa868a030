//! Ours: a limiter of one rule, as the README shows it.

use ::tidegate::{Kind, Limiter, MemoryStore, Policy, Quota, Span};

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::{Form, Setting};
use crate::tape::Tape;

pub(super) const TOKEN_BUCKET: Contender = Contender {
    pauses: true,
    decides: |_| true,
    ..Contender::new("tidegate token-bucket", make::<0>)
};
pub(super) const GCRA: Contender =
    Contender { decides: |_| true, ..Contender::new("tidegate gcra", make::<1>) };
pub(super) const FIXED_WINDOW: Contender =
    Contender { decides: |_| false, ..Contender::new("tidegate fixed-window", make::<2>) };
pub(super) const SLIDING_WINDOW: Contender =
    Contender { decides: |_| false, ..Contender::new("tidegate sliding-window", make::<3>) };

const KINDS: [Kind; 4] = [Kind::TokenBucket, Kind::Gcra, Kind::FixedWindow, Kind::SlidingWindow];

/// More than any measurement has, so that none of them measures a full store.
const KEYS_MAX: usize = 12_000_000;

/// Keys that are texts.
struct Ours(Limiter);

/// Keys that are numbers.
struct Numbered(Limiter);

impl Subject for Ours {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.0.decide(key.0.as_str()).verdict.passes()
    }

    fn play_batches(&self, tape: &Tape<'_>) -> u64 {
        tape.batches(|keys: &[&Key]| {
            let (mut passed, keys) = (0, keys.iter().map(|key| key.0.as_str()));
            self.0.decide_batch(keys, |decision| passed += u64::from(decision.verdict.passes()));
            passed
        })
    }
}

impl Subject for Numbered {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.0.decide(key.1).verdict.passes()
    }

    fn play_batches(&self, tape: &Tape<'_>) -> u64 {
        tape.batches(|keys: &[&Key]| {
            let (mut passed, keys) = (0, keys.iter().map(|key| key.1));
            self.0.decide_batch(keys, |decision| passed += u64::from(decision.verdict.passes()));
            passed
        })
    }
}

fn make<const KIND: usize>(setting: &Setting) -> Box<dyn Subject> {
    let kind = KINDS[KIND];
    let per = Span::from(setting.quota.per);
    let quota = if kind.has_burst() {
        Quota::new(1, per).burst(setting.quota.burst)
    } else {
        Quota::new(setting.quota.burst, per)
    };
    let policy = Policy::new(kind, quota).expect("every quota of the range is accepted");
    let store = MemoryStore::with_keys_max(KEYS_MAX);
    let limiter = Limiter::builder().each("limit", policy).store(store).build();
    let limiter = limiter.expect("one rule with a name");
    match setting.form {
        Form::Text => Box::new(Ours(limiter)),
        Form::Number => Box::new(Numbered(limiter)),
    }
}
