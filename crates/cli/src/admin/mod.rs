//! `tidegate admin`: what administrators ask of a server that runs, over its socket in the file
//! system.
//!
//! The socket's mode says who may ask, so no token has to lie about.

mod socket;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use self::socket::Socket;
use crate::check::typed::{self, Named};
use crate::done::Done;
use crate::failure::Failure;
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  tidegate serve --policy policy.yaml --admin /run/tidegate.sock
      a server with such a socket
  tidegate admin reload
      puts the policy's file in force as it is now, or says what is wrong with it
  tidegate admin reset --from 192.0.2.1 --rule per-client
      makes what this address is counted under fresh
  tidegate admin reset --request 'POST /login' --header 'x-api-key: k'
      makes all that is for such a request fresh
  tidegate admin clock --advance 1min
      moves the clock of a server with --clock manual

The server's user and root can open the socket, and nobody else. It prints what the server answers,
as JSON, and exits with 0; with 1 if the server refuses or is not there, with 2 if it was misused.";

/// Administer a server on this machine: reload its policy, reset keys, move its clock.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The socket that the server opened by its own --admin
    #[arg(long, value_name = "PATH", env = "TIDEGATE_ADMIN", global = true)]
    #[arg(default_value = "/run/tidegate.sock")]
    socket: PathBuf,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Verb {
    /// Put the policy's file in force as it is now
    Reload,
    /// Make fresh what a request is counted under
    Reset(Whose),
    /// Say what time it is to the server, or move a manual clock
    Clock {
        /// Move a manual clock on by so much, such as 1min
        #[arg(long, value_name = "TIME", value_parser = serve::time)]
        advance: Option<Duration>,
    },
    /// Say what limits that follow the load give out, and why
    Load,
}

/// A request, by which keys are known.
#[derive(Clone, Debug, clap::Args)]
struct Whose {
    /// Only under this rule [default: all that are for the request]
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,

    /// The request, such as 'GET /search?q=x'
    #[arg(long, value_name = "LINE", value_parser = typed::line, default_value = "GET /")]
    request: String,

    /// A header of the request, such as 'x-api-key: k'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = typed::header)]
    header: Vec<Named>,

    /// The address that the request comes from
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,

    /// What only the application knows of the request, such as user=ada
    #[arg(long, value_name = "NAME=VALUE", value_parser = typed::attribute)]
    attribute: Vec<Named>,
}

/// Asks the server, and says what it answers.
pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let socket = Socket::at(&args.socket);
    let said = match &args.verb {
        Verb::Reload => socket.ask("POST", "/v1/reload", None),
        Verb::Reset(whose) => socket.ask("POST", "/v1/reset", Some(&whose.body())),
        Verb::Clock { advance: None } => socket.ask("GET", "/v1/clock", None),
        Verb::Clock { advance: Some(span) } => {
            let body = json!({ "advance_us": u64::try_from(span.as_micros()).unwrap_or(u64::MAX) });
            socket.ask("POST", "/v1/clock", Some(&body))
        }
        Verb::Load => socket.ask("GET", "/v1/load", None),
    };
    Ok(Done::good(said? + "\n"))
}

impl Whose {
    fn body(&self) -> Value {
        let (method, path) = self.request.split_once(' ').unwrap_or(("GET", &self.request));
        let mut body = json!({
            "method": method,
            "path": path,
            "headers": by_name(&self.header),
            "attributes": by_name(&self.attribute),
        });
        if let Some(address) = self.from {
            body["ip"] = json!(address);
        }
        if let Some(rule) = &self.rule {
            body["rule"] = json!(rule);
        }
        body
    }
}

/// All values of each name, in order.
fn by_name(named: &[Named]) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Named { name, value } in named {
        all.entry(name).or_default().push(value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_as_it_was_typed() {
        let named = |name: &str, value: &str| Named { name: name.into(), value: value.into() };
        let whose = Whose {
            rule: Some("logins".into()),
            request: "POST /login?a=b c".into(),
            header: vec![named("x-a", "1"), named("x-b", "2"), named("x-a", "3")],
            from: "192.0.2.1".parse().ok(),
            attribute: vec![named("user", "ada")],
        };
        let expected = json!({
            "method": "POST",
            "path": "/login?a=b c",
            "headers": { "x-a": ["1", "3"], "x-b": ["2"] },
            "attributes": { "user": ["ada"] },
            "ip": "192.0.2.1",
            "rule": "logins",
        });
        assert_eq!(whose.body(), expected);
    }
}
