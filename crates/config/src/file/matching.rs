//! `match`: which requests.

use std::borrow::Cow;

use super::Reading;
use super::tables::MATCH;
use crate::attribute::Attribute;
use crate::facts::plain_host;
use crate::glob::Glob;
use crate::lint::Lint;
use crate::matcher::{All, Condition, Matcher};
use crate::misread::quoted;
use crate::path::Pattern;
use crate::problem::Span;
use crate::read::Fields;
use crate::repeated::{has_scheme, plain_cookie, plain_scheme, title};
use crate::source::{Entry, Node, Value};
use crate::suggest::did_you_mean;

impl Reading<'_> {
    /// One match or a list of them; without one, every request.
    pub(super) fn read_match(&mut self, node: Option<&Node>) -> Matcher {
        let Some(node) = node else { return Matcher::everything() };
        Matcher { any: node.one_or_more().iter().map(|one| self.read_all(one)).collect() }
    }

    fn read_all(&mut self, node: &Node) -> All {
        let Some(fields) = Fields::of(node, &MATCH, &mut self.problems) else {
            return All::default();
        };
        let mut conditions = Vec::new();
        if let Some(node) = fields.get("method") {
            conditions.push(self.read_values(node, Attribute::Method, "method"));
        }
        if let Some(node) = fields.get("host") {
            conditions.push(self.read_values(node, Attribute::Host, "host"));
        }
        conditions.extend(fields.get("path").map(|node| self.read_paths(node)));
        conditions.extend(fields.get("tier").map(|node| self.read_tiers_wanted(node)));
        conditions
            .extend(fields.get("ip").map(|node| Condition::Network(self.read_networks(node))));
        for name in ["api_key", "header", "cookie", "query", "jwt", "attribute"] {
            let Some(node) = fields.get(name) else { continue };
            let Some(entries) = self.read_pairs(node, name) else { continue };
            let kind = if name == "api_key" { "api-key" } else { name };
            conditions.extend(entries.iter().filter_map(|entry| self.read_value(kind, entry)));
        }
        if let Some(node) = fields.get("not") {
            conditions.push(Condition::Not(self.read_match(Some(node))));
        }
        if fields.is_empty() {
            let problem = self.problems.error(node.at, "an empty match says nothing");
            problem.help("leave it out to match every request");
        }
        All { conditions }
    }

    /// Names and what they have to be.
    pub(super) fn read_pairs<'n>(&mut self, node: &'n Node, name: &str) -> Option<&'n [Entry]> {
        let Value::Map(entries) = &node.value else {
            let message = format!("`{name}` takes a map, not {}", node.found());
            let example = if node.plain_text().is_empty() { "NAME" } else { node.plain_text() };
            let help =
                format!("write {} for any value", quoted(&format!("{{ {example}: \"*\" }}")));
            self.problems.error(node.at, message).help(help);
            return None;
        };
        if entries.is_empty() {
            let problem = self.problems.error(node.at, format!("`{name}` is an empty map"));
            problem.help("put something in it, or remove it");
        }
        Some(entries)
    }

    /// `method: [GET, HEAD]` and `path: /export/**`, where they stand without `match`.
    pub(super) fn read_short(&mut self, method: Option<&Node>, path: Option<&Node>) -> All {
        let mut conditions = Vec::new();
        conditions.extend(method.map(|it| self.read_values(it, Attribute::Method, "method")));
        conditions.extend(path.map(|node| self.read_paths(node)));
        All { conditions }
    }

    fn read_paths(&mut self, node: &Node) -> Condition {
        let mut patterns = Vec::new();
        for one in node.one_or_more() {
            let Some(text) = one.text("path", &mut self.problems) else { continue };
            match Pattern::parse(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(misread) => self.misread(one.at, misread),
            }
        }
        Condition::Path(patterns)
    }

    fn read_tiers_wanted(&mut self, node: &Node) -> Condition {
        let mut tiers = Vec::new();
        for one in node.one_or_more() {
            if let Some(name) = one.scalar("tier", &mut self.problems) {
                tiers.push(self.tier(&name, one.at));
            }
        }
        Condition::Tier(tiers)
    }

    pub(super) fn read_value(&mut self, kind: &str, entry: &Entry) -> Option<Condition> {
        let name = format!("{kind}:{}", entry.name);
        match Attribute::parse(&name, &[]) {
            Ok(attribute) => {
                self.needs_source(&attribute, entry.name_at);
                Some(self.read_values(&entry.node, attribute, &entry.name))
            }
            Err(misread) => {
                self.misread(entry.name_at, misread);
                None
            }
        }
    }

    fn read_values(&mut self, node: &Node, attribute: Attribute, what: &str) -> Condition {
        let ignores_case = crate::index::ignores_case(&attribute);
        let mut like = Vec::new();
        for one in self.read_filled(node) {
            let Some(text) = one.scalar(what, &mut self.problems) else { continue };
            self.check_value(&attribute, &text, one);
            // A cookie exempts by its value as it is sent, too.
            like.extend(glob_of_cookie(&attribute, &text));
            let text = plain(&attribute, text);
            if text.is_empty() {
                let problem = self.problems.error(one.at, "an empty text is like nothing");
                problem.help("write `\"*\"` for any value, or put it under `not:`");
            }
            let glob = if ignores_case { Glob::ignoring_case(&text) } else { Glob::new(&text) };
            if attribute == Attribute::Method {
                self.warn_of_method(&glob, &text, one.at);
            }
            like.extend(glob_of_scheme(&attribute, &text));
            like.push(glob);
        }
        Condition::Value { attribute, like }
    }

    /// A method that HTTP does not have is rarely meant.
    fn warn_of_method(&mut self, glob: &Glob, text: &str, at: Span) {
        let is_odd = |letter: char| !letter.is_ascii_graphic() || ",|/:?#@".contains(letter);
        let is_known = METHODS.iter().any(|method| glob.matches(method.as_bytes()));
        if is_known || text.is_empty() || text.contains(is_odd) {
            return;
        }
        let upper = text.to_ascii_uppercase();
        let message = format!("{} is no method of HTTP", quoted(text));
        let problem = self.problems.lint(Lint::UnknownMethod, at, message);
        match did_you_mean(&upper, METHODS) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help("write one such as `GET`, or allow it if your clients send it"),
        }
    }

    /// A method or a host that no request has is a mistake.
    fn check_value(&mut self, attribute: &Attribute, text: &str, node: &Node) {
        let is_odd = |letter: char| letter.is_whitespace() || ",|/:?#@".contains(letter);
        // An address of IPv6 stands in brackets, and has colons of its own.
        let address = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if !address.map_or(text, |(_, behind)| behind).contains(is_odd) {
            return;
        }
        let help = match attribute {
            Attribute::Method => "write one such as `GET`, or a list: `[GET, HEAD]`",
            Attribute::Host => "write the name alone, without scheme, port or path",
            _ => return,
        };
        let message = format!("no {attribute} is like {}", quoted(text));
        self.problems.error(node.at, message).help(help);
    }
}

