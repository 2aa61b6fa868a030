//! What clients ask about the server itself, mostly before their first real command.

use std::fmt::Write as _;

use tidegate_gate::Gate;

use super::command::Listing;
use super::refused::shown;
use super::reply::Reply;
use super::session::Session;
use super::table::{self, COMMANDS, Spec};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The Redis whose manners these are: clients decide by it what they may send.
const REDIS_VERSION: &str = "7.4.0";

pub(super) fn hello(session: &Session, reply: &mut Reply<'_>) {
    reply.map(7);
    for (name, value) in [("server", "tidegate"), ("version", VERSION)] {
        reply.text(name);
        reply.text(value);
    }
    reply.text("proto");
    reply.number(session.protocol.number());
    reply.text("id");
    reply.number(session.id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.text(name);
        reply.text(value);
    }
    reply.text("modules");
    reply.array(0);
}

pub(super) fn client_line(session: &Session) -> String {
    let Session { id, visitor, protocol, .. } = session;
    let (name, resp, peer) = (shown(&session.name), protocol.number(), visitor.peer);
    format!("id={id} addr={peer} name={name} db=0 resp={resp}\n")
}

pub(super) fn info(gate: &Gate) -> String {
    let (rules, keys) = (gate.rules().rules().len(), gate.keys());
    format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\ntidegate_version:{VERSION}\r\n\
         redis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
         # Replication\r\nrole:master\r\n\r\n# Tidegate\r\nrules:{rules}\r\nkeys:{keys}\r\n"
    )
}

pub(super) fn help(reply: &mut Reply<'_>) {
    reply.array(COMMANDS.len());
    for spec in COMMANDS {
        reply.text(line(spec));
    }
}

pub(super) fn help_on(name: &str, reply: &mut Reply<'_>) {
    let found = table::find(name.as_bytes());
    reply.array(found.iter().len());
    if let Some(spec) = found {
        reply.text(line(spec));
    }
}

fn line(spec: &Spec) -> String {
    let mut line = spec.name.to_ascii_uppercase();
    if !spec.usage.is_empty() {
        let _ = write!(line, " {}", spec.usage);
    }
    let _ = write!(line, ": {}", spec.summary);
    line
}

pub(super) fn commands(listing: &Listing<'_>, reply: &mut Reply<'_>) {
    match listing {
        Listing::All => {
            reply.array(COMMANDS.len());
            for spec in COMMANDS {
                describe(spec, reply);
            }
        }
        Listing::Count => reply.number(COMMANDS.len()),
        Listing::Docs(names) => {
            let is_asked = |spec: &&Spec| {
                let mut names = names.iter();
                names.len() == 0 || names.any(|it| it.eq_ignore_ascii_case(spec.name.as_bytes()))
            };
            reply.map(COMMANDS.iter().filter(is_asked).count());
            for spec in COMMANDS.iter().filter(is_asked) {
                document(spec, reply);
            }
        }
        Listing::Infos(names) if names.is_empty() => commands(&Listing::All, reply),
        Listing::Infos(names) => {
            reply.array(names.len());
            for name in names {
                match table::find(name) {
                    Some(spec) => describe(spec, reply),
                    None => reply.null(),
                }
            }
        }
        Listing::Names => {
            reply.array(COMMANDS.len());
            for spec in COMMANDS {
                reply.text(spec.name);
            }
        }
    }
}

/// Name, arity, flags, where keys are, and four lists of which there is nothing to say.
fn describe(spec: &Spec, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.text(spec.name);
    reply.number(spec.arity);
    reply.array(1);
    reply.simple("fast");
    let key = i8::from(spec.has_key());
    for _ in 0..3 {
        reply.number(key);
    }
    for _ in 0..4 {
        reply.array(0);
    }
}

fn document(spec: &Spec, reply: &mut Reply<'_>) {
    reply.text(spec.name);
    reply.map(3);
    for (name, value) in [("summary", spec.summary), ("since", VERSION), ("group", "tidegate")] {
        reply.text(name);
        reply.text(value);
    }
}
