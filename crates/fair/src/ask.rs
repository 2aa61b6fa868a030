//! One request, said in full: whose it is, what it costs, how much it matters.

use std::hash::Hash;

use tidegate_core::Span;
use tidegate_core::fair::{Class, Path, Weight};
use tidegate_store::block_on;

use crate::FairQueue;
use crate::acquire::{Acquire, Begun};
use crate::permit::Permit;
use crate::refused::Refused;
use crate::wanted::Wanted;

/// A request that does not wait yet.
///
/// ```
/// use std::time::Duration;
/// use tidegate_fair::{Class, FairQueue, Settings};
///
/// let settings = Settings { levels: 2, ..Settings::default() };
/// let queue = FairQueue::in_flight(100).settings(settings).build();
/// let permit = queue
///     .of("acme")
///     .weight(3)
///     .then("a.smith")
///     .class(Class::High)
///     .cost(5)
///     .acquire_blocking(Duration::from_millis(100))?;
/// assert_eq!(queue.stats().in_flight, 5);
/// drop(permit);
/// # Ok::<(), tidegate_fair::Refused>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nobody waits yet"]
pub struct Ask<'a> {
    queue: &'a FairQueue,
    path: Path,
    /// The name that `weight` is for.
    before: Option<Path>,
    last: u64,
    class: Class,
    cost: u32,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(queue: &'a FairQueue, name: u64) -> Ask<'a> {
        let path = Path::of(name, Weight::ONE);
        Ask { queue, path, before: None, last: name, class: Class::Normal, cost: 1 }
    }

    /// One name further in: a tenant of an organization, a user of a tenant. A queue looks at as
    /// many as it has levels.
    pub fn then(mut self, name: impl Hash) -> Ask<'a> {
        self.before = Some(self.path);
        self.last = self.queue.name(name);
        self.path = self.path.then(self.last, Weight::ONE);
        self
    }

    /// The weight of the name that was said last, among its siblings. Without it, one.
    pub fn weight(mut self, weight: u32) -> Ask<'a> {
        let weight = Weight::new(weight);
        self.path = match self.before {
            None => Path::of(self.last, weight),
            Some(before) => before.then(self.last, weight),
        };
        self
    }

    /// How much it matters.
    pub fn class(mut self, class: Class) -> Ask<'a> {
        self.class = class;
        self
    }

    /// What it takes, in cells. Without it, one; [`Permit::complete`] puts a wrong guess right.
    pub fn cost(mut self, cells: u32) -> Ask<'a> {
        self.cost = cells;
        self
    }

    /// Waits for its turn, for at most `within`. Dropping the future gives the turn to the next.
    pub fn acquire(self, within: impl Into<Span>) -> Acquire {
        Acquire::new(self.queue.shared.clone(), self.wanted(within.into()))
    }

    /// Asks now, without waiting to be polled: where there is room, there is nothing to await, and
    /// nobody is asked how long it may take.
    ///
    /// ```
    /// use tidegate_core::Span;
    /// use tidegate_fair::{Begun, FairQueue};
    ///
    /// let queue = FairQueue::in_flight(1).build();
    /// let Begun::Now(Ok(permit)) = queue.of("acme").begin(|| Span::ZERO) else {
    ///     panic!("there is a place");
    /// };
    /// # drop(permit);
    /// ```
    pub fn begin(self, within: impl FnOnce() -> Span) -> Begun {
        let shared = &self.queue.shared;
        let wanted = self.wanted(Span::ZERO);
        match shared.start_at_once(wanted) {
            Some(permit) => Begun::Now(Ok(permit)),
            None => Begun::new(shared, self.wanted(within())),
        }
    }

    fn wanted(&self, within: Span) -> Wanted {
        let Ask { path, class, cost, .. } = *self;
        Wanted { path, class, cost, within }
    }

    /// Waits as [`Ask::acquire`] does, for code that is not async: blocks the thread.
    pub fn acquire_blocking(self, within: impl Into<Span>) -> Result<Permit, Refused> {
        block_on(self.acquire(within))
    }
}
