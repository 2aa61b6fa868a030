//! From envoyproxy/ratelimit's files to limits, and all that is wrong with them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::rules::{Descriptor, EnvoyRules, Level};
use super::tables::{DESCRIPTOR, DOMAIN, Fields, RATE_LIMIT, REPLACED};
use super::{EnvoyLimit, EnvoyUnit};
use crate::load::{LoadError, bounded, policy_files};
use crate::problem::{Problems, Span, shortened};
use crate::report::{File, Report};
use crate::source::{self, Format, Node, Value};

/// The most limits of all files: a store numbers them.
const LIMITS_MAX: usize = 4_000;

/// Files that were read.
#[derive(Debug)]
pub struct EnvoyLoaded {
    /// The limits.
    pub rules: EnvoyRules,
    /// What is odd about the files, though not wrong.
    pub report: Report,
}

impl EnvoyRules {
    /// Reads the file at `path`; of a folder, all that end in `.yaml`, `.yml` or `.json`.
    pub fn from_path(path: &Path) -> Result<EnvoyLoaded, LoadError> {
        let read = |path: PathBuf| match bounded(&path) {
            Ok(text) => Ok((path.display().to_string(), text, Format::of_path(&path))),
            Err(error) => Err(LoadError::Unread { path, error }),
        };
        let texts: Result<Vec<_>, _> = policy_files(path)?.into_iter().map(read).collect();
        EnvoyRules::of(&texts?).map_err(LoadError::Wrong)
    }

    /// Reads one file; `name` stands in messages.
    pub fn from_bytes(name: &str, text: &[u8]) -> Result<EnvoyLoaded, Report> {
        EnvoyRules::of(&[(name.to_owned(), text.to_vec(), Format::Yaml)])
    }

    pub(super) fn of(texts: &[(String, Vec<u8>, Format)]) -> Result<EnvoyLoaded, Report> {
        let mut reading = Reading::default();
        for (number, (_, text, format)) in (0..).zip(texts) {
            match source::read(number, text, *format) {
                Ok(tree) => reading.domain(&tree),
                Err(problem) => drop(reading.problems.add(problem)),
            }
        }
        let Reading { rules, problems, .. } = reading;
        let files: Vec<File<'_>> =
            texts.iter().map(|(name, text, _)| File { name, text }).collect();
        let is_fatal = problems.is_fatal();
        let report = Report::of(&files, problems);
        if is_fatal { Err(report) } else { Ok(EnvoyLoaded { rules, report }) }
    }
}

#[derive(Default)]
struct Reading {
    rules: EnvoyRules,
    problems: Problems,
    /// Where the descriptors above the present one are: key, value, whether it shares its count.
    above: Vec<(String, String, bool)>,
    domain: String,
}

impl Reading {
    fn domain(&mut self, node: &Node) {
        let Some(fields) = Fields::of(node, &DOMAIN, &mut self.problems) else { return };
        self.domain = fields.text("domain", &mut self.problems);
        if self.domain.is_empty() {
            let problem = self.problems.error(first_line(node), "a file needs a domain");
            problem.help("add `domain: NAME`, as Envoy's filter says it");
        } else if self.rules.has_domain(&self.domain) {
            let at = fields.get("domain").map_or(node.at, |it| it.at);
            let message = format!("another file has the domain `{}`", shortened(&self.domain));
            self.problems.error(at, message).help("put both into one file");
        }
        let level = self.level(&fields);
        self.rules.domains.insert(self.domain.as_str().into(), level);
    }

    fn level(&mut self, fields: &Fields<'_>) -> Level {
        let mut level = Level::default();
        for node in fields.list("descriptors", &mut self.problems) {
            self.descriptor(node, &mut level);
        }
        level
    }

    fn descriptor(&mut self, node: &Node, level: &mut Level) {
        let Some(fields) = Fields::of(node, &DESCRIPTOR, &mut self.problems) else { return };
        let key = fields.text("key", &mut self.problems);
        let value = fields.text("value", &mut self.problems);
        let at = fields.get("key").map_or(first_line(node), |it| it.at);
        if key.is_empty() {
            let problem = self.problems.error(at, "a descriptor has an empty key");
            problem.help("write the key of an entry that Envoy sends");
        }
        let flags = Flags::of(&fields, &mut self.problems);
        let shares = flags.shares;
        if shares && !value.contains('*') {
            let at = fields.get("share_threshold").map_or(at, |it| it.at);
            let problem = self.problems.error(at, "`share_threshold` is for values with a `*`");
            problem.help("remove it, or write a value such as `files/*`");
        }
        let number = self.rules.limits.len();
        self.above.push((key, value, shares));
        let limit = fields.get("rate_limit").and_then(|it| self.limit(it, flags));
        self.rules.limits.extend(limit);
        let limit = (number < self.rules.limits.len()).then_some(number);
        if limit == Some(LIMITS_MAX) {
            let problem = self.problems.error(at, format!("more than {LIMITS_MAX} limits"));
            problem.help("use values with a `*`, or the key alone");
        }
        let below = self.level(&fields);
        let Some((key, value, _)) = self.above.pop() else { return };
        if !level.add(&key, &value, Descriptor { limit, below }) {
            let value = if value.is_empty() { String::new() } else { format!("={value}") };
            let path = format!("`{}{}`", shortened(&key), shortened(&value));
            let problem = self.problems.error(at, format!("a second descriptor for {path}"));
            problem.help("put both into one");
        }
    }