/// The methods of IANA's registry, those of drafts that are in use, and `PURGE` of caches. Common
/// ones come first: the first that is near is suggested.
const METHODS: [&str; 41] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "QUERY",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// A text to compare with, spelled as values of an attribute are.
fn plain<'t>(attribute: &Attribute, text: Cow<'t, str>) -> Cow<'t, str> {
    let spelled = match attribute {
        Attribute::Host => return plain_host(&text).into(),
        Attribute::Cookie(_) => plain_cookie(text.as_bytes()),
        Attribute::Header(name) if has_scheme(name) => plain_scheme(text.as_bytes()),
        _ => return text,
    };
    String::from_utf8_lossy(&spelled).into_owned().into()
}

/// The value of a cookie as it is written, where its plain spelling is another.
fn glob_of_cookie(attribute: &Attribute, text: &str) -> Option<Glob> {
    let is_cookie = matches!(attribute, Attribute::Cookie(_));
    (is_cookie && *plain_cookie(text.as_bytes()) != *text.as_bytes()).then(|| Glob::new(text))
}

/// What begins like a scheme and goes on with anything, such as `basic*`, also in the spelling of
/// schemes.
fn glob_of_scheme(attribute: &Attribute, text: &str) -> Option<Glob> {
    let Attribute::Header(name) = attribute else { return None };
    let (scheme, rest) = text.split_once('*').filter(|(scheme, _)| !scheme.contains(' '))?;
    let spelled = String::from_utf8(title(scheme.as_bytes())).ok()?;
    (has_scheme(name) && *spelled != *scheme).then(|| Glob::new(&format!("{spelled}*{rest}")))
}
