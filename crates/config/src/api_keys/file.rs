//! A file of API keys: the owners that keys were given to, and the keys as hashes.
//!
//! Messages never repeat what stands where a hash should be: it may be a key.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use foldhash::quality::RandomState;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate_core::Tick;

use super::KeyHash;
use crate::attribute::{NAME_OF_KEY, TIER_OF_KEY};
use crate::misread::quoted;
use crate::problem::{Problems, Span};
use crate::read::{Fields, Table, Takes, table_fields};
use crate::source::{self, Entry, Format, Node, Value};

/// Owners of keys, by their names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyFile {
    /// By name.
    pub owners: BTreeMap<String, KeyOwner>,
}

/// An owner that keys were given to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyOwner {
    /// What it is about, for people.
    pub about: Option<String>,
    /// The tier of requests with one of the keys.
    pub tier: Option<String>,
    /// What else is known of the owner, for `api-key:NAME`.
    pub attributes: BTreeMap<String, String>,
    /// The keys: one, and more while they are replaced.
    pub keys: Vec<ListedKey>,
}

/// A key that was given out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListedKey {
    /// Its hash.
    pub hash: KeyHash,
    /// From when on it is unknown.
    pub expires: Option<Tick>,
}

/// What is wrong with a file of keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyProblem {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

static FILE: Table = Table {
    what: "a file of keys",
    about: "To whom API keys were given.",
    fields: table_fields! {
        "names": Takes::Map(&Takes::Table(&OWNER)), "Owners of keys, by their names.";
    },
    required: &["names"],
};

static OWNER: Table = Table {
    what: "an owner of keys",
    about: "Whom keys were given to.",
    fields: table_fields! {
        "about": Takes::Scalar, "What it is about. Not used.";
        "tier": Takes::Scalar, "The tier.";
        "attributes": Takes::Map(&Takes::Scalar), "What else is known.";
        "keys": Takes::List(&Takes::Table(&KEY)), "The keys.";
    },
    required: &["keys"],
};

static KEY: Table = Table {
    what: "a key",
    about: "A key that was given out.",
    fields: table_fields! {
        "sha256": Takes::Text, "The hash of the key.";
        "expires": Takes::Text, "From when on it is unknown.";
    },
    required: &["sha256"],
};

/// How a date or a time is written, in messages.
const MOMENT_HELP: &str = "write a date such as `2030-01-31`, or `2030-01-31T12:00:00Z`";

impl KeyFile {
    /// The most keys of a file: what fits into the largest file that is read.
    pub const KEYS_MAX: usize = 100_000;
    /// The most keys of one owner: one, and those that replace it.
    pub const KEYS_EACH_MAX: usize = 8;
    /// The most bytes of a name, a tier or a value: as keys of rules they are kept for each client.
    pub const TEXT_BYTES_MAX: usize = 256;
    /// The most attributes of an owner.
    pub const ATTRIBUTES_MAX: usize = 32;

    /// Reads a file.
    pub fn read(text: &[u8], format: Format) -> Result<KeyFile, Vec<KeyProblem>> {
        let mut reading = Reading::default();
        let file = match source::read(0, text, format) {
            Ok(tree) => reading.file(&tree),
            Err(problem) => {
                let _ = reading.problems.add(problem);
                KeyFile::default()
            }
        };
        if !reading.problems.is_fatal() {
            return Ok(file);
        }
        let problems = reading.problems.into_sorted().into_iter();
        Err(problems
            .map(|problem| KeyProblem {
                line: line_of(text, problem.at),
                message: problem.message,
                help: problem.help,
            })
            .collect())
    }

    /// Reads from when on a key is unknown: a date, which begins at midnight of UTC, or a time.
    pub fn moment(text: &str) -> Option<Tick> {
        let at = text.parse::<Timestamp>().ok().or_else(|| {
            let date = text.parse::<Date>().ok().filter(|_| text.len() == "2030-01-31".len())?;
            Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
        })?;
        // Whatever was before 1970 is over.
        Some(Tick::from_micros(u64::try_from(at.as_microsecond()).unwrap_or(0)))
    }

    /// Whether a name, a tier or a value can stand in a file.
    pub fn is_text(text: &str) -> bool {
        !text.is_empty()
            && text.len() <= KeyFile::TEXT_BYTES_MAX
            && text.trim() == text
            && !text.chars().any(char::is_control)
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.owners.values().map(|owner| owner.keys.len()).sum()
    }
}

#[derive(Default)]
struct Reading {
    problems: Problems,
    /// Of which owner each key is.
    known: HashMap<KeyHash, String, RandomState>,
}

