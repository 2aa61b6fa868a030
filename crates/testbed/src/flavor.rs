//! Which program to run, and where it is.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::installed;

/// Which program to run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flavor {
    /// Redis as the system's packages have it. The only one here that speaks TLS.
    Redis,
    /// Valkey 9.
    Valkey,
    /// Redis 6.2.
    Redis62,
    /// Redis 5.0, which is too old for us: to see how it is refused.
    Old,
}

/// A server's version: major, minor, patch.
pub type Version = (u16, u16, u16);

impl Flavor {
    /// Those that are fit for use: all but [`Flavor::Old`].
    pub const FIT: [Flavor; 3] = [Flavor::Redis, Flavor::Valkey, Flavor::Redis62];

    /// Those that are fit for use and installed here.
    pub fn all_there() -> Vec<Flavor> {
        Flavor::FIT.into_iter().filter(|flavor| flavor.binary().is_ok()).collect()
    }

    /// Where the program is: in the folder that `TIDEGATE_SERVERS` names, in cargo's target folder
    /// where `cargo xtask servers` puts it, or in `PATH`.
    pub fn binary(self) -> Result<PathBuf> {
        installed::find(self.program())
    }

    /// What the program says its version is.
    pub fn version(self) -> Result<Version> {
        let binary = self.binary()?;
        let output = Command::new(&binary).arg("--version").output();
        let output = output.with_context(|| format!("`{}` does not start", binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        version_in(&text).with_context(|| format!("no version is in `{}`", text.trim_end()))
    }

    const fn program(self) -> &'static str {
        match self {
            Flavor::Redis => "redis-server",
            Flavor::Valkey => "valkey-server",
            Flavor::Redis62 => "redis-server-6.2",
            Flavor::Old => "redis-server-5.0",
        }
    }
}

fn version_in(text: &str) -> Option<Version> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    let mut parts = version.split('.').map(|part| part.parse::<u16>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(version_in(redis), Some((7, 0, 15)));
        assert_eq!(version_in("Valkey server v=9.1.2 sha=13710afe:0"), Some((9, 1, 2)));
        assert_eq!(version_in("something else"), None);
    }
}
