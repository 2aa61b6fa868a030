//! What an answer means for the call: done, to be sent elsewhere, refused, or lost.
//!
//! This is where "at most once" is decided: only what a server certainly did not run may be sent
//! again, and everything that is not an answer of the server counts as lost.

use redis::{ServerError, Value};

use super::pipe::Loss;
use super::refusal::{Lost, Refusal};
use super::reply::Reply;
use crate::settings::Address;

/// What an answer means for the call.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Done(Reply),
    /// The server does not know the script: send its text.
    NoScript,
    /// Another server owns the slot from now on. An empty host is the one that answered.
    Moved(Address),
    /// Another server has the key already, for this one call.
    Ask(Address),
    /// Not now: the same again after a pause.
    Later(Refusal),
    /// Not here: this server is no primary, or not yet.
    Elsewhere(Refusal),
    /// Not at all.
    Refused(Refusal),
    /// Nobody knows whether it ran.
    Lost(Lost),
}

impl Answer {
    pub(super) fn of(reply: Result<Reply, Loss>) -> Answer {
        match reply {
            Ok(reply) if reply.is_error() => match reply.value() {
                Ok(Value::ServerError(error)) => Answer::of_error(&error),
                // It ran and said no, or the other way round: whatever it is, it is no answer.
                Ok(_) => Answer::Lost(Lost::Disconnected("not an error".into())),
                Err(error) => Answer::Lost(Lost::Disconnected(error.to_string().into())),
            },
            Ok(reply) => Answer::Done(reply),
            Err(Loss::Late) => Answer::Lost(Lost::TimedOut),
            // As if there were no connection: it takes nothing more.
            Err(loss @ Loss::Full) => {
                Answer::Refused(Refusal::NotConnected(loss.to_string().into()))
            }
            Err(Loss::Ended(why) | Loss::Nonsense(why) | Loss::Untrusted(why)) => {
                Answer::Lost(Lost::Disconnected(why))
            }
        }
    }

    fn of_error(error: &ServerError) -> Answer {
        let details = error.details().unwrap_or_default();
        match error.code() {
            "NOSCRIPT" => Answer::NoScript,
            "MOVED" => redirect(details).map_or_else(|| other(error), Answer::Moved),
            "ASK" => redirect(details).map_or_else(|| other(error), Answer::Ask),
            "TRYAGAIN" => Answer::Later(Refusal::SlotMoves),
            "BUSY" => Answer::Later(Refusal::Busy),
            "CLUSTERDOWN" => Answer::Elsewhere(Refusal::ClusterDown),
            "LOADING" => Answer::Elsewhere(Refusal::Loading),
            "READONLY" | "MASTERDOWN" => Answer::Elsewhere(Refusal::ReadOnly),
            "OOM" => Answer::Refused(Refusal::OutOfMemory),
            "NOPERM" => Answer::Refused(Refusal::NoPermission(text(error).into())),
            "ERR" => of_script(error, details),
            _ => other(error),
        }
    }
}

/// Before version 7, what a command in a script answered stands inside the script's own error.
fn of_script(error: &ServerError, details: &str) -> Answer {
    let inner = |code: &str| details.contains(code);
    if inner(": -READONLY ") || inner(": -MASTERDOWN ") {
        Answer::Elsewhere(Refusal::ReadOnly)
    } else if inner(": -OOM ") {
        Answer::Refused(Refusal::OutOfMemory)
    } else if inner("can't run this command or subcommand") || inner(": -NOPERM ") {
        Answer::Refused(Refusal::NoPermission(text(error).into()))
    } else if inner(": -NOREPLICAS ") || inner(": -MISCONF ") {
        // It takes no write, not even the first.
        other(error)
    } else if inner("user_script") || inner("running script") || inner("compiling script") {
        Answer::Refused(Refusal::Script(text(error).into()))
    } else {
        other(error)
    }
}

/// `3999 10.0.0.1:6381`; the host may hold colons, and may be missing.
fn redirect(details: &str) -> Option<Address> {
    let (_slot, address) = details.trim().split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

fn other(error: &ServerError) -> Answer {
    Answer::Refused(Refusal::Other(text(error).into()))
}

fn text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says.
    fn parse(line: &str) -> Answer {
        Answer::of(Ok(Reply::new(format!("-{line}\r\n").as_bytes())))
    }

    #[track_caller]
    fn check(line: &str, expected: &Answer) {
        assert_eq!(&parse(line), expected, "{line}");
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn what_was_certainly_not_run_may_be_sent_again() {
        check("NOSCRIPT No matching script. Please use EVAL.", &Answer::NoScript);
        check("MOVED 3999 127.0.0.1:6381", &Answer::Moved(at("127.0.0.1", 6381)));
        check("MOVED 3999 :6381", &Answer::Moved(at("", 6381)));
        check("ASK 3999 ::1:6381", &Answer::Ask(at("::1", 6381)));
        check("TRYAGAIN Multiple keys request", &Answer::Later(Refusal::SlotMoves));
        check("CLUSTERDOWN Hash slot not served", &Answer::Elsewhere(Refusal::ClusterDown));
        check("BUSY Redis is busy running a script.", &Answer::Later(Refusal::Busy));
        check("LOADING Redis is loading", &Answer::Elsewhere(Refusal::Loading));
        check("READONLY You can't write", &Answer::Elsewhere(Refusal::ReadOnly));
        check("MASTERDOWN Link with MASTER is down", &Answer::Elsewhere(Refusal::ReadOnly));
    }

    #[test]
    fn version_6_hides_the_reason_inside_the_script_s_error() {
        let wrapped = |inner: &str| {
            format!(
                "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: {inner}"
            )
        };
        let readonly = wrapped("-READONLY You can't write against a read only replica.");
        check(&readonly, &Answer::Elsewhere(Refusal::ReadOnly));
        let oom = wrapped("-OOM command not allowed when used memory > 'maxmemory'.");
        check(&oom, &Answer::Refused(Refusal::OutOfMemory));
        assert!(matches!(
            parse(&wrapped("attempt to call a nil value")),
            Answer::Refused(Refusal::Script(_))
        ));
    }

    #[test]
    fn refusals_keep_what_the_server_said() {
        check("OOM command not allowed", &Answer::Refused(Refusal::OutOfMemory));
        let noperm = Refusal::NoPermission("NOPERM this user has no permissions".into());
        check("NOPERM this user has no permissions", &Answer::Refused(noperm));
        let misconf = Refusal::Other("MISCONF Errors writing to disk".into());
        check("MISCONF Errors writing to disk", &Answer::Refused(misconf));
        let moved = Refusal::Other("MOVED nonsense".into());
        check("MOVED nonsense", &Answer::Refused(moved));
    }

    #[test]
    fn what_is_no_answer_is_a_loss() {
        let ended = Answer::of(Err(Loss::Ended("broken".into())));
        assert_eq!(ended, Answer::Lost(Lost::Disconnected("broken".into())));
        assert_eq!(Answer::of(Err(Loss::Late)), Answer::Lost(Lost::TimedOut));
    }
}
