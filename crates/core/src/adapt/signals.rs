//! What is heard between two beats: answers, our own queue, the host, and the service itself.
//!
//! A beat asks for a share to keep: the whole if all is well. The worst signal decides, and a
//! worse signal never keeps more.

use super::{Fraction, Settings};
use crate::tick::{Span, Tick};

/// Fewer answers than this are not a share of failures.
const ENDED_MIN: u32 = 16;
/// A word about load counts for so long unless it is renewed.
const WORD_LASTS: Span = Span::from_secs(10);
/// No single beat takes more than this share, so that one wrong signal does not stop a service.
const CUT_MIN: Fraction = Fraction::from_percent(50);
/// What failures and a standing queue leave.
const CUT_HARD: Fraction = Fraction::from_percent(70);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    ended: u32,
    failed: u32,
    /// The shortest time that a request stood in our queue, if one left it.
    waited_min: Option<Span>,
    pressure: Option<Word>,
    load: Option<Word>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    said: Fraction,
    until: Tick,
    /// Whether no beat has heard it yet.
    is_new: bool,
}

/// What a word allows, of what is left when it is new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) allows: Fraction,
    pub(super) is_new: bool,
}

impl Signals {
    pub(super) fn waited(&mut self, waited: Span) {
        self.waited_min = Some(self.waited_min.map_or(waited, |least| least.min(waited)));
    }

    pub(super) fn ended(&mut self, failed: bool) {
        self.ended = self.ended.saturating_add(1);
        self.failed = self.failed.saturating_add(failed.into());
    }

    pub(super) fn pressure(&mut self, said: Fraction, now: Tick) {
        self.pressure = Some(Word::new(said, now));
    }

    pub(super) fn load(&mut self, said: Fraction, now: Tick) {
        self.load = Some(Word::new(said, now));
    }

    /// Whether enough was heard to judge answers by.
    fn is_full(&self) -> bool {
        ENDED_MIN <= self.ended
    }

    /// What was said about pressure and load, and still counts.
    pub(super) fn words(&self, settings: &Settings, now: Tick) -> [Option<Heard>; 2] {
        let heard = |word: Option<Word>, allows: &dyn Fn(Fraction) -> Fraction| {
            let Word { said, is_new, .. } = word.filter(|word| now < word.until)?;
            Some(Heard { allows: allows(said), is_new })
        };
        let pressure = |said| pressure_allows(settings, said);
        [heard(self.pressure, &pressure), heard(self.load, &load_allows)]
    }

    /// What failures leave.
    pub(super) fn failures_cut(&self, settings: &Settings) -> Fraction {
        let fraction = Fraction::of(self.failed.into(), self.ended.into());
        if self.is_full() && settings.failures_max < fraction { CUT_HARD } else { Fraction::WHOLE }
    }

    /// What to keep of the rates: the same, and the queue that stands before the service.
    pub(super) fn queue_cut(&self, settings: &Settings) -> Fraction {
        let target = settings.queue_target.get().max(1);
        let over = self.waited_min.unwrap_or_default().get().saturating_sub(target);
        let half = Fraction::of(over, target.saturating_mul(2)).get();
        Fraction::from_millionths(Fraction::WHOLE.get().saturating_sub(half)).max(CUT_HARD)
    }

    /// Begins another beat. What was said about load and pressure goes on, and answers are
    /// gathered until there are enough of them.
    pub(super) fn clear(&mut self) {
        self.waited_min = None;
        for word in [&mut self.pressure, &mut self.load].into_iter().flatten() {
            word.is_new = false;
        }
        if self.is_full() {
            (self.ended, self.failed) = (0, 0);
        }
    }
}

impl Word {
    fn new(said: Fraction, now: Tick) -> Word {
        Word { said, until: now.after(WORD_LASTS), is_new: true }
    }
}

/// Falls evenly from the whole, at the highest pressure that is fine, to what is kept at all. Below
/// that it allows anything.
fn pressure_allows(settings: &Settings, pressure: Fraction) -> Fraction {
    if pressure <= settings.pressure_max {
        return Fraction::from_millionths(u32::MAX);
    }
    let over = pressure.get() - settings.pressure_max.get();
    let room = Fraction::WHOLE.get().saturating_sub(settings.pressure_max.get());
    let lost = CUT_MIN.times(Fraction::of(over.into(), room.into()));
    Fraction::from_millionths(Fraction::WHOLE.get().saturating_sub(lost.get())).max(CUT_MIN)
}

/// A service that is asked for twice what it wants is asked for half; one that is asked for half
/// can be asked for twice as much.
fn load_allows(load: Fraction) -> Fraction {
    Fraction::of(Fraction::WHOLE.get().into(), load.get().into()).max(CUT_MIN)
}
