//! Trying higher limits: one step, one look, and back if something queued. Steps that succeed
//! follow each other at once; after one that did not, the next waits twice as long.

/// Rounds before the first try.
const PATIENCE_MIN: u16 = 2;
/// Rounds before another, after many in vain.
const PATIENCE_MAX: u16 = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Climb {
    waited: u16,
    patience: u16,
    /// Steps that succeeded, one after the other.
    steps: u32,
}

impl Climb {
    pub(super) fn new() -> Climb {
        Climb { waited: 0, patience: PATIENCE_MIN, steps: 0 }
    }

    /// How far to go from `level`, at least: a 16th, and twice as far after each success.
    pub(super) fn stride(self, level: u64) -> u64 {
        (level >> 4) << self.steps.min(3)
    }

    /// Whether it is time to try, one round later.
    pub(super) fn is_due(&mut self) -> bool {
        self.waited = self.waited.saturating_add(1);
        self.patience <= self.waited
    }

    pub(super) fn succeeded(&mut self) {
        // The next is due at once.
        let steps = self.steps.saturating_add(1);
        *self = Climb { waited: PATIENCE_MIN, patience: PATIENCE_MIN, steps };
    }

    pub(super) fn failed(&mut self) {
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        self.waited = 0;
        self.steps = 0;
    }

    /// What was learned about steps no longer counts: things have changed.
    pub(super) fn renew(&mut self) {
        *self = Climb::new();
    }
}
