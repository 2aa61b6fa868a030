//! What a client wants, read from the arguments that it sent.

use super::check::{Asked, Rule};
use super::refused::{Refused, shown};
use super::reply::Protocol;
use super::table::{self, Spec, Word};
use super::throttle::{Dialect, Throttle};
use crate::limits::RESP_NAME_BYTES_MAX;

/// What a client wants.
#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    Auth {
        token: &'a [u8],
    },
    /// Nothing, which gets no reply.
    Blank,
    Check(Box<Asked<'a>>),
    ClientName,
    ClientNamed(&'a [u8]),
    ClientId,
    ClientLine,
    Commands(Listing<'a>),
    Echo(&'a [u8]),
    Hello(Hello<'a>),
    Help,
    HelpOn(&'static str),
    Info,
    /// Something that makes no difference here.
    Noted,
    /// A map of nothing.
    Nothing,
    Peek(Box<Asked<'a>>),
    Ping(Option<&'a [u8]>),
    Quit,
    Reset,
    ResetKeys(Box<Asked<'a>>),
    Throttle(Throttle<'a>),
}

/// What a client wants to know of the commands.
#[derive(Debug, PartialEq)]
pub(super) enum Listing<'a> {
    All,
    Count,
    /// Of all, if none is named.
    Docs(Names<'a>),
    Infos(Names<'a>),
    Names,
}

pub(super) type Names<'a> = Vec<&'a [u8]>;

/// How a connection begins.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Hello<'a> {
    pub(super) protocol: Option<Protocol>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) name: Option<&'a [u8]>,
}

impl<'a> Command<'a> {
    /// Reads a command; there is at least its name.
    #[inline]
    pub(super) fn read(arguments: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
        let Some((name, rest)) = arguments.split_first() else { return Ok(Command::Blank) };
        // What nearly all of them are.
        if name.eq_ignore_ascii_case(b"cl.throttle") {
            return Throttle::read(Dialect::RedisCell, rest).map(Command::Throttle);
        }
        Command::read_other(arguments, name, rest)
    }

    fn read_other(
        arguments: &[&'a [u8]],
        name: &[u8],
        rest: &[&'a [u8]],
    ) -> Result<Command<'a>, Refused> {
        let spec = table::find(name).ok_or_else(|| Refused::unknown(arguments))?;
        if !spec.takes(arguments.len()) {
            return Err(Refused::arity(spec.name));
        }
        let asked = |rule| Asked::read(rule, rest).map(Box::new);
        Ok(match spec.word {
            Word::Auth => auth(rest)?,
            Word::Check => Command::Check(asked(Rule::IsNotNamed)?),
            Word::Client => client(spec, rest)?,
            Word::ClThrottle => Command::Throttle(Throttle::read(Dialect::RedisCell, rest)?),
            Word::Cluster => {
                return Err(Refused::new("ERR This instance has cluster support disabled"));
            }
            Word::Command => commands(spec, rest)?,
            Word::Config => config(spec, rest)?,
            Word::Echo => Command::Echo(rest[0]),
            Word::Hello => Command::Hello(Hello::read(rest)?),
            Word::Help => Command::Help,
            Word::Info => Command::Info,
            Word::Peek => Command::Peek(asked(Rule::IsNotNamed)?),
            Word::Ping => match rest {
                [] => Command::Ping(None),
                [text] => Command::Ping(Some(*text)),
                _ => return Err(Refused::arity(spec.name)),
            },
            Word::Quit => Command::Quit,
            Word::Reset => Command::Reset,
            Word::ResetKeys => Command::ResetKeys(asked(Rule::MayBeNamed)?),
            Word::Select => select(rest[0]).map(|()| Command::Noted)?,
            Word::Throttle => Command::Throttle(Throttle::read(Dialect::Throttlecrab, rest)?),
            Word::Transaction => return Err(transaction(spec)),
        })
    }
}

fn auth<'a>(rest: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
    match rest {
        [token] | [_, token] => Ok(Command::Auth { token }),
        _ => Err(Refused::new("ERR syntax error")),
    }
}

fn client<'a>(spec: &'static Spec, rest: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
    let (subcommand, rest) = (rest[0], &rest[1..]);
    let lower = subcommand.to_ascii_lowercase();
    match (&*lower, rest) {
        (b"getname", []) => Ok(Command::ClientName),
        (b"help", []) => Ok(Command::HelpOn(spec.name)),
        (b"id", []) => Ok(Command::ClientId),
        (b"info", []) | (b"list", _) => Ok(Command::ClientLine),
        (b"setname", [name]) => Ok(Command::ClientNamed(named(name)?)),
        (b"setinfo", [_, _]) | (b"no-evict" | b"no-touch", [_]) => Ok(Command::Noted),
        (b"reply", [on]) if on.eq_ignore_ascii_case(b"on") => Ok(Command::Noted),
        (b"reply", [_]) => Err(Refused::new("ERR every command gets a reply here")),
        (b"tracking", _) => {
            Err(Refused::new("ERR nothing is tracked here: there are no keys to read"))
        }
        (
            b"getname" | b"help" | b"id" | b"info" | b"setname" | b"setinfo" | b"no-evict"
            | b"no-touch" | b"reply",
            _,
        ) => Err(Refused::arity(&format!("client|{}", shown(&lower)))),
        _ => Err(Refused::subcommand("CLIENT", subcommand)),
    }
}

/// A name that can stand in a list.
fn named(name: &[u8]) -> Result<&[u8], Refused> {
    if RESP_NAME_BYTES_MAX < name.len() {
        let message = format!("ERR a client's name has at most {RESP_NAME_BYTES_MAX} bytes");
        return Err(Refused::new(message));
    }
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    let message = "ERR Client names cannot contain spaces, newlines or special characters.";
    Err(Refused::new(message))
}

fn commands<'a>(spec: &'static Spec, rest: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
    let Some((subcommand, rest)) = rest.split_first() else {
        return Ok(Command::Commands(Listing::All));
    };
    let names = || rest.to_vec();
    Ok(match &*subcommand.to_ascii_lowercase() {
        b"count" => Command::Commands(Listing::Count),
        b"docs" => Command::Commands(Listing::Docs(names())),
        b"help" => Command::HelpOn(spec.name),
        b"info" => Command::Commands(Listing::Infos(names())),
        b"list" => Command::Commands(Listing::Names),
        _ => return Err(Refused::subcommand("COMMAND", subcommand)),
    })
}

fn config<'a>(spec: &'static Spec, rest: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
    match (&*rest[0].to_ascii_lowercase(), rest.len()) {
        (b"get", 2..) => Ok(Command::Nothing),
        (b"get", _) => Err(Refused::arity("config|get")),
        (b"help", 1) => Ok(Command::HelpOn(spec.name)),
        (b"set", _) => Err(Refused::new("ERR nothing can be set here: change the policy file")),
        _ => Err(Refused::subcommand("CONFIG", rest[0])),
    }
}

fn select(database: &[u8]) -> Result<(), Refused> {
    match str::from_utf8(database).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(0) => Ok(()),
        Some(_) => Err(Refused::new("ERR DB index is out of range")),
        None => Err(Refused::new("ERR value is not an integer or out of range")),
    }
}

fn transaction(spec: &Spec) -> Refused {
    let name = spec.name.to_ascii_uppercase();
    Refused::new(format!(
        "ERR {name} is not supported: send a pipeline without a transaction; TIDEGATE.CHECK judges \
         by several rules at once, all or nothing"
    ))
}

impl<'a> Hello<'a> {
    fn read(arguments: &[&'a [u8]]) -> Result<Hello<'a>, Refused> {
        let mut hello = Hello::default();
        let Some((version, mut rest)) = arguments.split_first() else { return Ok(hello) };
        hello.protocol = Some(protocol(version)?);
        loop {
            rest = match rest {
                [] => return Ok(hello),
                [option, _, token, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    hello.token = Some(*token);
                    rest
                }
                [option, name, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    hello.name = Some(named(name)?);
                    rest
                }
                [option, ..] => {
                    let option = shown(option);
                    let message = format!("ERR Syntax error in HELLO option '{option}'");
                    return Err(Refused::new(message));
                }
            }
        }
    }
}

fn protocol(version: &[u8]) -> Result<Protocol, Refused> {
    match str::from_utf8(version).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(2) => Ok(Protocol::Two),
        Some(3) => Ok(Protocol::Three),
        Some(_) => Err(Refused::new("NOPROTO unsupported protocol version")),
        None => Err(Refused::new("ERR Protocol version is not an integer or out of range")),
    }
}

#[cfg(test)]
mod tests;
