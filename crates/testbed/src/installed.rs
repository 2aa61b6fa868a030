//! Where programs are: in the folder that `TIDEGATE_SERVERS` names, in cargo's target folder where
//! `cargo xtask servers` puts them, or in `PATH`.

use std::path::{Path, PathBuf};
use std::{env, iter};

use anyhow::{Context as _, Result};

/// The first file of that name, which may lie in a folder of its own.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    let mut candidates = folders().into_iter().map(|folder| folder.join(name));
    candidates
        .find(|path| path.is_file())
        .with_context(|| format!("there is no `{name}` here; install it: `cargo xtask servers`"))
}

fn folders() -> Vec<PathBuf> {
    let named = env::var_os("TIDEGATE_SERVERS").map(PathBuf::from);
    // A test runs from within cargo's target folder, wherever that is.
    let around = above(env::current_exe().ok(), "servers");
    let package = above(env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from), "target/servers");
    let here = above(env::current_dir().ok(), "target/servers");
    let path = env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = env::split_paths(&path).collect();
    named.into_iter().chain(around).chain(package).chain(here).chain(path).collect()
}

/// `folder` beside `start` and beside every folder above it.
fn above(start: Option<PathBuf>, folder: &str) -> Vec<PathBuf> {
    let start = start.unwrap_or_default();
    iter::successors(start.parent(), |path| path.parent())
        .chain(iter::once(start.as_path()))
        .filter(|path| path.is_absolute())
        .map(|path: &Path| path.join(folder))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_above_are_looked_into() {
        let found = above(Some("/a/b".into()), "target/servers");
        let wanted = ["/a/target/servers", "/target/servers", "/a/b/target/servers"];
        assert_eq!(found, wanted.map(PathBuf::from));
        assert!(above(None, "target/servers").is_empty());
    }

    #[test]
    fn what_is_not_there_is_told_how_to_get() {
        let error = find("no-such-program").expect_err("there is none").to_string();
        assert_eq!(error, "there is no `no-such-program` here; install it: `cargo xtask servers`");
    }
}
