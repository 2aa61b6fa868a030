//! A request as it stands in `TIDEGATE.CHECK` and its like, and the reply to it.

use std::borrow::Cow;

use tidegate_gate::Admission;

use super::refused::{Refused, shown};
use super::reply::Reply;
use crate::answer::{self, Field, Value};
use crate::ask::Ask;
use crate::legible;

/// A request that was described, and the rule that is meant, if one was named.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Asked<'a> {
    pub(super) ask: Ask<'a>,
    pub(super) rule: Option<&'a str>,
}

/// Whether a rule may be named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    MayBeNamed,
    IsNotNamed,
}

impl<'a> Asked<'a> {
    /// Reads what follows the name of the command.
    pub(super) fn read(rule: Rule, arguments: &[&'a [u8]]) -> Result<Asked<'a>, Refused> {
        let mut asked = Asked::default();
        let mut rest = arguments.iter().copied();
        while let Some(option) = rest.next() {
            asked.option(rule, option, &mut rest)?;
        }
        Ok(asked)
    }

    fn option(
        &mut self,
        rule: Rule,
        option: &[u8],
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Refused> {
        let mut next = || rest.next().ok_or_else(|| incomplete(option));
        let ask = &mut self.ask;
        match &*option.to_ascii_uppercase() {
            b"ATTRIBUTE" => {
                let name = legible::text(next()?);
                ask.attributes.push((name, legible::text(next()?)));
            }
            b"COST" => ask.cost = Some(cost(next()?)?),
            b"HEADER" => {
                let (name, value) = (legible::text(next()?), next()?);
                // A host is text, also where it is a header.
                let is_text = name.eq_ignore_ascii_case("host");
                ask.add_header(name, if is_text { in_text(value) } else { value.into() });
            }
            b"HOST" => ask.host = Some(legible::text(next()?)),
            b"IP" => {
                let ip = next()?;
                let wrong = || Refused::value("IP", legible::ADDRESS, ip);
                ask.ip = Some(legible::address(&legible::text(ip)).ok_or_else(wrong)?);
            }
            b"METHOD" => ask.method = legible::text(next()?),
            b"PATH" => ask.set_target(legible::text(next()?)),
            b"RULE" if rule == Rule::MayBeNamed => self.rule = Some(named(next()?)?),
            _ => return Err(unknown(option)),
        }
        Ok(())
    }
}

fn incomplete(option: &[u8]) -> Refused {
    Refused::new(format!("ERR syntax error: nothing after {}", shown(option)))
}

fn unknown(option: &[u8]) -> Refused {
    let option = shown(option);
    Refused::new(format!("ERR syntax error: no option `{option}`; see TIDEGATE.HELP"))
}

fn in_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    match legible::text(bytes) {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// The name of a rule: it is the caller's own word, no client's.
fn named(bytes: &[u8]) -> Result<&str, Refused> {
    str::from_utf8(bytes).map_err(|_| Refused::value("RULE", "UTF-8", bytes))
}

fn cost(bytes: &[u8]) -> Result<u32, Refused> {
    let cost = str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'));
    let cost = cost.and_then(|text| text.parse().ok());
    let wanted = "a whole number from 0 to 4294967295";
    cost.ok_or_else(|| Refused::value("COST", wanted, bytes))
}

/// All that is known of a decision, as a map.
pub(super) fn write(admission: &Admission, reply: &mut Reply<'_>) {
    write_fields(&answer::fields(admission), reply);
}

fn write_fields(fields: &[Field<'_>], reply: &mut Reply<'_>) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.text(name);
        match value {
            Value::Null => reply.null(),
            Value::Bool(value) => reply.boolean(*value),
            Value::Number(number) => reply.number(*number),
            Value::Text(text) => reply.text(&**text),
            Value::Rules(admission) => {
                reply.array(admission.each().count());
                answer::rules(admission).for_each(|fields| write_fields(&fields, reply));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_gate::Request as _;

    use super::*;

    #[track_caller]
    fn check(arguments: &[&str], expected: Result<Asked<'_>, &str>) {
        let arguments: Vec<&[u8]> = arguments.iter().map(|it| it.as_bytes()).collect();
        let read = Asked::read(Rule::IsNotNamed, &arguments);
        assert_eq!(read.map_err(|refused| refused.0.into_owned()), expected.map_err(str::to_owned));
    }

    #[test]
    fn everything_about_a_request_can_be_said() {
        let mut ask = Ask { method: "POST".into(), path: "/search".into(), ..Ask::default() };
        ask.query = Some("q=x".into());
        ask.host = Some("api.example.com".into());
        ask.ip = Some("2001:db8::1".parse().unwrap());
        ask.cost = Some(0);
        ask.add_header("x-api-key", &b"k1"[..]);
        ask.add_header("x-api-key", &b"k2"[..]);
        ask.attributes.push(("user".into(), "ada".into()));
        let words = "cost 0 Method POST PATH /search?q=x HOST api.example.com IP 2001:db8::1 \
                     HEADER X-Api-Key k1 header x-api-key k2 ATTRIBUTE user ada";
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        check(&words, Ok(Asked { ask, rule: None }));
        check(&[], Ok(Asked::default()));
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_a_way_out() {
        check(&["COST"], Err("ERR syntax error: nothing after COST"));
        check(&["HEADER", "a"], Err("ERR syntax error: nothing after HEADER"));
        check(&["KEY", "a"], Err("ERR syntax error: no option `KEY`; see TIDEGATE.HELP"));
        check(&["RULE", "a"], Err("ERR syntax error: no option `RULE`; see TIDEGATE.HELP"));
        let cost = "ERR COST must be a whole number from 0 to 4294967295";
        for wrong in ["-1", "+1", "1.5", "", "4294967296"] {
            check(&["COST", wrong], Err(&format!("{cost}: `{wrong}`")));
        }
        let ip = "ERR IP must be an address such as 192.0.2.1 or 2001:db8::1: `localhost`";
        check(&["IP", "localhost"], Err(ip));
    }

    #[test]
    fn what_a_client_writes_is_never_an_error() {
        let read = |words: &[&'static [u8]]| Asked::read(Rule::MayBeNamed, words);
        let words: [&[u8]; 20] = [
            b"METHOD",
            b"G\xff",
            b"PATH",
            b"/log\xffin?q=\xfe",
            b"HOST",
            b"\xff.example",
            b"HEADER",
            b"x\xff",
            b"\xff",
            b"HEADER",
            b"Host",
            b"a\xff.example",
            b"ATTRIBUTE",
            b"user\xff",
            b"\xff",
            b"ATTRIBUTE",
            b"user",
            b"\xf0\x9f",
            b"IP",
            b"fe80::1%\xff",
        ];
        let ask = read(&words).unwrap().ask;
        assert_eq!((&*ask.method, &*ask.path), ("G\u{fffd}", "/log\u{fffd}in"));
        assert_eq!(ask.query.as_deref(), Some("q=\u{fffd}"));
        assert_eq!(ask.host.as_deref(), Some("\u{fffd}.example"));
        assert_eq!(ask.headers[0], ("x\u{fffd}".into(), b"\xff"[..].into()));
        let in_header = Ask { host: None, ..ask.clone() };
        assert_eq!(in_header.host(), "a\u{fffd}.example");
        let attributes = [("user\u{fffd}", "\u{fffd}"), ("user", "\u{fffd}")];
        assert_eq!(ask.attributes, attributes.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(ask.ip, Some("fe80::1".parse().unwrap()));
        let refused = read(&[b"RULE", b"\xff"]).unwrap_err();
        assert_eq!(refused.0, "ERR RULE must be UTF-8: `\\xff`");
    }
}
