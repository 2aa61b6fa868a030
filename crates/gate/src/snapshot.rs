//! Snapshots of a gate's limits, for the store in this process: a restart is no fresh burst.
//!
//! A file is written beside the last one and put in its place once all of it is on the disk, so
//! there is always a whole one. It holds the seed under which keys are hashed; who knows that can
//! aim at collisions, so the file is for its owner alone.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use tidegate_config::Rule;
use tidegate_core::{Span, Tick, WithoutStore};
use tidegate_store::{Exported, MemoryStore, NamedRule, Restored, RestoredRule, SnapshotError};

use crate::gate::Gate;
use crate::secret::{KeySecret, hidden};

/// A snapshot that was saved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SnapshotSaved {
    /// How long the file is.
    pub bytes: u64,
    /// How many keys are in it, once for each limit.
    pub keys: u64,
    /// As of when.
    pub at: Tick,
}

/// A snapshot that a gate began with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SnapshotRestored {
    /// How many keys were in it, once for each limit.
    pub keys: u64,
    /// As of when.
    pub at: Tick,
    /// By how much the clock was behind that when the gate was opened: zero, unless it was set
    /// back. Until it has caught up, nothing that was consumed is paid off.
    pub behind: Span,
}

/// A snapshot that a gate cannot begin with.
#[derive(Debug)]
pub struct SnapshotProblem {
    path: PathBuf,
    error: SnapshotError,
}

/// Why a snapshot was not saved. The last one is still there.
#[derive(Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The file cannot be written.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Gate {
    /// Saves what was consumed under every limit to a file, for
    /// [`GateBuilder::restore`](crate::GateBuilder::restore).
    ///
    /// With states in Redis the file says how many nodes share the quota, for a restart while Redis
    /// is away.
    ///
    /// Decisions go on meanwhile; one that is made during the call may or may not be in the file.
    /// The file is replaced as a whole, and only its owner can read it. This waits for the disk:
    /// call it where that is no harm.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<SnapshotSaved, SaveError> {
        let path = path.as_ref();
        // One after the other: an earlier one never replaces a later one.
        let _one_by_one = self.0.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.now();
        let Some(store) = self.0.store.memory() else {
            let text = format!("{NODES}{}\n", self.0.store.nodes());
            let saved = replaced(path, |out| out.write_all(text.as_bytes()));
            saved.map_err(|error| SaveError::Io { path: path.to_owned(), error })?;
            return Ok(SnapshotSaved { bytes: text.len() as u64, keys: 0, at });
        };
        // In this order: a limit that is claimed meanwhile is in one of them, or in both.
        let waiting = self.0.orphans.present(at);
        let mut limits = self.0.in_force().named_rules();
        limits.extend(self.0.adhoc.named_rules());
        let exported = replaced(path, |out| {
            export((store, self.0.secret.as_ref()), &waiting, &limits, at, out)
        });
        let exported = exported.map_err(|error| SaveError::Io { path: path.to_owned(), error })?;
        let idle = waiting.iter().zip(&exported.owing).filter(|(_, owing)| **owing == 0);
        self.0.orphans.claimed(idle.map(|(rule, _)| &*rule.name));
        Ok(SnapshotSaved { bytes: exported.bytes, keys: exported.states, at })
    }

    /// Whether a snapshot could be saved there, so that a place that will not do is known before
    /// there is something to be lost. What is there stays as it is.
    pub fn can_save(path: impl AsRef<Path>) -> Result<(), SaveError> {
        let path = path.as_ref();
        let tried = place(path).and_then(|place| {
            let partial = with_suffix(&place, ".partial");
            write_new(&partial, |_| Ok(()))?;
            fs::remove_file(&partial)
        });
        tried.map_err(|error| SaveError::Io { path: path.to_owned(), error })
    }

    /// How many nodes share the quota while Redis does not answer: those that count each other
    /// there, or as many as the policy says if that is more. One where states are kept here.
    pub fn nodes(&self) -> u32 {
        let floor = |rule: &Rule| match rule.without_store() {
            WithoutStore::Local { nodes } => nodes,
            _ => 1,
        };
        let written = self.rules().rules().iter().map(floor).max();
        if self.0.store.is_shared() { self.0.store.nodes().max(written.unwrap_or(1)) } else { 1 }
    }

    /// The snapshot that this gate began with.
    pub fn restored(&self) -> Option<SnapshotRestored> {
        self.0.began_with
    }
}

