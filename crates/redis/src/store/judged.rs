//! What the store says of a request.

use tidegate_core::{Decision, Receipt, Verdict};

use crate::found::{Answers, One};
use crate::gather::Decided;

/// What all limits said of one request.
#[derive(Debug)]
#[must_use]
pub struct Judged {
    pub(super) verdict: Verdict,
    pub(super) answers: Answers,
    pub(super) is_remembered: bool,
}

impl Judged {
    /// The verdict of all together.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What each limit said, in the order in which they were given.
    pub fn each(&self) -> impl ExactSizeIterator<Item = &Decision> {
        self.answers.iter().map(|one| &one.decision)
    }

    /// By how many cells each limit is overdrawn, in the same order.
    pub fn overdrawn(&self) -> impl ExactSizeIterator<Item = u32> {
        self.answers.iter().map(|one| one.overdrawn)
    }

    /// What was charged, limit by limit; each can be refunded once.
    pub fn into_receipts(self) -> impl Iterator<Item = Option<Receipt>> {
        self.answers.into_iter().map(|one| one.receipt)
    }

    /// Whether it was refused without asking Redis, because Redis had refused it before.
    pub fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    pub(super) fn never() -> Judged {
        Judged { verdict: Verdict::Never, answers: Answers::new(), is_remembered: false }
    }

    pub(super) fn into_first(self) -> One {
        let verdict = self.verdict;
        self.answers.into_iter().next().unwrap_or(One {
            decision: Decision::of_no_limit(verdict),
            receipt: None,
            overdrawn: 0,
        })
    }
}

impl From<Decided> for Judged {
    fn from(Decided { verdict, answers }: Decided) -> Judged {
        Judged { verdict, answers, is_remembered: false }
    }
}
