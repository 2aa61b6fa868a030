//! Live reload: the policy is looked at several times a second, however it is replaced.
//!
//! Looking is simpler than being told: it works on every file system, through symlinks and in
//! mounted folders, and a file that is written in place, renamed over, or swapped by a symlink is
//! the same to it. Only what looks different is read, once it looks the same twice: what is being
//! written in place is left to be finished, since the half of a policy may be one as well. A policy
//! that is wrong never replaces one that is right; it is read again until it is right, since what
//! it lacks may be in a file that nobody knows of yet.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_config::{LoadError, Loaded, Rules};

use crate::gate::Gate;
use crate::stamp::Stamp;

/// How often it is looked at. A change is seen twice before it is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often files are read after a change although they look the same: one that is written twice
/// within a tick of the file system's clock looks as if it had been written once.
const READ_AGAIN: u32 = 10;

/// Watches a policy, until it is dropped.
#[derive(Debug)]
#[must_use = "the policy is watched for as long as this is kept"]
pub struct Watch {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    #[cfg(unix)]
    signal: signal_hook::SigId,
}

/// What became of a policy that had changed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reloaded {
    /// It is in force.
    Done {
        /// What is odd about it, and which limits begin anew; empty for most.
        warnings: String,
    },
    /// It is wrong, or cannot be read: the one before stays in force.
    Kept {
        /// What is wrong.
        error: String,
    },
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// Reads the policy at `path` and puts it in force; if it is wrong, the one before stays.
    pub fn reload(&self, path: impl AsRef<Path>) -> Reloaded {
        self.put_in_force(Rules::from_path(path.as_ref()))
    }

    /// Puts the policy at `path` in force, and again when it changes, within a second, and on
    /// `SIGHUP`. After each change `told` hears what came of it; there is a log line as well.
    pub fn watch(
        &self,
        path: impl AsRef<Path>,
        told: impl Fn(&Reloaded) + Send + 'static,
    ) -> std::io::Result<Watch> {
        let gate = self.clone();
        let read = |path: &Path| {
            let loaded = Rules::from_path(path);
            let files = loaded.as_ref().map_or_else(|_| Vec::new(), |loaded| loaded.files.clone());
            (loaded, files)
        };
        let each = gate.clone();
        let put = move |loaded| gate.put_in_force(loaded);
        // Limits that gave way come back although nobody asks.
        Watch::begin(path.as_ref(), read, put, told, move || each.advance())
    }

    fn put_in_force(&self, loaded: Result<Loaded, LoadError>) -> Reloaded {
        let Loaded { rules, report, .. } = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return Reloaded::Kept { error: error.to_string() },
        };
        let mut warnings = if report.warnings() == 0 { String::new() } else { report.to_string() };
        match self.replace_noting(rules.into()) {
            Ok(notes) => {
                warnings.push_str(&notes);
                Reloaded::Done { warnings }
            }
            Err(error) => Reloaded::Kept { error: error.to_string() },
        }
    }
}

impl Watch {
    /// Reads what is at `path` and puts it in force, and again when it changes, within a second,
    /// and on `SIGHUP`. `read` says as well to which other files it refers, and `put` what came of
    /// it; after each change `told` hears that, and there is a log line.
    ///
    /// Files of a folder count as those of a policy do: by their endings.
    pub fn start<T>(
        path: &Path,
        read: impl Fn(&Path) -> (T, Vec<PathBuf>) + Send + 'static,
        put: impl Fn(T) -> Reloaded + Send + 'static,
        told: impl Fn(&Reloaded) + Send + 'static,
    ) -> std::io::Result<Watch> {
        Watch::begin(path, read, put, told, || ())
    }

