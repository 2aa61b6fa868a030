//! From what was typed to tests.

use std::net::IpAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use tidegate_core::{Span as Time, Tick};

use super::tables::{ENDS, RESPOND, STEP, SUITE, TEST};
use super::{
    Answered, Cells, Ends, Expectations, Expected, Place, REQUESTS_MAX, STEPS_MAX, Step, TIMES_MAX,
    Test,
};
use crate::misread::Misread;
use crate::problem::{Problems, shortened};
use crate::quantity;
use crate::read::Fields;
use crate::request::Sample;
use crate::source::{Node, Value};

/// When a test starts that does not say so: 2026-01-01T00:00:00Z.
const START: Tick = Tick::from_micros(1_767_225_600_000_000);
/// The most lines of headers, and the most attributes, that are said at one place.
const NAMED_MAX: usize = 1_000;
/// The most bytes of all requests together: what a test says is said again for each of its steps.
const SENT_BYTES_MAX: usize = 256 << 20;
/// What a header or an attribute takes besides its letters, roughly.
const NAMED_BYTES: usize = 64;
/// The longest that a test may last.
const LASTS_MAX: Time = Time::from_micros(100 * 366 * 86_400 * 1_000_000);

/// What is said of a request, by its test or by its step.
#[derive(Clone, Debug, Default)]
struct Said {
    line: Option<String>,
    /// Names in lower case.
    headers: Vec<(String, Vec<String>)>,
    from: Option<IpAddr>,
    attributes: Vec<(String, String)>,
}

/// What was read so far.
struct Reading<'p> {
    problems: &'p mut Problems,
    steps: usize,
    requests: u64,
    /// How many bytes all requests have.
    sent: usize,
}

/// The policy's path and the tests.
pub(super) fn suite(tree: &Node, problems: &mut Problems) -> Option<(Option<PathBuf>, Vec<Test>)> {
    let fields = Fields::of(tree, &SUITE, problems)?;
    let policy = fields.get("policy").and_then(|node| node.text("policy", problems));
    let list = fields.required("tests", problems)?.list("tests", problems)?;
    let mut reading = Reading { problems, steps: 0, requests: 0, sent: 0 };
    let tests = list.iter().filter_map(|node| reading.test(node)).collect();
    Some((policy.map(PathBuf::from), tests))
}