/// Limits that wait first: where one is named by both, the policy's is the one that goes on.
fn export(
    (store, secret): (&MemoryStore, Option<&KeySecret>),
    waiting: &[RestoredRule],
    limits: &[RestoredRule],
    at: Tick,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let rules = || waiting.iter().chain(limits);
    let hidden: Vec<String> = rules().map(|it| hidden(&it.name, secret)).collect();
    let named =
        rules().zip(&hidden).map(|(it, name)| NamedRule { name, limit: &it.limit, rule: &it.rule });
    store.export(&named.collect::<Vec<_>>(), at, out)
}

/// What a file begins with that says how many nodes there are.
const NODES: &str = "tidegate nodes ";

/// Reads a snapshot, if there is one.
pub(crate) fn load(path: &Path, keys_max: usize) -> Result<Option<Restored>, SnapshotProblem> {
    let problem = |error| SnapshotProblem { path: path.to_owned(), error };
    let place = place(path).map_err(|error| problem(SnapshotError::Io(error)))?;
    let file = match File::open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| problem(SnapshotError::Io(error)))?,
    };
    MemoryStore::restore(&mut BufReader::new(file), keys_max).map(Some).map_err(problem)
}

/// Reads how many nodes shared the quota, if a file says so.
pub(crate) fn load_nodes(path: &Path) -> Result<Option<u32>, SnapshotProblem> {
    let problem = |error| SnapshotProblem { path: path.to_owned(), error };
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(NODES_BYTES_MAX).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        read => drop(read.map_err(|error| problem(SnapshotError::Io(error)))?),
    }
    let digits = text.strip_prefix(NODES).and_then(|rest| rest.strip_suffix('\n'));
    let nodes = digits.and_then(|digits| digits.parse().ok()).filter(|nodes| 0 < *nodes);
    nodes.map(Some).ok_or_else(|| problem(SnapshotError::NotASnapshot))
}

/// Longer than any file that says how many nodes there are.
const NODES_BYTES_MAX: u64 = 64;

/// The file that `path` leads to, whether there is one or not.
///
/// A link stays a link: what it leads to is read and replaced. Anything that is no file is refused
/// before it is opened, since that may wait for ever.
fn place(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let found = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(place),
            found => found?,
        };
        if found.is_symlink() {
            let to = fs::read_link(&place)?;
            place = place.parent().unwrap_or(Path::new("")).join(to);
        } else if found.is_file() {
            return Ok(place);
        } else if found.is_dir() {
            return Err(io::Error::other("it is a folder; name a file in it, such as `states`"));
        } else {
            return Err(io::Error::other("it is no file; name one"));
        }
    }
    Err(io::Error::other("it is a link that leads through too many others"))
}

/// As many links may lead from one to the next.
const LINKS_MAX: usize = 16;

/// Writes a file beside the one at `path`, and puts it in its place once it is on the disk.
fn replaced<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    let path = place(path)?;
    let partial = with_suffix(&path, ".partial");
    let written = write_new(&partial, write).and_then(|written| {
        fs::rename(&partial, &path)?;
        sync_folder(&path)?;
        Ok(written)
    });
    if written.is_err() {
        // It may not even be there; the error that is returned says why.
        drop(fs::remove_file(&partial));
    }
    written
}

fn write_new<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    // What is there was left by a process that was killed. Never written into: it may be a link.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = BufWriter::new(options.open(path)?);
    let written = write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(written)
}

/// Makes a new name in the folder of `path` outlast a loss of power.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    let _ = path;
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

impl SnapshotProblem {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn error(&self) -> &SnapshotError {
        &self.error
    }

    /// Whether the file itself is to blame, so that it is of no use to this version. Otherwise it
    /// could not be read, and may be whole.
    pub fn is_damaged(&self) -> bool {
        self.error.is_damaged()
    }

    /// Renames the file to `<file>.damaged-<seconds>`, and says to what: so that the next snapshot
    /// does not replace it, and somebody can have a look.
    pub fn set_aside(&self, now: Tick) -> io::Result<PathBuf> {
        let place = place(&self.path)?;
        let seconds = now.get() / 1_000_000;
        let names = (1..100).map(|number| format!(".damaged-{seconds}-{number}"));
        let names = std::iter::once(format!(".damaged-{seconds}")).chain(names);
        let mut free = names.map(|name| with_suffix(&place, &name));
        let free = free.find(|path| fs::symlink_metadata(path).is_err());
        let aside = free.ok_or_else(|| io::Error::other("there are a hundred of them already"))?;
        fs::rename(&place, &aside)?;
        Ok(aside)
    }
}

impl fmt::Display for SnapshotProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for SnapshotProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Io { path, error } => write!(
                f,
                "the snapshot `{}` cannot be written: {error}; the last one stays",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SaveError {}
