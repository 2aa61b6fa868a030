//! Libraries of other languages, by which tests talk to us as their users do.
//!
//! Every package is pinned by version and hash in a lock file. A folder whose copy of that file is
//! the same is left alone.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::output;

/// One folder of packages.
pub(super) struct Kit {
    /// What people call it.
    name: &'static str,
    /// What the testbed calls the folder.
    folder: &'static str,
    /// What is in it, for people.
    holds: &'static str,
    /// The files that pin it. The last is written last: it says that the kit is whole.
    files: &'static [(&'static str, &'static str)],
    install: fn(&Path) -> Result<()>,
}

pub(super) const PYTHON: Kit = Kit {
    name: "Python's kit",
    folder: "python",
    holds: "redis-py and schemathesis",
    files: &[("requirements.txt", include_str!("lock/python.txt"))],
    install: install_python,
};

pub(super) const NODE: Kit = Kit {
    name: "Node's kit",
    folder: "node",
    holds: "ioredis and node-redis",
    files: &[
        ("package.json", include_str!("lock/package.json")),
        ("package-lock.json", include_str!("lock/package-lock.json")),
    ],
    install: install_node,
};

impl Kit {
    /// Installs it unless the same is there, and gives its name if it cannot be had.
    pub(super) fn report(&self, servers: &Path) -> Option<&'static str> {
        super::report(self.name, self.holds, self.install_if_missing(&servers.join(self.folder)))
    }

    fn install_if_missing(&self, folder: &Path) -> Result<()> {
        let stamp = folder.join(STAMP);
        if fs::read_to_string(&stamp).is_ok_and(|text| text == self.pin()) {
            return Ok(());
        }
        println!("servers: fetching {}: {}", self.name, self.holds);
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot clear `{}`", folder.display()))?;
        }
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        for (name, text) in self.files {
            fs::write(folder.join(name), text)?;
        }
        (self.install)(folder)?;
        fs::write(&stamp, self.pin()).with_context(|| format!("cannot write `{}`", stamp.display()))
    }

    fn pin(&self) -> String {
        self.files.iter().map(|(_, text)| *text).collect()
    }
}

/// An environment of its own, filled by the pip of the system: it needs none within.
fn install_python(folder: &Path) -> Result<()> {
    let venv = ["-m", "venv", "--without-pip"].map(OsStr::new);
    output("python3", &[&venv[..], &[folder.as_os_str()]].concat())?;
    let python = folder.join("bin/python");
    let requirements = folder.join("requirements.txt");
    let mut call: Vec<&OsStr> = ["-m", "pip", "--python"].map(OsStr::new).to_vec();
    call.push(python.as_os_str());
    call.extend(PIP_INSTALL.iter().map(OsStr::new));
    call.push(requirements.as_os_str());
    output("python3", &call).map(drop)
}

fn install_node(folder: &Path) -> Result<()> {
    let mut call: Vec<&OsStr> = NPM_CI.iter().map(OsStr::new).collect();
    call.push(folder.as_os_str());
    output("npm", &call).map(drop)
}

const STAMP: &str = "installed.txt";
const PIP_INSTALL: &[&str] = &[
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--timeout=30",
    "--retries=2",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
    "--requirement",
];
// No script of a package runs here.
const NPM_CI: &[&str] =
    &["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_of_python_is_pinned_by_version_and_hash() {
        let (_, text) = PYTHON.files[0];
        for package in text.replace("\\\n", "").lines() {
            let (requirement, hashes) = package.split_once(' ').unwrap_or_default();
            assert!(requirement.contains("=="), "{package}");
            assert!(hashes.contains("--hash=sha256:"), "{package}");
        }
    }

    #[test]
    fn every_package_of_node_is_pinned_by_version_and_hash() {
        let lock: serde_json::Value = serde_json::from_str(NODE.files[1].1).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        assert!(2 < packages.len());
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["version"].is_string(), "{name}");
            assert!(package["integrity"].is_string(), "{name}");
        }
    }
}
