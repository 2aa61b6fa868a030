//! A turn, for as long as it lasts.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_core::adapt::Outcome;

use crate::shared::Shared;
use crate::slot::Grant;

/// A request that is being served. Dropping it says that it is done, and took what it was taken
/// for; but not what came of it.
#[derive(Debug)]
#[must_use = "dropping it gives the place to the next"]
pub struct Permit {
    held: Option<(Arc<Shared>, Grant)>,
    waited: Span,
}

impl Permit {
    pub(crate) fn new(shared: Arc<Shared>, grant: Grant) -> Permit {
        Permit { waited: grant.waited, held: Some((shared, grant)) }
    }

    /// It was served, and took `actual` cells: its tenant pays or is paid the difference.
    pub fn complete(self, actual: u32) {
        self.finish(actual, Outcome::Served);
    }

    /// As [`Permit::complete`], with any outcome. Where the queue finds out how much there is,
    /// nothing else informs it of the service; a request that is dropped without an outcome counts
    /// as abandoned.
    pub fn finish(mut self, actual: u32, outcome: Outcome) {
        self.end(Some(actual), outcome);
    }

    /// It was not served after all: it is as if it had never had its turn, and nobody pays for it.
    pub fn undo(mut self) {
        if let Some((shared, grant)) = self.held.take() {
            shared.undo(grant);
        }
    }

    /// How long it waited.
    pub fn waited(&self) -> Span {
        self.waited
    }

    fn end(&mut self, actual: Option<u32>, outcome: Outcome) {
        if let Some((shared, grant)) = self.held.take() {
            let actual = actual.unwrap_or(grant.ticket.estimate());
            shared.give_back(grant, actual, outcome);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(None, Outcome::Abandoned);
    }
}
