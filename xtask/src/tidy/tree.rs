//! Reads the files that belong to the project: those git tracks, and those it soon may.

use std::path::Path;
use std::process::Command;
use std::{fs, str};

use anyhow::{Context as _, Result, bail};

use super::source::File;

/// Every file that git does not ignore. Of files that are not text, only the name is kept.
pub(crate) fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in list(root)? {
        // A file that was deleted but not yet from the index is no longer ours.
        if let Ok(bytes) = fs::read(root.join(&path)) {
            files.push(File::new(&path, str::from_utf8(&bytes).unwrap_or_default()));
        }
    }
    Ok(files)
}

fn list(root: &Path) -> Result<Vec<String>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(args).output();
    let output = output.context("tidy asks git which files are ours, and git does not start")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut names: Vec<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // During a merge, one path is listed once per side.
    names.sort();
    names.dedup();
    Ok(names)
}