    /// Whether what is at `path` can be read again: what came out of a pipe is gone, and to open it
    /// once more is to wait for a process that writes to it.
    pub fn can_be_of(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir())
    }

    /// As [`Watch::start`]; `each` is called whenever it looks.
    fn begin<T>(
        path: &Path,
        read: impl Fn(&Path) -> (T, Vec<PathBuf>) + Send + 'static,
        put: impl Fn(T) -> Reloaded + Send + 'static,
        told: impl Fn(&Reloaded) + Send + 'static,
        each: impl Fn() + Send + 'static,
    ) -> std::io::Result<Watch> {
        if path.exists() && !Watch::can_be_of(path) {
            let message = "it is a pipe or a device, and only a file or a folder can be watched";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        }
        let stop = Arc::new(Stop::default());
        let asked = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        let signal = signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&asked))?;
        let path = path.to_owned();
        // In this order: it may have changed since it was first read, and it may change now.
        let (loaded, seen) = load(&path, Stamp::of(&path, &[]), &read);
        let last = put(loaded);
        if matches!(last, Reloaded::Kept { .. }) {
            log(&path, &last);
            told(&last);
        }
        let watcher = Watcher { read, put, path, asked, seen, last, stop: Arc::clone(&stop) };
        let thread = std::thread::Builder::new().name("tidegate-reload".to_owned());
        let thread = thread.spawn(move || watcher.run(&told, &each))?;
        Ok(Watch {
            stop,
            thread: Some(thread),
            #[cfg(unix)]
            signal,
        })
    }
}

struct Watcher<Read, Put> {
    read: Read,
    put: Put,
    path: PathBuf,
    /// Whether somebody sent a signal.
    asked: Arc<AtomicBool>,
    seen: Stamp,
    /// What came of it when it was last read.
    last: Reloaded,
    stop: Arc<Stop>,
}

/// Reads the policy, and says how its files looked before that. Those that it refers to are only
/// known when it has been read; so it is read again then, should one have changed meanwhile.
fn load<T>(path: &Path, mut seen: Stamp, read: impl Fn(&Path) -> (T, Vec<PathBuf>)) -> (T, Stamp) {
    loop {
        let (loaded, files) = read(path);
        match seen.with(path, &files) {
            Some(more) => seen = more,
            None => return (loaded, seen),
        }
    }
}

impl<Read, Put> Watcher<Read, Put> {
    fn run<T>(mut self, told: &dyn Fn(&Reloaded), each: &dyn Fn())
    where
        Read: Fn(&Path) -> (T, Vec<PathBuf>),
        Put: Fn(T) -> Reloaded,
    {
        let mut read_again = READ_AGAIN;
        let mut settling = None;
        while self.stop.is_on_after(LOOK_EVERY) {
            each();
            let is_asked = self.asked.swap(false, Ordering::Relaxed);
            let look = self.seen.again(&self.path, 0 < read_again);
            read_again = read_again.saturating_sub(1);
            let is_new = look != self.seen || is_asked;
            if is_new {
                read_again = READ_AGAIN;
                if !is_asked && settling.replace(look.clone()).as_ref() != Some(&look) {
                    continue;
                }
            } else if matches!(self.last, Reloaded::Done { .. }) {
                continue;
            }
            // As it looked before it was read: should it have changed since, that is seen.
            let (loaded, seen) = load(&self.path, look, &self.read);
            let reloaded = (self.put)(loaded);
            if is_new || reloaded != self.last {
                log(&self.path, &reloaded);
                told(&reloaded);
            }
            (self.seen, self.last) = (seen, reloaded);
        }
    }
}

fn log(path: &Path, reloaded: &Reloaded) {
    let path = path.display();
    match reloaded {
        Reloaded::Done { warnings } if warnings.is_empty() => {
            tracing::info!(%path, "the policy was reloaded");
        }
        Reloaded::Done { warnings } => {
            tracing::warn!(%path, %warnings, "the policy was reloaded, with warnings");
        }
        Reloaded::Kept { error } => {
            tracing::error!(%path, %error, "the policy is wrong: the one before stays in force");
        }
    }
}

impl Stop {
    /// Waits; `false` once it is to stop.
    fn is_on_after(&self, pause: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, pause, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*stopped
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        #[cfg(unix)]
        signal_hook::low_level::unregister(self.signal);
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics only if `told` does; that has been reported where it happened.
            let _ = thread.join();
        }
    }
}
