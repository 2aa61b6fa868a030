//! `adaptive`: which rules and shares give way under load, and how far.

use tidegate_core::Kind;
use tidegate_core::adapt::{Fraction, Settings};

use super::Reading;
use crate::quantity;
use crate::read::Fields;
use crate::share::Capacity;
use crate::source::Node;

impl Reading<'_> {
    /// The part of the rule's limits that is left whatever the load; nothing if they stay.
    pub(super) fn read_adaptive(&mut self, fields: &Fields<'_>, kind: Kind) -> Option<Fraction> {
        let node = fields.get("adaptive")?;
        let floor = self.read_floor(node)?;
        if kind == Kind::Concurrency {
            let problem = self.problems.error(node.at, "`concurrency` is not `adaptive`");
            problem.help(
                "leave it out: it is for rates, such as `100/min`, and for a `share` of what is \
                 in flight",
            );
            return None;
        }
        Some(floor)
    }

    /// What a share with `adaptive` has to share: between the floor and what it would have else.
    pub(super) fn adaptive_capacity(
        &mut self,
        node: &Node,
        capacity: Capacity,
    ) -> Option<Capacity> {
        let floor = self.read_floor(node)?;
        let Capacity::InFlight(most) = capacity else {
            let problem = self.problems.error(node.at, "a rate is not found out");
            problem.help("leave it out, or write so many at a time, as in `500 in flight`");
            return None;
        };
        if Settings::LIMIT_MAX < most {
            let message = format!("what is found out is at most {} in flight", Settings::LIMIT_MAX);
            self.problems.error(node.at, message).help("lower the capacity, or leave this out");
            return None;
        }
        let least = u32::try_from(floor.of_amount(most.into())).unwrap_or(most).max(1);
        Some(Capacity::Adaptive { least, most })
    }

    fn read_floor(&mut self, node: &Node) -> Option<Fraction> {
        let text = node.scalar("adaptive", &mut self.problems)?;
        let floor = match quantity::share(&text) {
            Ok(floor) => Fraction::from_millionths(u32::from(floor) * 100),
            Err(misread) => {
                self.misread(node.at, misread);
                return None;
            }
        };
        if floor == Fraction::NONE {
            let problem = self.problems.error(node.at, "what gives way to nothing blocks");
            problem.help("write the smallest part that is left under load, as in `20%`");
            return None;
        }
        Some(floor)
    }
}
