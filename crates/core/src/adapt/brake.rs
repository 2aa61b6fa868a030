//! What lowers a limit for other reasons than the capacity that was measured: quickly down while
//! there is trouble, slowly back when it is over. What was learned stays as it is below it.

use super::Fraction;
use super::signals::Heard;

/// Each calm beat gives back a twentieth.
const BACK: u32 = 20;

/// How much of what was learned is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brake {
    left: Fraction,
    floor: Fraction,
    /// What each word that still counts allows at most.
    ceilings: [Fraction; 2],
}

impl Brake {
    pub(super) fn new(floor: Fraction) -> Brake {
        Brake { left: Fraction::WHOLE, floor, ceilings: [Fraction::WHOLE; 2] }
    }

    /// Goes no lower than this from the next beat on.
    pub(super) fn set_floor(&mut self, floor: Fraction) {
        self.floor = floor;
    }

    /// What is left, at least the floor.
    pub(super) fn left(self) -> Fraction {
        self.left
    }

    /// Takes one beat: down to the share `cut` of the present, or up if that is the whole; and no
    /// higher than words allow.
    ///
    /// A word is about what was let through when it was said. So it moves the brake once, however
    /// many beats pass until the next word: a service that reports every few seconds would
    /// otherwise be throttled further and further for what was true before.
    pub(super) fn beat(&mut self, cut: Fraction, words: [Option<Heard>; 2]) {
        for (ceiling, word) in self.ceilings.iter_mut().zip(words) {
            match word {
                Some(word) if word.is_new => *ceiling = self.left.times(word.allows),
                Some(_) => {}
                None => *ceiling = Fraction::WHOLE,
            }
        }
        let left = if cut < Fraction::WHOLE {
            self.left.times(cut)
        } else {
            Fraction::from_millionths(self.left.get() + self.left.get() / BACK + 1)
        };
        let [pressure, load] = self.ceilings;
        self.left = left.min(pressure).min(load).clamp(self.floor, Fraction::WHOLE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Controller, Fraction, Settings};
    use crate::tick::{Span, Tick};

    fn percent(percent: u8) -> Fraction {
        Fraction::from_percent(percent)
    }

    /// The factor after so many beats.
    fn after(controller: &mut Controller, now: &mut Tick, beats: u32) -> Fraction {
        for _ in 0..beats {
            *now = now.after(Span::from_millis(100));
            controller.advance(*now);
        }
        controller.factor()
    }

    #[test]
    fn a_word_moves_the_brake_once_however_many_beats_pass() {
        let mut now = Tick::from_micros(0);
        let mut controller = Controller::new(Settings::default(), now).unwrap();
        controller.load(now, percent(125));
        assert_eq!(after(&mut controller, &mut now, 1), percent(80));
        assert_eq!(after(&mut controller, &mut now, 50), percent(80));
        controller.load(now, percent(125));
        assert_eq!(after(&mut controller, &mut now, 50), percent(64));
        controller.pressure(now, percent(100));
        assert_eq!(after(&mut controller, &mut now, 20), percent(32));
    }

    #[test]
    fn a_service_with_room_gets_as_much_more_as_it_said_and_all_when_it_says_no_more() {
        let mut now = Tick::from_micros(0);
        let mut controller = Controller::new(Settings::default(), now).unwrap();
        controller.load(now, percent(200));
        assert_eq!(after(&mut controller, &mut now, 1), percent(50));
        controller.load(now, percent(80));
        assert_eq!(after(&mut controller, &mut now, 90), Fraction::from_millionths(625_000));
        // The word lapses after ten seconds.
        assert_eq!(after(&mut controller, &mut now, 40), Fraction::WHOLE);
    }

    #[test]
    fn a_service_that_reports_every_five_seconds_settles_at_what_it_can_bear() {
        let mut now = Tick::from_micros(0);
        let mut controller = Controller::new(Settings::default(), now).unwrap();
        for round in 0..40 {
            // It is asked for three times what it can bear, of which the factor is let through.
            let load = Fraction::from_millionths(controller.factor().get() * 3);
            controller.load(now, load);
            let factor = after(&mut controller, &mut now, 50);
            assert!(round < 5 || (330_000..=335_000).contains(&factor.get()), "{round} {factor}");
        }
    }
}
