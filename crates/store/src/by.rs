//! By what a request was decided.

use std::fmt;

/// By what a request was decided.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum By {
    /// By the store: Redis, or this process where that is the store.
    #[default]
    Store,
    /// By a refusal of Redis that is remembered here: only time can change it.
    Remembered,
    /// Without Redis: let through.
    Open,
    /// Without Redis: by this node's share of the quota.
    Local,
    /// Without Redis: refused.
    Closed,
}

impl By {
    /// Whether the store had no say in it.
    pub const fn is_fallback(self) -> bool {
        matches!(self, By::Open | By::Local | By::Closed)
    }

    /// The name in metrics and headers.
    pub const fn name(self) -> &'static str {
        match self {
            By::Store => "store",
            By::Remembered => "remembered",
            By::Open => "open",
            By::Local => "local",
            By::Closed => "closed",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
