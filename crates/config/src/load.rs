//! From files to rules.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::file::{Outside, Reading};
use crate::report::{File, Report};
use crate::rules::Rules;
use crate::source::{self, FILE_BYTES_MAX, Format, Node};

/// The most files of a folder.
const FILES_MAX: usize = 256;

/// Rules that were read.
#[derive(Debug)]
pub struct Loaded {
    /// The rules.
    pub rules: Rules,
    /// What is odd about the files, though not wrong.
    pub report: Report,
    /// The files that were read, those with keys and secrets included.
    pub files: Vec<PathBuf>,
}

/// Why there are no rules.
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read.
    Unread {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder has no policy file in it.
    NoFile {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has more files than anybody can mean.
    TooManyFiles {
        /// The folder.
        path: PathBuf,
    },
    /// The files are wrong.
    Wrong(Report),
}

impl Rules {
    /// Reads a policy in YAML.
    pub fn from_text(text: &str) -> Result<Loaded, Report> {
        Rules::from_bytes("policy.yaml", text.as_bytes(), Format::Yaml)
    }

    /// Reads one policy file; `name` stands in messages. Keys and secrets are looked for where the
    /// process runs.
    pub fn from_bytes(name: &str, text: &[u8], format: Format) -> Result<Loaded, Report> {
        let around = Around::new(PathBuf::new());
        let loaded = read(&[(name.to_owned(), text.to_vec(), format)], &around)?;
        Ok(Loaded { files: around.read(), ..loaded })
    }

    /// Reads the policy file at `path`, once: it may be a pipe. Of a folder, all that end in
    /// `.yaml`, `.yml`, `.toml` or `.json` are read as one policy, by name; those with `.tests`
    /// before that are left to [`Suite`](crate::Suite), and the file of API keys that one of them
    /// names is read as such.
    pub fn from_path(path: &Path) -> Result<Loaded, LoadError> {
        let mut texts = Vec::new();
        let paths = policy_files(path)?;
        for path in &paths {
            let unread = |error| LoadError::Unread { path: path.clone(), error };
            let text = bounded(path).map_err(unread)?;
            texts.push((path.display().to_string(), text, Format::of_path(path)));
        }
        let folder = paths.first().and_then(|path| path.parent()).unwrap_or(Path::new(""));
        let around = Around::new(folder.to_owned());
        let mut loaded = read(&texts, &around).map_err(LoadError::Wrong)?;
        loaded.files = paths;
        loaded.files.extend(around.read());
        Ok(loaded)
    }
}

/// The policy files that `path` means: itself, or those in it, all of which have to be regular
/// files once links have been followed.
pub fn policy_files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let unread = |error| LoadError::Unread { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(unread)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unread)? {
        let file = entry.map_err(unread)?.path();
        if is_policy(&file) {
            // One that cannot be read must not be a policy without its rules.
            is_regular(&file).map_err(|error| LoadError::Unread { path: file.clone(), error })?;
            files.push(file);
        }
        if FILES_MAX < files.len() {
            return Err(LoadError::TooManyFiles { path: path.to_owned() });
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(LoadError::NoFile { path: path.to_owned() });
    }
    Ok(files)
}

/// Whether a name is that of a policy, in upper or lower case. Editors and mounted folders keep
/// files of their own, which begin with a dot.
fn is_policy(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let mut parts = name.rsplit('.');
    let has_ending = matches!(parts.next(), Some("yaml" | "yml" | "toml" | "json"));
    let is_suite = parts.next() == Some("tests");
    has_ending && !is_suite && !name.starts_with('.')
}

/// Whether there is a regular file: to open a pipe is to wait for a process that writes to it.
fn is_regular(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}

/// The policy of these files; `outside` says what they refer to.
pub(crate) fn read(
    texts: &[(String, Vec<u8>, Format)],
    outside: &dyn Outside,
) -> Result<Loaded, Report> {
    let files: Vec<File<'_>> = texts.iter().map(|(name, text, _)| File { name, text }).collect();
    let mut reading = Reading::new(outside);
    let mut trees = Vec::new();
    for (number, (_, text, format)) in (0..).zip(texts) {
        match source::read(number, text, *format) {
            Ok(tree) => trees.push(tree),
            Err(problem) => drop(reading.problems.add(problem)),
        }
    }
    let keys = key_files(texts, &trees);
    trees.retain(|tree| !keys.contains(&tree.at.file));
    let rules = if reading.problems.is_fatal() { Rules::default() } else { reading.rules(&trees) };
    let is_fatal = reading.problems.is_fatal();
    let report = Report::of(&files, reading.problems);
    if is_fatal {
        return Err(report);
    }
    Ok(Loaded { rules, report, files: Vec::new() })
}

/// Which of the files another one names as its file of API keys: it is no policy, although it may
/// stand among them.
fn key_files(texts: &[(String, Vec<u8>, Format)], trees: &[Node]) -> Vec<u16> {
    let path = |tree: &Node| texts.get(usize::from(tree.at.file)).map(|(name, ..)| Path::new(name));
    let named = |tree: &Node| {
        let name = tree.field("api_keys")?.field("file")?.plain_text();
        Some(path(tree)?.parent()?.join(name))
    };
    let named: Vec<PathBuf> = trees.iter().filter_map(named).collect();
    let is_named = |tree: &&Node| path(tree).is_some_and(|path| named.iter().any(|it| it == path));
    trees.iter().filter(is_named).map(|tree| tree.at.file).collect()
}

/// Reads a file, but not one that is larger than any policy.
pub(crate) fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than is accepted: what is too long is refused with a message of its own.
    let most = FILE_BYTES_MAX as u64 + 1;
    fs::File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// What is around a policy file: the files beside it, and the environment.
#[derive(Debug)]
struct Around {
    folder: PathBuf,
    read: Mutex<Vec<PathBuf>>,
}

impl Around {
    fn new(folder: PathBuf) -> Around {
        Around { folder, read: Mutex::default() }
    }

    fn read(&self) -> Vec<PathBuf> {
        self.read.lock().map(|read| read.clone()).unwrap_or_default()
    }
}

impl Outside for Around {
    fn file(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.folder.join(name);
        if let Ok(mut read) = self.read.lock() {
            read.push(path.clone());
        }
        is_regular(&path)?;
        bounded(&path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unread { path, error } => {
                write!(f, "cannot read `{}`: {error}", path.display())
            }
            LoadError::NoFile { path } => write!(
                f,
                "there is no policy in `{}`: add a file that ends in .yaml, .toml or .json",
                path.display()
            ),
            LoadError::TooManyFiles { path } => write!(
                f,
                "there are more than {FILES_MAX} policy files in `{}`: put several into one",
                path.display()
            ),
            LoadError::Wrong(report) => report.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}
