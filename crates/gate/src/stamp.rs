//! What files look like from outside, to see whether one of them was replaced.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, Metadata};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use tidegate_config::policy_files;

/// What a policy and the files that it refers to look like.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    looks: Vec<Look>,
    /// What is in them, as a number; not looked at each time.
    content: u64,
    /// Files that the policy refers to.
    beside: Vec<PathBuf>,
}

/// One file. Symlinks are followed: what counts is where they lead.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Look {
    path: PathBuf,
    length: u64,
    /// When it was written and what it is, as far as the system says.
    marks: [i64; 4],
}

impl Stamp {
    pub(crate) fn of(path: &Path, beside: &[PathBuf]) -> Stamp {
        let mut files = policy_files(path).unwrap_or_default();
        files.extend_from_slice(beside);
        let looks = files.into_iter().filter_map(look).collect();
        let mut stamp = Stamp { looks, content: 0, beside: beside.to_vec() };
        stamp.content = stamp.read();
        stamp
    }

    /// The stamp of the same files now. They are read if they look different, or if that is wanted.
    pub(crate) fn again(&self, path: &Path, reads: bool) -> Stamp {
        let mut files = policy_files(path).unwrap_or_default();
        files.extend_from_slice(&self.beside);
        let looks: Vec<Look> = files.into_iter().filter_map(look).collect();
        let mut stamp = Stamp { content: self.content, beside: self.beside.clone(), looks };
        if reads || stamp.looks != self.looks {
            stamp.content = stamp.read();
        }
        stamp
    }

    /// How these files look together with it; nothing if it has them all.
    pub(crate) fn with(&self, path: &Path, files: &[PathBuf]) -> Option<Stamp> {
        let own = policy_files(path).unwrap_or_default();
        let is_known = |file: &PathBuf| own.contains(file) || self.beside.contains(file);
        let mut beside = self.beside.clone();
        beside.extend(files.iter().filter(|file| !is_known(file)).cloned());
        (self.beside.len() < beside.len()).then(|| Stamp::of(path, &beside))
    }

    fn read(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for look in &self.looks {
            // A file that is larger than any policy is known by how it looks.
            let is_small = look.length <= tidegate_config::FILE_BYTES_MAX as u64;
            let bytes = is_small.then(|| fs::read(&look.path).ok()).flatten();
            bytes.hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn look(path: PathBuf) -> Option<Look> {
    let metadata = fs::metadata(&path).ok()?;
    Some(Look { path, length: metadata.len(), marks: marks(&metadata) })
}

#[cfg(unix)]
fn marks(metadata: &Metadata) -> [i64; 4] {
    use std::os::unix::fs::MetadataExt as _;
    let inode = i64::from_ne_bytes(metadata.ino().to_ne_bytes());
    [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime_nsec(), inode]
}

#[cfg(not(unix))]
fn marks(metadata: &Metadata) -> [i64; 4] {
    let mut hasher = DefaultHasher::new();
    metadata.modified().ok().hash(&mut hasher);
    [i64::from_ne_bytes(hasher.finish().to_ne_bytes()), 0, 0, 0]
}
