//! Whose a request is: a path of up to three names, and a class.
//!
//! Names are numbers: hash what you have with a seed that nobody outside knows, or count.

use super::weight::Weight;

/// A flow by its names, from the outside in: organization, tenant, user.
///
/// Every name comes with its weight among its siblings; a weight that has changed counts from the
/// flow's next turn. A queue looks at as many names as it has levels. What a path does not name is
/// one flow of its own.
///
/// ```
/// use tidegate_core::fair::{Path, Weight};
///
/// let tenant = Path::of(7, Weight::new(3));
/// let user = tenant.then(1_001, Weight::ONE);
/// assert_eq!((tenant.len(), user.len()), (1, 2));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Path {
    shares: [Step; Path::LEN_MAX],
    len: u8,
}

/// One name of a path, with its weight.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Step {
    pub(super) name: u64,
    pub(super) weight: Weight,
}

impl Path {
    /// The most names that a path has.
    pub const LEN_MAX: usize = 3;

    /// The path of one name.
    pub const fn of(name: u64, weight: Weight) -> Path {
        let rest = Step { name: 0, weight: Weight::ONE };
        Path { shares: [Step { name, weight }, rest, rest], len: 1 }
    }

    /// The path one name further in. After three names there is none, and the path stays as it is.
    #[must_use]
    pub const fn then(mut self, name: u64, weight: Weight) -> Path {
        if (self.len as usize) < Path::LEN_MAX {
            self.shares[self.len as usize] = Step { name, weight };
            self.len += 1;
        }
        self
    }

    /// How many names it has; never none.
    #[expect(clippy::len_without_is_empty, reason = "a path has a name")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// The shares that a queue of so many levels looks at.
    pub(super) fn shares(&self, levels: usize) -> &[Step] {
        &self.shares[..levels.min(Path::LEN_MAX)]
    }
}

/// How much a request matters. Classes come before weights: a higher one is served first, except
/// for the floor that every lower one has.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// Served before everything else.
    Critical,
    /// Somebody is waiting for it.
    High,
    /// What has no other class.
    #[default]
    Normal,
    /// Whenever there is time.
    Low,
}

impl Class {
    /// All of them, the highest first.
    pub const ALL: [Class; 4] = [Class::Critical, Class::High, Class::Normal, Class::Low];

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}