impl Reading {
    fn file(&mut self, tree: &Node) -> KeyFile {
        let mut file = KeyFile::default();
        let Some(fields) = Fields::of(tree, &FILE, &mut self.problems) else { return file };
        let Some(names) = fields.required("names", &mut self.problems) else { return file };
        for entry in names.map("names", &mut self.problems).unwrap_or_default() {
            self.check_text("a name", &entry.name, entry.name_at);
            if let Some(owner) = self.owner(entry) {
                file.owners.insert(entry.name.clone(), owner);
            }
        }
        if KeyFile::KEYS_MAX < self.known.len() {
            let message = format!("there are {} keys", self.known.len());
            let help = format!("at most {} are kept", KeyFile::KEYS_MAX);
            self.problems.error(names.at, message).help(help);
        }
        file
    }

    fn owner(&mut self, entry: &Entry) -> Option<KeyOwner> {
        let fields = Fields::of(&entry.node, &OWNER, &mut self.problems)?;
        let mut owner = KeyOwner::default();
        let mut text = |name: &'static str| {
            let node = fields.get(name)?;
            let text = node.scalar(name, &mut self.problems)?.into_owned();
            self.check_text(name, &text, node.at);
            Some(text)
        };
        (owner.about, owner.tier) = (text("about"), text("tier"));
        if let Some(node) = fields.get("attributes") {
            owner.attributes = self.attributes(node);
        }
        let keys = fields.required("keys", &mut self.problems)?;
        let Value::List(list) = &keys.value else {
            let problem = self.problems.error(keys.at, "`keys` takes a list");
            problem.help("write `keys: [{ sha256: … }]`, or use `tidegate keys add`");
            return None;
        };
        if KeyFile::KEYS_EACH_MAX < list.len() {
            let message = format!("{} has {} keys", quoted(&entry.name), list.len());
            let help = format!("keep at most {}, and revoke the others", KeyFile::KEYS_EACH_MAX);
            self.problems.error(keys.at, message).help(help);
        }
        owner.keys = list.iter().filter_map(|node| self.key(node, &entry.name)).collect();
        Some(owner)
    }

    fn attributes(&mut self, node: &Node) -> BTreeMap<String, String> {
        let mut attributes = BTreeMap::new();
        let entries = node.map("attributes", &mut self.problems).unwrap_or_default();
        if KeyFile::ATTRIBUTES_MAX < entries.len() {
            let message = format!("there are {} attributes", entries.len());
            let help = format!("give at most {}", KeyFile::ATTRIBUTES_MAX);
            self.problems.error(node.at, message).help(help);
        }
        for Entry { name, name_at, node } in entries {
            if [NAME_OF_KEY, TIER_OF_KEY].contains(&name.as_str()) {
                let problem = self.problems.error(*name_at, format!("`{name}` is no attribute"));
                problem.help("write `tier` beside `attributes`; the name is above it");
            }
            self.check_text("an attribute", name, *name_at);
            let Some(value) = node.scalar("an attribute", &mut self.problems) else { continue };
            self.check_text("an attribute", &value, node.at);
            attributes.insert(name.clone(), value.into_owned());
        }
        attributes
    }

    fn key(&mut self, node: &Node, owner: &str) -> Option<ListedKey> {
        if !matches!(node.value, Value::Map(_)) {
            let problem = self.problems.error(node.at, "a key is a map of fields");
            problem.help("write `{ sha256: … }`, or use `tidegate keys add`");
            return None;
        }
        let fields = Fields::of(node, &KEY, &mut self.problems)?;
        let hash = fields.required("sha256", &mut self.problems)?;
        let typed = match &hash.value {
            Value::Text(text) | Value::Fraction(text) => text,
            _ => "",
        };
        let Some(hash) = KeyHash::from_hex(typed) else {
            let problem = self.problems.error(hash.at, "`sha256` takes 64 hexadecimal digits");
            problem.help("a key itself never stands here: `tidegate keys import` hashes it");
            return None;
        };
        if let Some(other) = self.known.insert(hash, owner.to_owned()) {
            let message = format!("the key {} is of {} already", hash.id(), quoted(&other));
            self.problems.error(node.at, message).help("list it once");
        }
        let expires = match fields.get("expires") {
            Some(node) => Some(self.expiry(node)?),
            None => None,
        };
        Some(ListedKey { hash, expires })
    }

    fn expiry(&mut self, node: &Node) -> Option<Tick> {
        let text = node.scalar("expires", &mut self.problems)?;
        let at = KeyFile::moment(&text);
        if at.is_none() {
            let message = format!("{} is no date and no time", quoted(&text));
            self.problems.error(node.at, message).help(MOMENT_HELP);
        }
        at
    }

    fn check_text(&mut self, what: &str, text: &str, at: Span) {
        if !KeyFile::is_text(text) {
            let message = format!("{} cannot be {what}", quoted(text));
            let help = format!(
                "use 1 to {} bytes without line breaks, or blanks around them",
                KeyFile::TEXT_BYTES_MAX
            );
            self.problems.error(at, message).help(help);
        }
    }
}

fn line_of(text: &[u8], at: Span) -> usize {
    let before = text.get(..at.start as usize).unwrap_or(text);
    before.split(|byte| *byte == b'\n').count()
}

/// As compilers have it, behind the name of the file: `7: message; help`.
impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}
