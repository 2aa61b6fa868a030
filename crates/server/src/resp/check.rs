//! A request as it stands in `TIDEGATE.CHECK` and its like, and what is told of it.

use super::refused::{Refused, shown};
use super::reply::Reply;
use crate::answer::{Answer, Field, Value};
use crate::ask::Ask;

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
                let name = text("the name of an attribute", next()?)?;
                ask.attributes.push((name.into(), text(name, next()?)?.into()));
            }
            b"COST" => ask.cost = Some(cost(next()?)?),
            b"HEADER" => {
                let name = text("the name of a header", next()?)?;
                ask.add_header(name, next()?);
            }
            b"HOST" => ask.host = Some(text("HOST", next()?)?.into()),
            b"IP" => {
                let ip = next()?;
                let parsed = str::from_utf8(ip).ok().and_then(|ip| ip.parse().ok());
                let wrong =
                    || Refused::value("IP", "an address such as 192.0.2.1 or 2001:db8::1", ip);
                ask.ip = Some(parsed.ok_or_else(wrong)?);
            }
            b"METHOD" => ask.method = text("METHOD", next()?)?.into(),
            b"PATH" => ask.set_target(text("PATH", next()?)?),
            b"RULE" if rule == Rule::MayBeNamed => self.rule = Some(text("RULE", next()?)?),
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

fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Refused> {
    str::from_utf8(bytes).map_err(|_| Refused::value(name, "UTF-8", bytes))
}

fn cost(bytes: &[u8]) -> Result<u32, Refused> {
    let cost = str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'));
    let cost = cost.and_then(|text| text.parse().ok());
    let wanted = "a whole number from 0 to 4294967295";
    cost.ok_or_else(|| Refused::value("COST", wanted, bytes))
}

/// All that is known of a decision, as a map.
pub(super) fn write(answer: &Answer<'_>, reply: &mut Reply<'_>) {
    write_fields(&answer.fields(), reply);
}

fn write_fields(fields: &[Field<'_>], reply: &mut Reply<'_>) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.text(name);
        match value {
            Value::Null => reply.null(),
            Value::Bool(value) => reply.boolean(*value),
            Value::Number(number) => reply.number(*number),
            Value::Text(text) => reply.text(text),
            Value::Rules(rules) => {
                reply.array(rules.len());
                for rule in *rules {
                    write_fields(&rule.fields(), reply);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn bytes_that_are_no_text_are_fine_in_headers_only() {
        let header: [&[u8]; 3] = [b"HEADER", b"x", b"\xff"];
        assert!(Asked::read(Rule::IsNotNamed, &header).is_ok());
        let attribute: [&[u8]; 3] = [b"ATTRIBUTE", b"user", b"\xff"];
        let refused = Asked::read(Rule::IsNotNamed, &attribute).unwrap_err();
        assert_eq!(refused.0, "ERR user must be UTF-8: `\\xff`");
    }
}
