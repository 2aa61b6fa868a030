//! What somebody asks for.

use tidegate_core::fair::{Class, Path, Request};
use tidegate_core::{Span, Tick};

/// Who asks for how much, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) path: Path,
    pub(crate) class: Class,
    pub(crate) cost: u32,
    pub(crate) within: Span,
}

impl Wanted {
    /// The request as the queue takes it, with the last tick at which it may start.
    pub(crate) fn request(self, deadline: Tick) -> Request {
        let Wanted { path, class, cost, .. } = self;
        Request { path, class, cost: cost.max(1), deadline }
    }
}
