//! `cargo xtask proto`: Rust for the messages of Envoy's rate limit service.
//!
//! What it makes is committed, so that nobody needs a compiler for protocol buffers; a test makes
//! it again and compares. It stands behind the feature `proto` because of what it takes to build.

#[cfg(feature = "proto")]
mod generate;
#[cfg(feature = "proto")]
mod prune;

use std::path::Path;

use anyhow::Result;

/// Writes the generated code.
#[cfg(feature = "proto")]
pub(crate) fn run(root: &Path) -> Result<()> {
    for (path, bytes) in generate::files(root)? {
        std::fs::write(root.join(&path), bytes)?;
        println!("proto: {path}");
    }
    Ok(())
}

/// Builds this task with what it takes, and runs that.
#[cfg(not(feature = "proto"))]
pub(crate) fn run(root: &Path) -> Result<()> {
    let call = ["run", "--quiet", "--locked", "--package", "xtask", "--features", "proto"];
    let mut again = crate::cargo::cargo(root, &[&call[..], &["--", "proto"]].concat());
    anyhow::ensure!(again.status()?.success(), "the code was not generated");
    Ok(())
}
