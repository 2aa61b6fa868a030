//! Tests of a policy: requests over virtual time, and what has to come of each.
//!
//! Times are worked out while the file is read, so that the code that runs the tests only sends
//! requests.

mod read;
mod tables;

use std::path::{Path, PathBuf};

use tidegate_core::{Span as Time, Tick};

pub(crate) use self::tables::SUITE;
use crate::load::{LoadError, bounded};
use crate::problem::{Problem, Problems, Span};
use crate::report::{File, Finding, Report};
use crate::request::{Response, Sample};
use crate::rule::Rule;
use crate::rules::Rules;
use crate::source::{self, Format};
use crate::suggest::did_you_mean;

/// The most steps of a file.
const STEPS_MAX: usize = 100_000;
/// The most times that a step sends its request.
const TIMES_MAX: u64 = 1_000_000;
/// The most requests of a file.
const REQUESTS_MAX: u64 = 10_000_000;

/// A file of tests.
#[derive(Debug)]
pub struct Suite {
    name: String,
    /// Kept to show the lines that a test failed in.
    text: Vec<u8>,
    policy: Option<PathBuf>,
    tests: Vec<Test>,
}

/// A place in the file of a suite. They are in the order of the file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place(Span);

/// A test: requests that follow each other.
#[derive(Debug)]
#[non_exhaustive]
pub struct Test {
    /// What has to hold.
    pub name: String,
    /// Where its name is.
    pub at: Place,
    /// When it starts.
    pub start: Tick,
    /// What is sent.
    pub steps: Vec<Step>,
}

/// A request, and what has to come of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Step {
    /// When it is sent first, since the start of the test. Never before the step above.
    pub after: Time,
    /// The request.
    pub request: Sample,
    /// How often it is sent; at least once.
    pub times: u32,
    /// How much time is between them.
    pub every: Time,
    /// How long it is under way once it may start.
    pub takes: Time,
    /// How it is answered.
    pub response: Option<Answered>,
    /// What each of them comes to.
    pub expect: Expected<Ends>,
    /// What has to hold for the last of them.
    pub last: Expectations,
}

/// What a request comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// It passes.
    Allow,
    /// A rule blocks it.
    Block,
    /// It is held back.
    Delay,
    /// It is refused for a while.
    Deny,
    /// It is refused, and waiting does not help.
    Never,
}

/// What else is expected of a request.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Expectations {
    /// The rules that refuse it.
    pub by: Option<Expected<Vec<Expected<String>>>>,
    /// The rules in shadow that would have refused it.
    pub shadow: Option<Expected<Vec<Expected<String>>>>,
    /// The rules that are for it.
    pub rules: Option<Expected<Vec<Expected<String>>>>,
    /// After which time it would pass.
    pub retry_after: Option<Expected<Time>>,
    /// For how long it is held back.
    pub delay: Option<Expected<Time>>,
    /// What is left.
    pub remaining: Option<Expected<Cells>>,
    /// What it takes.
    pub cost: Option<Expected<Cells>>,
}

/// Something that is expected, and where the file says so.
#[derive(Clone, Debug)]
pub struct Expected<T> {
    /// What.
    pub value: T,
    /// Where.
    pub at: Place,
}

/// Numbers of cells.
#[derive(Clone, Debug)]
pub enum Cells {
    /// For all limits together.
    All(u32),
    /// By the names of rules.
    ByRule(Vec<(Expected<String>, u32)>),
}

/// A response put together by hand.
#[derive(Clone, Debug)]
pub struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
}

impl Suite {
    /// Reads the tests at `path`.
    pub fn from_path(path: &Path) -> Result<Suite, LoadError> {
        let unread = |error| LoadError::Unread { path: path.to_owned(), error };
        let text = bounded(path).map_err(unread)?;
        let suite = Suite::from_bytes(&path.display().to_string(), &text, Format::of_path(path));
        let mut suite = suite.map_err(LoadError::Wrong)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        suite.policy = suite.policy.map(|policy| folder.join(policy));
        Ok(suite)
    }

    /// Reads a file of tests; `name` stands in messages.
    pub fn from_bytes(name: &str, text: &[u8], format: Format) -> Result<Suite, Report> {
        let mut problems = Problems::default();
        let read = match source::read(0, text, format) {
            Ok(tree) => read::suite(&tree, &mut problems),
            Err(problem) => {
                problems.add(problem);
                None
            }
        };
        match read {
            Some((policy, tests)) if !problems.is_fatal() => {
                Ok(Suite { name: name.to_owned(), text: text.to_vec(), policy, tests })
            }
            _ => Err(Report::of(&[File { name, text }], problems)),
        }
    }

    /// The JSON schema of a file of tests, for editors.
    pub fn schema() -> serde_json::Value {
        let id = "https://github.com/tidegate/tidegate/blob/main/docs/policy-tests.schema.json";
        crate::schema::schema(&SUITE, id, "Tests of a Tidegate policy")
    }

    /// The policy that the file names, relative to the file itself.
    pub fn policy(&self) -> Option<&Path> {
        self.policy.as_deref()
    }

    /// The tests.
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Something to say about a place in the file.
    pub fn finding(&self, at: Place, message: &str, help: &str) -> Finding {
        let problem = Problem::error(at.0, message).help(help);
        Finding::of(&[self.file()], problem)
    }

    /// Complains of rules that the tests name and the policy does not have. The second limit of a
    /// rule with credits has a name as well.
    pub fn check(&self, rules: &Rules) -> Result<(), Report> {
        let mut problems = Problems::default();
        let seconds: Vec<String> = rules.rules().iter().filter_map(Rule::second_name).collect();
        let names = || rules.rules().iter().map(Rule::name).chain(seconds.iter().map(|it| &**it));
        let known: std::collections::HashSet<&str> = names().collect();
        let steps = self.tests.iter().flat_map(|test| &test.steps);
        for name in steps.flat_map(|step| step.last.names()) {
            if known.contains(&*name.value) {
                continue;
            }
            let wrong = format!("the policy has no rule `{}`", name.value);
            let near = if problems.is_full() { None } else { did_you_mean(&name.value, names()) };
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let problem = problems.error(name.at.0, wrong);
            problem.help(help.unwrap_or_else(|| "name one of its rules".to_owned()));
        }
        if !problems.is_fatal() {
            return Ok(());
        }
        Err(Report::of(&[self.file()], problems))
    }

    fn file(&self) -> File<'_> {
        File { name: &self.name, text: &self.text }
    }
}

impl Ends {
    /// As it is written in a file.
    pub fn name(self) -> &'static str {
        match self {
            Ends::Allow => "allow",
            Ends::Block => "block",
            Ends::Delay => "delay",
            Ends::Deny => "deny",
            Ends::Never => "never",
        }
    }

    /// Whether the request is let through, now or later.
    pub fn passes(self) -> bool {
        matches!(self, Ends::Allow | Ends::Delay)
    }
}

impl Expectations {
    /// Every rule that is named.
    fn names(&self) -> impl Iterator<Item = &Expected<String>> {
        let lists = [&self.by, &self.shadow, &self.rules].into_iter().flatten();
        let listed = lists.flat_map(|names| &names.value);
        let cells = [&self.remaining, &self.cost].into_iter().flatten();
        let counted = cells.flat_map(|cells| match &cells.value {
            Cells::All(_) => &[][..],
            Cells::ByRule(by_rule) => by_rule,
        });
        listed.chain(counted.map(|(name, _)| name))
    }
}

impl Response for Answered {
    fn status(&self) -> u16 {
        self.status
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_bytes())
    }
}

#[cfg(test)]
mod tests;
