//! A temporary folder, removed with its owner.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use anyhow::{Context as _, Result};

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(what: &str) -> Result<Folder> {
        let name = format!("tidegate-{what}-{}-{:016x}", process::id(), chance());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path)
            .with_context(|| format!("cannot make the folder `{}`", path.display()))?;
        Ok(Folder { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary one fails no test.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// A number that differs every time, in every process.
pub(crate) fn chance() -> u64 {
    RandomState::new().hash_one(())
}
