//! Whose turn it is among the classes: the highest, except for the floor of the lower ones.
//!
//! A class that has requests is owed its floor of everything that is served. What it gets because
//! nobody above it has anything is not held against it.

use super::path::Class;

#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    floors: [u16; Class::ALL.len()],
    /// Thousandths of cells. Below zero is what a class was given ahead.
    owed: [i64; Class::ALL.len()],
}

/// A class whose turn it is, and whether because of its floor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Chosen {
    pub(super) class: Class,
    pub(super) by_floor: bool,
}

impl Classes {
    pub(super) fn new(floors: [u16; Class::ALL.len()]) -> Classes {
        Classes { floors, owed: [0; Class::ALL.len()] }
    }

    /// The class whose turn it is, of those that have requests.
    pub(super) fn choose(&self, has_requests: impl Fn(Class) -> bool) -> Option<Chosen> {
        let highest = Class::ALL.into_iter().find(|class| has_requests(*class))?;
        let below = Class::ALL.into_iter().filter(|class| highest < *class && has_requests(*class));
        let owed = |class: &Class| self.owed[class.index()];
        let most = below.filter(|class| 0 < owed(class)).max_by_key(owed);
        let class = most.unwrap_or(highest);
        Some(Chosen { class, by_floor: most.is_some() })
    }

    /// `cost` cells of a class were served.
    pub(super) fn served(
        &mut self,
        chosen: Chosen,
        cost: u32,
        has_requests: impl Fn(Class) -> bool,
    ) {
        let cost = i64::from(cost);
        for class in Class::ALL {
            let owed = &mut self.owed[class.index()];
            *owed += cost * i64::from(self.floors[class.index()]);
            if chosen.by_floor && class == chosen.class {
                *owed -= cost * 1_000;
            }
            // Who has nothing to be served is owed nothing, and pays back what it was given.
            if !has_requests(class) {
                *owed = (*owed).min(0);
            }
        }
    }
}