    fn limit(&mut self, node: &Node, flags: Flags) -> Option<EnvoyLimit> {
        let fields = Fields::of(node, &RATE_LIMIT, &mut self.problems)?;
        let name = fields.text("name", &mut self.problems);
        let is_unlimited = fields.flag("unlimited", &mut self.problems);
        let unit = self.unit(&fields, is_unlimited, first_line(node));
        let requests_per_unit = fields.get("requests_per_unit").and_then(|count| {
            count.count("requests_per_unit", 0..=u32::MAX.into(), &mut self.problems)
        });
        if requests_per_unit.is_none() && !is_unlimited {
            let at = first_line(node);
            let problem = self.problems.warn(at, "without `requests_per_unit` nothing passes");
            problem.help("add it, or write `requests_per_unit: 0`");
        }
        Some(EnvoyLimit {
            path: self.above.iter().fold(format!("{:?}", self.domain), path).into(),
            requests_per_unit: requests_per_unit.and_then(|it| it.try_into().ok()).unwrap_or(0),
            unit,
            replaces: replaces(&fields, &name, &mut self.problems),
            name: (!name.is_empty()).then(|| name.into()),
            is_shadow: flags.is_shadow,
            is_quota: flags.is_quota,
            has_detailed_metric: flags.has_detailed_metric,
            shared: self.above.iter().map(shared).collect(),
            metadata: flags.metadata,
        })
    }

    fn unit(&mut self, fields: &Fields<'_>, is_unlimited: bool, at: Span) -> Option<EnvoyUnit> {
        let typed = fields.text("unit", &mut self.problems);
        let at = fields.get("unit").map_or(at, |it| it.at);
        let unit = EnvoyUnit::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(&typed));
        if is_unlimited && unit.is_some() {
            let problem = self.problems.error(at, "a limit that is unlimited has no unit");
            problem.help("remove `unit`, or `unlimited`");
        } else if !is_unlimited && unit.is_none() {
            let message = format!("there is no unit `{}`", shortened(&typed));
            let units = EnvoyUnit::ALL.map(EnvoyUnit::name).join(", ");
            self.problems.error(at, message).help(format!("write one of {units}"));
        }
        unit.filter(|_| !is_unlimited)
    }
}

/// What a descriptor says beside its key and its limit.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the file")]
struct Flags {
    shares: bool,
    is_shadow: bool,
    is_quota: bool,
    has_detailed_metric: bool,
    metadata: serde_json::Map<String, serde_json::Value>,
}

impl Flags {
    fn of(fields: &Fields<'_>, problems: &mut Problems) -> Flags {
        let mut flag = |name| fields.flag(name, problems);
        Flags {
            shares: flag("share_threshold"),
            is_shadow: flag("shadow_mode"),
            is_quota: flag("quota_mode"),
            has_detailed_metric: flag("detailed_metric") | flag("value_to_metric"),
            metadata: metadata(fields, problems),
        }
    }
}

fn replaces(fields: &Fields<'_>, own: &str, problems: &mut Problems) -> Box<[Box<str>]> {
    let mut names = Vec::new();
    for node in fields.list("replaces", problems) {
        let Some(replaced) = Fields::of(node, &REPLACED, problems) else { continue };
        let name = replaced.text("name", problems);
        if name.is_empty() {
            let problem = problems.error(first_line(node), "what is replaced has no name");
            problem.help("write `name: NAME`, the name of another limit");
        } else if name == own {
            let problem = problems.error(first_line(node), "a limit cannot replace itself");
            problem.help("write the name of another limit");
        }
        names.push(name.into());
    }
    names.into()
}

fn metadata(
    descriptor: &Fields<'_>,
    problems: &mut Problems,
) -> serde_json::Map<String, serde_json::Value> {
    let entries = descriptor.get("metadata").and_then(|node| node.map("metadata", problems));
    let entries = entries.unwrap_or_default().iter();
    entries.map(|entry| (entry.name.clone(), plain(&entry.node))).collect()
}

/// A value as JSON has it.
fn plain(node: &Node) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Integer(whole) => Json::from(*whole),
        Value::Fraction(typed) => {
            let number = typed.parse().ok().and_then(serde_json::Number::from_f64);
            number.map_or_else(|| Json::String(typed.clone()), Json::Number)
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::List(nodes) => nodes.iter().map(plain).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|it| (it.name.clone(), plain(&it.node)));
            Json::Object(entries.collect())
        }
    }
}

/// Text in quotes has one meaning, whatever stands in it.
fn path(mut above: String, (key, value, _): &(String, String, bool)) -> String {
    let _ = write!(above, "/{key:?}");
    if !value.is_empty() {
        let _ = write!(above, "={value:?}");
    }
    above
}

fn shared((_, value, shares): &(String, String, bool)) -> Option<Box<str>> {
    shares.then(|| value.as_str().into())
}

/// One line to point at, not all of it.
fn first_line(node: &Node) -> Span {
    match &node.value {
        Value::Map(entries) => entries.first().map_or(node.at, |entry| entry.name_at),
        _ => node.at,
    }
}
