//! The file of keys: read, changed under a lock, and replaced as a whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tidegate_config::{FILE_BYTES_MAX, Format, KeyFile};

/// Whether a file that is not there is begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Begins {
    No,
    Yes,
}

/// The keys of the file at `path`.
pub(super) fn read(path: &Path) -> Result<KeyFile> {
    let file = File::open(path).with_context(|| cannot_read(path))?;
    of(&file, path)
}

/// Changes the keys of the file at `path`. A reader sees all of the change or nothing; the file
/// keeps its owner.
pub(super) fn change<T>(
    path: &Path,
    begins: Begins,
    how: impl FnOnce(&mut KeyFile) -> Result<T>,
) -> Result<T> {
    if Format::of_path(path) != Format::Yaml {
        bail!("`{}` cannot be written: keys are written as YAML, to keys.yaml", path.display());
    }
    let file = locked(path, begins)?;
    let mut keys = of(&file, path)?;
    let told = how(&mut keys)?;
    if KeyFile::KEYS_MAX < keys.keys() {
        bail!("{} keys are too many: at most {} are kept", keys.keys(), KeyFile::KEYS_MAX);
    }
    let text = keys.text();
    // Whatever was written must be what will be read.
    if KeyFile::read(text.as_bytes(), Format::Yaml).as_ref() != Ok(&keys) {
        bail!("the keys cannot be written: shorten names, or leave odd letters out of them");
    }
    replace(path, &file, &text).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(told)
}

/// The file, which nobody else changes until it is dropped.
fn locked(path: &Path, begins: Begins) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(begins == Begins::Yes).mode(MODE);
    let file = options.open(path).with_context(|| cannot_read(path))?;
    let is_other = || -> std::io::Result<bool> {
        let (ours, there) = (file.metadata()?, fs::metadata(path)?);
        Ok((ours.dev(), ours.ino()) != (there.dev(), there.ino()))
    };
    match file.try_lock() {
        // Replaced between the two: the lock is on what was there before.
        Ok(()) if !is_other().with_context(|| cannot_read(path))? => Ok(file),
        Ok(()) | Err(TryLockError::WouldBlock) => {
            bail!("`{}` is being changed by somebody else: try again", path.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| cannot_read(path)),
    }
}

fn of(mut file: &File, path: &Path) -> Result<KeyFile> {
    let mut text = Vec::new();
    let most = FILE_BYTES_MAX as u64 + 1;
    (&mut file).take(most).read_to_end(&mut text).with_context(|| cannot_read(path))?;
    if text.trim_ascii().is_empty() {
        return Ok(KeyFile::default());
    }
    KeyFile::read(&text, Format::of_path(path)).map_err(|problems| {
        let lines: Vec<String> =
            problems.iter().map(|it| format!("{}:{it}", path.display())).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })
}

/// Puts a new file in the place of the one before, with its mode and its owner.
fn replace(path: &Path, before: &File, text: &str) -> Result<()> {
    // A link stays one.
    let path = fs::canonicalize(path)?;
    let beside = beside(&path);
    let known = before.metadata()?;
    // What a killed one has left; nobody else writes it, by the lock.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&beside)?;
    let done = (|| {
        let ours = file.metadata()?;
        if (ours.uid(), ours.gid()) != (known.uid(), known.gid()) {
            fchown(&file, Some(known.uid()), Some(known.gid()))?;
        }
        file.set_permissions(known.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    Ok(done?)
}

/// Where the new file is written: in the same folder, under a name that no policy has.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read `{}`", path.display())
}

/// For the user who gives out keys, and nobody else.
const MODE: u32 = 0o600;
