//! Single values out of nodes. Each reports what it is not, and how to write it.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::problem::{Problems, shortened};
use crate::source::{Entry, Node, Value};
use crate::suggest::did_you_mean;

/// `what` is the name of the field, for messages.
impl Node {
    pub(crate) fn text(&self, what: &str, problems: &mut Problems) -> Option<&str> {
        if let Value::Text(text) = &self.value {
            return Some(text);
        }
        let problem = problems.error(self.at, self.takes(what, "text"));
        if let Some(typed) = self.typed() {
            problem.help(format!("write it in quotes: `\"{}\"`", shortened(&typed)));
        }
        None
    }

    /// Text, or a number as it was typed.
    pub(crate) fn scalar(&self, what: &str, problems: &mut Problems) -> Option<Cow<'_, str>> {
        match &self.value {
            Value::Text(text) | Value::Fraction(text) => Some(Cow::Borrowed(text)),
            Value::Integer(whole) => Some(Cow::Owned(whole.to_string())),
            _ => {
                let problem = problems.error(self.at, self.takes(what, "text or a number"));
                if let Some(typed) = self.typed() {
                    problem.help(format!("write it in quotes: `\"{}\"`", shortened(&typed)));
                }
                None
            }
        }
    }

    pub(crate) fn flag(&self, what: &str, problems: &mut Problems) -> Option<bool> {
        if let Value::Bool(flag) = self.value {
            return Some(flag);
        }
        problems.error(self.at, self.takes(what, "`true` or `false`"));
        None
    }

    /// A whole number in a range.
    pub(crate) fn count(
        &self,
        what: &str,
        range: RangeInclusive<u64>,
        problems: &mut Problems,
    ) -> Option<u64> {
        let count = match &self.value {
            Value::Integer(whole) => u64::try_from(*whole).ok(),
            // Above what an integer holds.
            Value::Fraction(typed) => typed.parse().ok().filter(|_| is_plain(typed)),
            _ => None,
        };
        if let Some(count) = count.filter(|count| range.contains(count)) {
            return Some(count);
        }
        let (min, max) = range.into_inner();
        let wanted = if max == u64::MAX {
            format!("a whole number, at least `{min}`")
        } else {
            format!("a whole number from `{min}` to `{max}`")
        };
        problems.error(self.at, self.takes(what, &wanted));
        None
    }

    /// One of some names.
    pub(crate) fn choice(
        &self,
        what: &str,
        names: &'static [&'static str],
        problems: &mut Problems,
    ) -> Option<&'static str> {
        let typed = self.typed().unwrap_or_default();
        if let Some(name) = names.iter().find(|name| **name == typed) {
            return Some(name);
        }
        let wanted = listed(names.iter().copied());
        let problem = problems.error(self.at, self.takes(what, &wanted));
        if let Some(near) = did_you_mean(&typed, names.iter().copied()) {
            problem.help(format!("did you mean `{near}`?"));
        }
        None
    }

    pub(crate) fn list(&self, what: &str, problems: &mut Problems) -> Option<&[Node]> {
        if let Value::List(nodes) = &self.value {
            return Some(nodes);
        }
        problems.error(self.at, self.takes(what, "a list"));
        None
    }

    /// The text, or nothing if it is none.
    pub(crate) fn plain_text(&self) -> &str {
        if let Value::Text(text) = &self.value { text } else { "" }
    }

    /// The value of a field, if the node is a map that has it.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// A list's items, or the node itself.
    pub(crate) fn one_or_more(&self) -> &[Node] {
        match &self.value {
            Value::List(nodes) => nodes,
            _ => std::slice::from_ref(self),
        }
    }

    /// A map of any names.
    pub(crate) fn map(&self, what: &str, problems: &mut Problems) -> Option<&[Entry]> {
        if let Value::Map(entries) = &self.value {
            return Some(entries);
        }
        problems.error(self.at, self.takes(what, "a map"));
        None
    }

    /// What the node is, in words: `a list`.
    pub(crate) fn found(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Fraction(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// What the node is, with what was typed.
    pub(super) fn shown(&self) -> String {
        match (&self.value, self.typed()) {
            (Value::Integer(_) | Value::Fraction(_), Some(typed)) => {
                format!("the number `{}`", shortened(&typed))
            }
            (Value::Text(text), _) if text.is_empty() => "empty text".to_owned(),
            (Value::Text(text), _) => format!("the text `{}`", shortened(text)),
            (_, Some(typed)) => format!("`{typed}`"),
            (_, None) => self.found().to_owned(),
        }
    }

    fn takes(&self, what: &str, wanted: &str) -> String {
        let is_phrase = what.starts_with("a ") || what.starts_with("an ");
        let what = if is_phrase { what.to_owned() } else { format!("`{}`", shortened(what)) };
        format!("{what} takes {wanted}, not {}", self.shown())
    }

    fn typed(&self) -> Option<Cow<'_, str>> {
        match &self.value {
            Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            Value::Integer(whole) => Some(Cow::Owned(whole.to_string())),
            Value::Fraction(typed) | Value::Text(typed) => Some(Cow::Borrowed(typed)),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }
}

/// Names for a message: `a`, `b` or `c`.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let last = names.pop().unwrap_or_else(|| "nothing".to_owned());
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

/// Whether a number is typed as a program would print it.
fn is_plain(typed: &str) -> bool {
    !typed.starts_with(['0', '+']) && typed.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Format, read};

    /// Reads `text` as a value of the field `f`: what it gave, or the message and its help.
    #[track_caller]
    fn check<T: std::fmt::Debug>(
        text: &str,
        read_as: impl FnOnce(&Node, &mut Problems) -> Option<T>,
        wanted: &str,
    ) {
        let file = format!("f: {text}\n");
        let root = read(0, file.as_bytes(), Format::Yaml).unwrap();
        let node = &root.map("file", &mut Problems::default()).unwrap()[0].node;
        let mut problems = Problems::default();
        let found = if let Some(value) = read_as(node, &mut problems) {
            format!("{value:?}")
        } else {
            let problem = problems.into_sorted().remove(0);
            assert_eq!(problem.at, node.at);
            problem.message + &problem.help.map(|help| format!(" | {help}")).unwrap_or_default()
        };
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn text_is_not_guessed_from_numbers_and_flags() {
        let text =
            |node: &Node, problems: &mut Problems| node.text("f", problems).map(ToOwned::to_owned);
        check("a b", text, "\"a b\"");
        check("'5'", text, "\"5\"");
        check("no", text, "\"no\"");
        check("5", text, "`f` takes text, not the number `5` | write it in quotes: `\"5\"`");
        check("true", text, "`f` takes text, not `true` | write it in quotes: `\"true\"`");
        check("[a]", text, "`f` takes text, not a list");
    }

    #[test]
    fn scalars_are_as_typed() {
        let scalar =
            |node: &Node, problems: &mut Problems| node.scalar("f", problems).map(Cow::into_owned);
        for typed in ["5", "-5", "1.10", "007", "+49", "99999999999999999999", "10/min"] {
            check(typed, scalar, &format!("{typed:?}"));
        }
        check("{}", scalar, "`f` takes text or a number, not a map");
        check("~", scalar, "`f` takes text or a number, not nothing");
    }

    #[test]
    fn flags_are_true_or_false() {
        let flag = |node: &Node, problems: &mut Problems| node.flag("f", problems);
        check("true", flag, "true");
        check("False", flag, "false");
        check("yes", flag, "`f` takes `true` or `false`, not the text `yes`");
        check("1", flag, "`f` takes `true` or `false`, not the number `1`");
    }

    #[test]
    fn counts_are_whole_and_in_range() {
        let few = |node: &Node, problems: &mut Problems| node.count("f", 1..=10, problems);
        let any = |node: &Node, problems: &mut Problems| node.count("f", 1..=u64::MAX, problems);
        check("1", few, "1");
        check("10", few, "10");
        let wanted = "`f` takes a whole number from `1` to `10`, not";
        check("11", few, &format!("{wanted} the number `11`"));
        check("-1", few, &format!("{wanted} the number `-1`"));
        check("1.5", few, &format!("{wanted} the number `1.5`"));
        check("'5'", few, &format!("{wanted} the text `5`"));
        check("007", few, &format!("{wanted} the number `007`"));
        check("18446744073709551615", any, "18446744073709551615");
        let wanted = "`f` takes a whole number, at least `1`, not the number";
        check("18446744073709551616", any, &format!("{wanted} `18446744073709551616`"));
    }

    #[test]
    fn choices_are_suggested() {
        let choice = |node: &Node, problems: &mut Problems| {
            node.choice("f", &["gcra", "fixed-window", "none"], problems)
        };
        check("gcra", choice, "\"gcra\"");
        let wanted = "`f` takes `gcra`, `fixed-window` or `none`, not";
        check("gcar", choice, &format!("{wanted} the text `gcar` | did you mean `gcra`?"));
        check("[]", choice, &format!("{wanted} a list"));
        check("''", choice, &format!("{wanted} empty text"));
    }

    #[test]
    fn lists_and_maps_are_not_mistaken() {
        let list = |node: &Node, problems: &mut Problems| node.list("f", problems).map(<[_]>::len);
        let map = |node: &Node, problems: &mut Problems| node.map("f", problems).map(<[_]>::len);
        let some = |node: &Node, _: &mut Problems| Some(node.one_or_more().len());
        check("[a, b]", list, "2");
        check("a", list, "`f` takes a list, not the text `a`");
        check("{a: 1}", map, "1");
        check("[a]", map, "`f` takes a map, not a list");
        check("[a, b]", some, "2");
        check("a", some, "1");
        check("{a: 1, b: 2}", some, "1");
    }
}
