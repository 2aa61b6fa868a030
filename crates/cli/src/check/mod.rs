//! `tidegate check`: what is wrong with a policy, what it does with a request, whether its tests
//! hold.

mod envoy;
mod policy;
mod request;
mod says;
mod suite;
pub(crate) mod typed;
mod view;

use std::net::IpAddr;
use std::path::PathBuf;

use tidegate_core::Tick;

pub(crate) use self::envoy::contents as envoy_contents;
use self::says::Says;
pub(crate) use self::typed::{Named, attribute};
use crate::done::Done;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  tidegate check policy.yaml
      what is wrong with the file, with the line and what to write instead
  tidegate check policy.yaml --request 'GET /search?q=x' --header 'x-api-key: k' --from 192.0.2.1
      which rules are for this request, whom they count, and what it would be told
  tidegate check policy.yaml --tests policy.tests.yaml
      whether the policy does what its tests say, in virtual time
  tidegate check --envoy-config /etc/ratelimit/config
      what is wrong with files of envoyproxy/ratelimit

A file of tests is read from top to bottom:
  tests:
    - name: a client has 50 at once
      steps:
        - { send: GET /search, from: 192.0.2.1, times: 50, expect: allow }
        - { send: GET /search, from: 192.0.2.1, expect: deny, retry_after: 600ms }
        - { wait: 600ms }
        - { send: GET /search, from: 192.0.2.1, expect: allow, remaining: 0 }

It exits with 0 if all is well, with 1 if something is wrong, and with 2 if it was misused.";

/// Check a policy, ask what it does with a request, or run its tests.
///
/// A folder is one policy: all of its files that end in .yaml, .yml, .toml or .json, without those
/// that end in .tests.yaml and the like.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Policy files, or folders of them
    #[arg(value_name = "POLICY", required_unless_present_any = ["tests", "envoy_config"])]
    policies: Vec<PathBuf>,

    /// Show what the policy does with this request, such as 'GET /search?q=x'
    #[arg(long, value_name = "LINE", value_parser = typed::line, conflicts_with = "tests")]
    request: Option<String>,

    /// A header of the request, such as 'x-api-key: k'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = typed::header, requires = "request")]
    header: Vec<Named>,

    /// The address at the other end of the request's connection
    #[arg(long, value_name = "ADDRESS", requires = "request")]
    from: Option<IpAddr>,

    /// What only the application knows of the request, such as user=ada
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = typed::attribute,
        requires = "request"
    )]
    attribute: Vec<Named>,

    /// When the request comes, such as 2026-03-29T00:30:00+01:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = typed::time, requires = "request")]
    at: Option<Tick>,

    /// Run the tests of these files; without a POLICY, against the one that each of them names
    #[arg(long, value_name = "FILE", num_args = 1..)]
    tests: Vec<PathBuf>,

    /// Check a file of envoyproxy/ratelimit, or a folder of them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["tests", "request"])]
    envoy_config: Option<PathBuf>,

    /// Exit with 1 also if there are only warnings
    #[arg(long)]
    strict: bool,

    /// Print JSON, one line for each finding and each result
    #[arg(long)]
    json: bool,
}

/// Looks at what was asked for, and says what there is to say.
pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let mut says = Says::new(args.json, args.strict);
    if let Some(path) = &args.envoy_config {
        envoy::check(path, &mut says);
    }
    let one = match &args.policies[..] {
        [] if args.envoy_config.is_some() => return Ok(says.done()),
        [] => None,
        [one] => Some(&**one),
        _ if args.request.is_some() || !args.tests.is_empty() => {
            let text = "--request and --tests are for one policy: name one file or folder";
            return Err(Failure::Usage { command: "check", text: text.to_owned() });
        }
        several => {
            for path in several {
                policy::check(path, &mut says);
            }
            return Ok(says.done());
        }
    };
    match (one, &args.request) {
        (None, _) => suite::run(None, &args.tests, &mut says)?,
        (Some(path), None) if args.tests.is_empty() => policy::check(path, &mut says),
        (Some(path), None) => suite::run(Some(path), &args.tests, &mut says)?,
        (Some(path), Some(line)) => request::run(path, line, args, &mut says)?,
    }
    Ok(says.done())
}