impl Reading<'_> {
    fn test(&mut self, node: &Node) -> Option<Test> {
        let fields = Fields::of(node, &TEST, self.problems)?;
        let named = fields.required("name", self.problems);
        let name = named.and_then(|node| node.scalar("name", self.problems));
        let start = match fields.get("start") {
            Some(node) => self.start(node),
            None => Some(START),
        };
        let usual = self.said(&fields);
        let list = fields.required("steps", self.problems)?.list("steps", self.problems)?;
        let mut now = Time::ZERO;
        let mut steps = Vec::new();
        for node in list {
            self.steps += 1;
            if self.steps == STEPS_MAX + 1 {
                let message = format!("a file has at most {STEPS_MAX} steps");
                self.problems.error(node.at, message).help("put some tests into another file");
            }
            if self.steps <= STEPS_MAX {
                steps.extend(self.step(node, &usual, &mut now));
            }
        }
        let at = Place(fields.at_name());
        Some(Test { name: name?.into_owned(), at, start: start?, steps })
    }

    fn start(&mut self, node: &Node) -> Option<Tick> {
        let text = node.text("start", self.problems)?;
        let found: Option<Timestamp> = text.parse().ok();
        let micros = found.and_then(|it| u64::try_from(it.as_microsecond()).ok());
        if micros.is_none() {
            let message = format!("`{}` is no time since 1970", shortened(text));
            let help = "write it with its offset, as in `2026-03-29T00:30:00+01:00`";
            self.problems.error(node.at, message).help(help);
        }
        micros.map(Tick::from_micros)
    }

    fn step(&mut self, node: &Node, usual: &Said, now: &mut Time) -> Option<Step> {
        let fields = Fields::of(node, &STEP, self.problems)?;
        self.go_on(&fields, now);
        if fields.get("expect").is_none() && is_wait(&fields) {
            return None;
        }
        let after = *now;
        let expected = fields.required("expect", self.problems);
        let expect = expected.and_then(|node| self.ends(node));
        let times = self.number(&fields, "times", 1..=TIMES_MAX).unwrap_or(1);
        let every = self.duration(&fields, "every").unwrap_or(Time::ZERO);
        let takes = self.duration(&fields, "takes").unwrap_or(Time::ZERO);
        self.spend(node, times, every, now);
        let response = fields.get("respond").and_then(|node| self.respond(node));
        let request = self.request(&fields, usual);
        let last = self.expectations(&fields);
        let expect = expect?;
        self.fits(&fields, expect.value);
        let times = u32::try_from(times).ok()?;
        Some(Step { after, request: request?, times, every, takes, response, expect, last })
    }

    /// Moves `now` to where the step begins.
    fn go_on(&mut self, fields: &Fields<'_>, now: &mut Time) {
        let (wait, at) = (self.duration(fields, "wait"), self.duration(fields, "at"));
        if let (Some(_), Some(node)) = (fields.get("wait"), fields.get("at")) {
            let problem = self.problems.error(node.at, "`at` and `wait` both say when");
            problem.help("leave one of them out");
            return;
        }
        if let (Some(at), Some(node)) = (at, fields.get("at")) {
            if at < *now {
                let message = format!("`{at}` is over: the step above is at `{now}`");
                self.problems.error(node.at, message).help("time does not go back");
            }
            *now = at.max(*now);
        }
        *now = Time::from_micros(now.get().saturating_add(wait.map_or(0, Time::get)));
    }

    /// Counts requests and the time that they take together, both of which have an end.
    fn spend(&mut self, node: &Node, times: u64, every: Time, now: &mut Time) {
        let before = self.requests;
        self.requests = before.saturating_add(times);
        if before <= REQUESTS_MAX && REQUESTS_MAX < self.requests {
            let message = format!("a file sends at most {REQUESTS_MAX} requests");
            self.problems.error(node.at, message).help("lower `times`, or use another file");
        }
        let spent = every.get().saturating_mul(times - 1);
        *now = Time::from_micros(now.get().saturating_add(spent));
        if LASTS_MAX < *now {
            self.problems.error(node.at, "a test lasts at most 100 years").help("wait for less");
            *now = Time::ZERO;
        }
    }

    fn said(&mut self, fields: &Fields<'_>) -> Said {
        let from = fields.get("from").and_then(|node| self.address(node));
        let line = fields.get("send").and_then(|node| self.line(node));
        let headers = fields.get("header").map_or(Vec::new(), |node| self.headers(node));
        let given = fields.get("attribute").and_then(|it| it.map("attribute", self.problems));
        let mut attributes = Vec::new();
        for entry in given.unwrap_or_default() {
            let value = entry.node.scalar(&entry.name, self.problems);
            if attributes.len() == NAMED_MAX {
                self.too_many(&entry.node, "attributes");
                break;
            }
            attributes.extend(value.map(|value| (entry.name.clone(), value.into_owned())));
        }
        Said { line, headers, from, attributes }
    }

    /// The request of a step, with what its test says of all of them.
    fn request(&mut self, fields: &Fields<'_>, usual: &Said) -> Option<Sample> {
        let own = self.said(fields);
        let Some(line) = own.line.as_ref().or(usual.line.as_ref()) else {
            if fields.get("send").is_none() {
                let problem = self.problems.error(fields.at(), "nothing says what is sent");
                problem.help("add `send: GET /`, to the step or to its test");
            }
            return None;
        };
        self.weigh(fields, line.len() + own.bytes() + usual.bytes())?;
        let mut request = Sample::new(line);
        let is_own = |name: &str| own.headers.iter().any(|(other, _)| other == name);
        let usual_headers = usual.headers.iter().filter(|(name, _)| !is_own(name));
        for (name, values) in own.headers.iter().chain(usual_headers) {
            for value in values {
                request = request.with_header(name, value);
            }
        }
        // The first of a name counts.
        for (name, value) in own.attributes.iter().chain(&usual.attributes) {
            request = request.with_attribute(name, value);
        }
        Some(match own.from.or(usual.from) {
            Some(peer) => request.from_peer(peer),
            None => request,
        })
    }

    fn line(&mut self, node: &Node) -> Option<String> {
        let line = node.text("send", self.problems)?.trim();
        let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
        let is_token = method.bytes().all(|byte| byte.is_ascii_graphic());
        let target = target.trim_start();
        if is_token && target.starts_with('/') && !target.contains(char::is_whitespace) {
            return Some(format!("{method} {target}"));
        }
        let problem = self.problems.error(node.at, format!("`{}` is no request", shortened(line)));
        problem.help("write a method and a path, as in `GET /search?q=x`");
        None
    }

    fn address(&mut self, node: &Node) -> Option<IpAddr> {
        let text = node.text("from", self.problems)?;
        let address = text.trim().parse().ok();
        if address.is_none() {
            let message = format!("`{}` is no address", shortened(text));
            self.problems.error(node.at, message).help("write one such as `203.0.113.7`");
        }
        address
    }

    fn headers(&mut self, node: &Node) -> Vec<(String, Vec<String>)> {
        let entries = node.map("header", self.problems).unwrap_or_default();
        let mut headers = Vec::new();
        let mut left = NAMED_MAX;
        for entry in entries {
            let lines = entry.node.one_or_more();
            let Some(rest) = left.checked_sub(lines.len()) else {
                self.too_many(&entry.node, "lines of headers");
                break;
            };
            left = rest;
            let lines = lines.iter().filter_map(|line| line.scalar(&entry.name, self.problems));
            let lines = lines.map(std::borrow::Cow::into_owned).collect();
            headers.push((entry.name.to_ascii_lowercase(), lines));
        }
        headers
    }

    fn too_many(&mut self, node: &Node, what: &str) {
        let problem =
            self.problems.error(node.at, format!("there are more than {NAMED_MAX} {what}"));
        problem.help("leave some out");
    }

    /// Counts the bytes of all requests; `None` once they are too many, which is said once.
    fn weigh(&mut self, fields: &Fields<'_>, bytes: usize) -> Option<()> {
        let before = self.sent;
        self.sent = before.saturating_add(bytes);
        if before <= SENT_BYTES_MAX && SENT_BYTES_MAX < self.sent {
            let megabytes = SENT_BYTES_MAX >> 20;
            let message = format!("the requests of a file have at most {megabytes} MiB together");
            let problem = self.problems.error(fields.at(), message);
            problem.help("let its test say less for all of them, or put some into another file");
        }
        (self.sent <= SENT_BYTES_MAX).then_some(())
    }

    fn respond(&mut self, node: &Node) -> Option<Answered> {
        let fields = Fields::of(node, &RESPOND, self.problems)?;
        let status = self.number(&fields, "status", 100..=599).unwrap_or(200);
        let headers = fields.get("header").map_or(Vec::new(), |node| self.headers(node));
        let line = |(name, values): (String, Vec<String>)| Some((name, values.into_iter().next()?));
        let headers = headers.into_iter().filter_map(line).collect();
        Some(Answered { status: u16::try_from(status).ok()?, headers })
    }

    fn ends(&mut self, node: &Node) -> Option<Expected<Ends>> {
        let value = match node.choice("expect", &ENDS, self.problems)? {
            "allow" => Ends::Allow,
            "block" => Ends::Block,
            "delay" => Ends::Delay,
            "deny" => Ends::Deny,
            _ => Ends::Never,
        };
        Some(Expected { value, at: Place(node.at) })
    }

    fn expectations(&mut self, fields: &Fields<'_>) -> Expectations {
        let mut names = |name: &'static str| fields.get(name).map(|node| self.rules(name, node));
        let (by, shadow, rules) = (names("by"), names("shadow"), names("rules"));
        let mut time = |name: &'static str| {
            let at = Place(fields.get(name)?.at);
            self.duration(fields, name).map(|value| Expected { value, at })
        };
        let (retry_after, delay) = (time("retry_after"), time("delay"));
        let mut cells = |name: &'static str| {
            let node = fields.get(name)?;
            self.cells(name, node).map(|value| Expected { value, at: Place(node.at) })
        };
        let (remaining, cost) = (cells("remaining"), cells("cost"));
        Expectations { by, shadow, rules, retry_after, delay, remaining, cost }
    }

    /// Names of rules, or `none`.
    fn rules(&mut self, what: &str, node: &Node) -> Expected<Vec<Expected<String>>> {
        let mut value = Vec::new();
        for one in node.one_or_more() {
            if let Some(name) = one.scalar(what, self.problems) {
                value.push(Expected { value: name.into_owned(), at: Place(one.at) });
            }
        }
        if matches!(&value[..], [one] if one.value == "none") {
            value.clear();
        }
        Expected { value, at: Place(node.at) }
    }

    fn cells(&mut self, what: &'static str, node: &Node) -> Option<Cells> {
        let range = 0..=u64::from(u32::MAX);
        let mut count = |node: &Node| {
            let count = node.count(what, range.clone(), self.problems)?;
            u32::try_from(count).ok()
        };
        let Value::Map(entries) = &node.value else { return count(node).map(Cells::All) };
        let mut by_rule = Vec::new();
        for entry in entries {
            let name = Expected { value: entry.name.clone(), at: Place(entry.name_at) };
            by_rule.push((name, count(&entry.node)?));
        }
        Some(Cells::ByRule(by_rule))
    }

    /// Complains of what says nothing beside what the request comes to.
    fn fits(&mut self, fields: &Fields<'_>, ends: Ends) {
        let only: [(&'static str, bool, &str); 5] = [
            ("by", !ends.passes(), "a request that passes is refused by nobody"),
            ("retry_after", ends == Ends::Deny, "only `expect: deny` has a `retry_after`"),
            ("delay", ends == Ends::Delay, "only `expect: delay` has a `delay`"),
            ("respond", ends.passes(), "a request that is refused is not answered"),
            ("takes", ends.passes(), "a request that is refused is never under way"),
        ];
        for (name, fits, wrong) in only {
            if let (false, Some(node)) = (fits, fields.get(name)) {
                let problem = self.problems.error(node.at, wrong);
                problem.help(format!("leave `{name}` out, or expect something else"));
            }
        }
    }

    fn number(
        &mut self,
        fields: &Fields<'_>,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        fields.get(name)?.count(name, range, self.problems)
    }

    fn duration(&mut self, fields: &Fields<'_>, name: &'static str) -> Option<Time> {
        let node = fields.get(name)?;
        let text = node.scalar(name, self.problems)?;
        match duration(&text) {
            Ok(time) => Some(time),
            Err(misread) => {
                let problem = self.problems.error(node.at, misread.message);
                problem.help(misread.help.unwrap_or_default());
                None
            }
        }
    }
}

impl Said {
    /// How many bytes its headers and attributes take.
    fn bytes(&self) -> usize {
        let headers = self.headers.iter().flat_map(|(name, lines)| {
            lines.iter().map(|line| name.len() + line.len() + NAMED_BYTES)
        });
        let attributes =
            self.attributes.iter().map(|(name, value)| name.len() + value.len() + NAMED_BYTES);
        headers.chain(attributes).sum()
    }
}

/// Whether nothing is said but how time goes on.
fn is_wait(fields: &Fields<'_>) -> bool {
    let others = STEP.fields.iter().filter(|it| !matches!(it.name, "wait" | "at" | "expect"));
    let sends = others.into_iter().any(|field| fields.get(field.name).is_some());
    !sends && fields.get("wait").or(fields.get("at")).is_some()
}

/// A length of time; also in microseconds, as decisions are.
fn duration(text: &str) -> Result<Time, Misread> {
    let micros = text.trim().strip_suffix("us").and_then(|digits| digits.trim_end().parse().ok());
    match micros {
        Some(micros) if micros <= LASTS_MAX.get() => Ok(Time::from_micros(micros)),
        _ => quantity::duration(text),
    }
}
