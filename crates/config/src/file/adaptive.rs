//! `adaptive`: which rules give way under load, and how far.

use tidegate_core::Kind;
use tidegate_core::adapt::Share;

use super::Reading;
use crate::quantity;
use crate::read::Fields;

impl Reading<'_> {
    /// The part of the rule's limits that is left whatever the load; nothing if they stay.
    pub(super) fn read_adaptive(&mut self, fields: &Fields<'_>, kind: Kind) -> Option<Share> {
        let node = fields.get("adaptive")?;
        let text = node.scalar("adaptive", &mut self.problems)?;
        let floor = match quantity::share(&text) {
            Ok(floor) => Share::from_millionths(u32::from(floor) * 100),
            Err(misread) => {
                self.misread(node.at, misread);
                return None;
            }
        };
        if floor == Share::NONE {
            let problem = self.problems.error(node.at, "a rule that gives way to nothing blocks");
            problem.help("write the smallest part that is left under load, as in `20%`");
            return None;
        }
        if kind == Kind::Concurrency {
            let problem = self.problems.error(node.at, "`concurrency` is not `adaptive`");
            problem.help("leave it out: it is for rates, such as `100/min`");
            return None;
        }
        Some(floor)
    }
}
