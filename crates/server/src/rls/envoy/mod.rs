//! Decides by envoyproxy/ratelimit's own files.
//!
//! Limits are plain ones of the gate, named by their place in the files: so a changed number keeps
//! what was counted. Keys are the domain and every key and value, each a part of its own.

mod judge;
mod matched;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_config::{EnvoyLoaded, EnvoyRules, LoadError};
use tidegate_core::WithoutStore;
use tidegate_gate::{AdhocLimit, Gate, Reloaded, Watch};

use super::fields::shown_name;
use super::overrides::plain;

/// A folder of envoyproxy/ratelimit's files, in force.
#[derive(Clone, Debug)]
pub struct EnvoyConfig {
    gate: Gate,
    without: WithoutStore,
    path: PathBuf,
    current: Arc<ArcSwap<InForce>>,
}

/// The files as they were read last, with the limits that the gate keeps for them.
#[derive(Debug, Default)]
struct InForce {
    rules: EnvoyRules,
    /// In the order of the rules' limits.
    limits: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Nothing where nothing is counted: without limit, or with none left.
    plain: Option<AdhocLimit>,
    /// What clients call it.
    shown: Box<str>,
}

impl EnvoyConfig {
    /// Reads the folder at `path`. `without` is what limits do while Redis does not answer; with
    /// nothing, callers get errors.
    pub fn open(
        gate: &Gate,
        path: impl AsRef<Path>,
        without: Option<WithoutStore>,
    ) -> Result<EnvoyConfig, EnvoyConfigError> {
        let loaded = EnvoyRules::from_path(path.as_ref()).map_err(EnvoyConfigError::Load)?;
        let config = EnvoyConfig::of(gate, loaded).map_err(EnvoyConfigError::Store)?;
        let without = without.unwrap_or(WithoutStore::Closed);
        Ok(EnvoyConfig { path: path.as_ref().to_owned(), without, ..config })
    }

    /// What was read, from wherever it is.
    pub(super) fn of(gate: &Gate, loaded: EnvoyLoaded) -> Result<EnvoyConfig, String> {
        let config = EnvoyConfig {
            gate: gate.clone(),
            without: WithoutStore::Closed,
            path: PathBuf::new(),
            current: Arc::default(),
        };
        config.put(loaded)?;
        Ok(config)
    }

    /// Looks after the folder: what changes is in force within a second, if it is right; what was
    /// counted stays. `told` hears what came of each change.
    pub fn watch(&self, told: impl Fn(&Reloaded) + Send + 'static) -> std::io::Result<Watch> {
        let config = self.clone();
        let read = |path: &Path| (EnvoyRules::from_path(path), Vec::new());
        Watch::start(&self.path, read, move |loaded| config.put_or_keep(loaded), told)
    }

    /// Reads the folder again; if it is wrong, what was before stays in force.
    pub fn reload(&self) -> Reloaded {
        self.put_or_keep(EnvoyRules::from_path(&self.path))
    }

    fn put_or_keep(&self, loaded: Result<EnvoyLoaded, LoadError>) -> Reloaded {
        let kept = |error: String| Reloaded::Kept { error };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return kept(error.to_string()),
        };
        let has_warnings = 0 < loaded.report.warnings();
        let warnings = if has_warnings { loaded.report.to_string() } else { String::new() };
        match self.put(loaded) {
            Ok(()) => Reloaded::Done { warnings },
            Err(error) => kept(error),
        }
    }

    fn put(&self, EnvoyLoaded { rules, .. }: EnvoyLoaded) -> Result<(), String> {
        let mut limits = Vec::with_capacity(rules.limits().len());
        for limit in rules.limits() {
            let requests = limit.requests_per_unit;
            let plain = match limit.unit {
                Some(unit) if 0 < requests => {
                    let name = name_of(&limit.path);
                    Some(plain(&self.gate, &name, requests, unit, self.without)?)
                }
                _ => None,
            };
            limits.push(Kept { plain, shown: shown_name(limit) });
        }
        self.current.store(Arc::new(InForce { rules, limits }));
        Ok(())
    }
}

/// The name of a limit in the gate: its place, or the digest of that where it is too long.
fn name_of(path: &str) -> String {
    let name = format!("envoy/{path}");
    if name.len() <= AdhocLimit::NAME_BYTES_MAX {
        return name;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, path.as_bytes());
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("envoy/sha256/{}", hex.collect::<String>())
}

/// Why a folder cannot be put in force.
#[derive(Debug)]
#[non_exhaustive]
pub enum EnvoyConfigError {
    /// It cannot be read, or is wrong.
    Load(LoadError),
    /// The store cannot keep all of its limits.
    Store(String),
}

impl fmt::Display for EnvoyConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnvoyConfigError::Load(error) => error.fmt(f),
            EnvoyConfigError::Store(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for EnvoyConfigError {}
