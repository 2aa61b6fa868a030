//! Builds the servers that `cargo xtask bench doors` puts ours beside, once, into the target
//! folder.
//!
//! Talks on stderr only: what a measurement prints may be read by a machine.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{cargo, target_dir};

/// Builds what is missing. What cannot be built is said, and measured as not there.
pub(crate) fn install(root: &Path) -> Result<()> {
    let folder = target_dir(root)?.join("peers");
    for (name, build) in PEERS {
        if let Err(error) = build(root, &folder) {
            eprintln!("bench: going on without {name}: {error:#}");
        }
    }
    Ok(())
}

/// What a peer is called, and what builds it.
type Peer = (&'static str, fn(&Path, &Path) -> Result<()>);

const PEERS: [Peer; 2] = [("throttlecrab-server", throttlecrab), ("redis-cell", redis_cell)];

fn throttlecrab(root: &Path, folder: &Path) -> Result<()> {
    if folder.join("bin/throttlecrab-server").is_file() {
        return Ok(());
    }
    eprintln!("bench: building throttlecrab-server {THROTTLECRAB}, once; this takes minutes");
    let folder = folder.to_str().context("the target folder has a name in UTF-8")?;
    let version = format!("throttlecrab-server@{THROTTLECRAB}");
    run(root, &["install", "--quiet", "--locked", "--root", folder, &version])
}

/// A module is no program that cargo could install: it is built as what a package of ours needs.
fn redis_cell(root: &Path, folder: &Path) -> Result<()> {
    let place = folder.join("lib/libredis_cell.so");
    if place.is_file() {
        return Ok(());
    }
    eprintln!("bench: building redis-cell {REDIS_CELL}, once");
    let package = folder.join("redis-cell");
    fs::create_dir_all(&package)?;
    fs::create_dir_all(folder.join("lib"))?;
    fs::write(package.join("empty.rs"), "")?;
    let manifest = package.join("Cargo.toml");
    fs::write(&manifest, MANIFEST.replace("VERSION", REDIS_CELL))?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a name in UTF-8");
    let (manifest, built) = (text(&manifest)?, text(&package.join("build"))?);
    let place_of = ["--manifest-path", &manifest, "--target-dir", &built];
    let call = ["build", "--quiet", "--release", "--package", "redis-cell"];
    run(root, &[&call[..], &place_of].concat())?;
    fs::copy(package.join("build/release/libredis_cell.so"), place)?;
    Ok(())
}

fn run(root: &Path, args: &[&str]) -> Result<()> {
    let status = cargo(root, args).status().context("cargo does not start")?;
    ensure!(status.success(), "cargo failed; what it said is above");
    Ok(())
}

const THROTTLECRAB: &str = "0.4.40";
const REDIS_CELL: &str = "0.2.2";
const MANIFEST: &str = "\
[package]
name = \"peer\"
version = \"0.0.0\"
edition = \"2024\"

[lib]
path = \"empty.rs\"

[dependencies]
redis-cell = \"=VERSION\"

[workspace]
";
