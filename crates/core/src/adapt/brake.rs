//! What lowers a limit for other reasons than the capacity that was measured: quickly down while
//! there is trouble, slowly back when it is over. What was learned stays as it is below it.

use super::Share;

/// Each calm beat gives back a twentieth.
const BACK: u32 = 20;

/// How much of what was learned is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brake {
    left: Share,
    floor: Share,
}

impl Brake {
    pub(super) fn new(floor: Share) -> Brake {
        Brake { left: Share::WHOLE, floor }
    }

    /// What is left, at least the floor.
    pub(super) fn left(self) -> Share {
        self.left
    }

    /// Takes one beat: down to the share `cut` of the present, or up if that is the whole.
    pub(super) fn beat(&mut self, cut: Share) {
        let left = if cut < Share::WHOLE {
            self.left.times(cut)
        } else {
            Share::from_millionths(self.left.get() + self.left.get() / BACK + 1)
        };
        self.left = left.clamp(self.floor, Share::WHOLE);
    }
}
