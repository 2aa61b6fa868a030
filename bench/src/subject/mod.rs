//! Everything that is measured, behind one trait.
//!
//! To add a subject: write `subject/<name>.rs` with a type that implements [`Subject`] and a
//! `const` [`Contender`], and list that in [`CONTENDERS`].
//!
//! [`Subject::play`] is the timed loop. Its body is compiled once per subject with `decide`
//! called directly; the harness makes one virtual call for a whole tape, so that no decision
//! pays for the harness.

mod bare;
mod floor;
mod governor;
mod limitador;
mod pingora;
mod ratelimit;
mod throttlecrab;
mod tidegate;
mod trypema;

use crate::key::Key;
use crate::setting::Setting;
use crate::tape::Tape;
use crate::workload::{Field, Workload};

/// A limiter that has been built and can be asked.
pub(crate) trait Subject: Sync {
    /// Charges one cell to the key, by the API that its users call; true if it passes.
    fn decide(&self, key: &Key) -> bool;

    /// Decides the whole tape one by one; returns how many passed.
    fn play(&self, tape: &Tape<'_>) -> u64 {
        tape.each(|key| self.decide(key))
    }

    /// The same by the subject's batch call, through [`Tape::batches`], if it has one.
    fn play_batches(&self, tape: &Tape<'_>) -> u64 {
        self.play(tape)
    }

    /// Forgets idle keys, if users must ask for that. Returns false if there is nothing to ask.
    fn sweep(&self) -> bool {
        false
    }
}

/// A subject before it is built, and which measurements it takes part in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Setting) -> Box<dyn Subject>,
    /// Whether `decide` times it under that workload.
    pub(crate) decides: fn(&Workload) -> bool,
    /// A slow subject makes fewer decisions a round: one in so many.
    pub(crate) thinning: u64,
    /// With how many keys `memory` weighs it; none at all if zero.
    pub(crate) memory_keys: u64,
    /// Whether `pause` looks for its longest call.
    pub(crate) pauses: bool,
}

impl Contender {
    /// Takes part in `memory`, and in `decide` where all do; override the fields that differ.
    const fn new(name: &'static str, make: fn(&Setting) -> Box<dyn Subject>) -> Self {
        let decides = |workload: &Workload| workload.field == Field::All;
        Self { name, make, decides, thinning: 1, memory_keys: TEN_MILLION, pauses: false }
    }
}

/// What every ratio is to.
pub(crate) const BASE: &str = governor::CONTENDER.name;

/// The least that the usual case can cost.
pub(crate) const BARE: &str = bare::CONTENDER.name;

/// In the order of the tables.
pub(crate) const CONTENDERS: &[Contender] = &[
    floor::CONTENDER,
    bare::CONTENDER,
    tidegate::TOKEN_BUCKET,
    tidegate::GCRA,
    tidegate::FIXED_WINDOW,
    tidegate::SLIDING_WINDOW,
    governor::CONTENDER,
    ratelimit::CONTENDER,
    throttlecrab::PERIODIC,
    throttlecrab::ADAPTIVE,
    pingora::CONTENDER,
    trypema::CONTENDER,
    limitador::CONTENDER,
];

const MILLION: u64 = 1_000_000;
const TEN_MILLION: u64 = 10 * MILLION;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::setting::{Form, Quota};

    #[test]
    fn every_contender_admits_its_burst_and_then_refuses() {
        let quota = Quota { per: Duration::from_hours(10), burst: 2 };
        for contender in CONTENDERS {
            let subject = (contender.make)(&Setting { keys: 2, quota, form: Form::Text });
            let key = Key::numbered(1);
            let admitted = (0..10).filter(|_| subject.decide(&key)).count();
            assert!((1..=2).contains(&admitted), "{}: {admitted} of 10", contender.name);
        }
    }

    #[test]
    fn numbers_and_texts_are_admitted_alike() {
        let keys: Vec<Key> = (0..1000).map(|draw| Key::numbered(draw * 37 % 100)).collect();
        let tape = Tape::new(&keys, 1);
        for contender in CONTENDERS.iter().filter(|it| (it.decides)(&crate::usual::EXAMPLE)) {
            let quota = Quota { per: Duration::from_hours(10), burst: 4 };
            let [text, number] = [Form::Text, Form::Number]
                .map(|form| (contender.make)(&Setting { keys: 100, quota, form }));
            assert_eq!(text.play(&tape), number.play(&tape), "{}", contender.name);
            assert_eq!(text.play_batches(&tape), number.play_batches(&tape), "{}", contender.name);
        }
    }

    #[test]
    fn batches_and_single_decisions_admit_alike() {
        let keys: Vec<Key> = (0..1000).map(|draw| Key::numbered(draw * 37 % 100)).collect();
        let tape = Tape::new(&keys, 1);
        for contender in CONTENDERS {
            let quota = Quota { per: Duration::from_hours(10), burst: 4 };
            let setting = Setting { keys: 100, quota, form: Form::Text };
            let single = (contender.make)(&setting).play(&tape);
            let batched = (contender.make)(&setting).play_batches(&tape);
            assert_eq!(single, batched, "{}", contender.name);
        }
    }
}
