//! Why a snapshot cannot be read.

use std::{fmt, io};

use crate::memory::TooManyRules;

/// Why a snapshot cannot be read. Nothing of it has been put anywhere then.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is cut off, or its bytes are not those that were written.
    Damaged {
        /// Where that was noticed.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// It was written where keys are hashed in another way: by another version, or on a machine of
    /// another kind. None of its states would be found.
    Hashing,
    /// It cannot be read at all.
    Io(io::Error),
    /// It was written by a version that is newer than this one.
    Newer {
        /// The version of the file.
        version: u32,
    },
    /// It is something else.
    NotASnapshot,
    /// It has more rules than a store can name.
    TooManyRules,
}

impl SnapshotError {
    /// Whether the file itself is to blame: reading it again would end in the same way.
    pub const fn is_damaged(&self) -> bool {
        !matches!(self, SnapshotError::Io(_))
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Damaged { at, what } => {
                write!(f, "the snapshot is damaged at byte {at}: {what}")
            }
            SnapshotError::Hashing => f.write_str(
                "the snapshot was written by a build that hashes keys in another way: its states \
                 cannot be found by this one",
            ),
            SnapshotError::Io(error) => write!(f, "the snapshot cannot be read: {error}"),
            SnapshotError::Newer { version } => write!(
                f,
                "the snapshot is of format {version}, and this version reads format {}: start the \
                 version that wrote it, or put the file aside",
                super::header::VERSION
            ),
            SnapshotError::NotASnapshot => f.write_str("the file is not a snapshot of Tidegate"),
            SnapshotError::TooManyRules => {
                write!(f, "the snapshot has too many rules: {TooManyRules}")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let SnapshotError::Io(error) = self { Some(error) } else { None }
    }
}

impl From<TooManyRules> for SnapshotError {
    fn from(_: TooManyRules) -> SnapshotError {
        SnapshotError::TooManyRules
    }
}
