//! `tidegate keys`: gives out API keys and takes them back, in the file that a policy names.

mod change;
mod file;
mod fresh;
mod import;
mod list;

use std::path::PathBuf;

use clap::Subcommand;
use tidegate_config::KeyFile;
use tidegate_core::{Span, Tick};
use tidegate_store::{Clock as _, SystemClock};

use crate::done::Done;
use crate::failure::Failure;
use crate::quantity;

const EXAMPLES: &str = "\
Examples:
  tidegate keys add acme --tier pro
      prints a new key for acme, once; keys.yaml has only its hash
  tidegate keys add acme
      a second key for acme, with the same tier and the same limits: hand it out,
  tidegate keys revoke 3f2a9c1b77d0
      and revoke the first one by its id when nobody uses it any more
  tidegate keys import < keys.csv
      hashes keys that you gave out before, from lines such as acme,THE-KEY,pro
  tidegate keys list
      who has keys, and until when; the keys themselves are nowhere

A policy knows the keys by
  api_keys: { header: x-api-key, file: keys.yaml }
  identify: { client: [api-key, ip] }
  tiers: { from: api-key:tier, default: free }
and a server that runs reads the file again within a second.";

/// Give out API keys, and take them back.
///
/// The file has names, tiers and the hashes of keys, for `api_keys` in a policy. It is replaced as
/// a whole, so that a server never reads the half of it; a new one can be read by you alone.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,

    /// The file of keys
    #[arg(long, value_name = "FILE", default_value = "keys.yaml", global = true)]
    file: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Print a new key for NAME, once, and write down its hash
    Add(Add),
    /// Hash keys from the standard input: lines of NAME,KEY or NAME,KEY,TIER
    Import(Import),
    /// Take back one key by its id, or all keys of a name
    Revoke {
        /// A name, or the id of a key as `tidegate keys list` shows it
        #[arg(value_name = "NAME|KEY-ID")]
        which: String,
    },
    /// List names, tiers, and the ids of keys
    List,
}

#[derive(Clone, Debug, clap::Args)]
struct Add {
    /// Who gets the key: all keys of a name share its limits
    #[arg(value_name = "NAME", value_parser = text)]
    name: String,

    /// The tier; a name that has keys keeps the one that it has
    #[arg(long, value_name = "TIER", value_parser = text)]
    tier: Option<String>,

    /// What else is known of the name, such as tenant=a1, for `api-key:tenant` in a policy
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::check::attribute)]
    attribute: Vec<crate::check::Named>,

    /// A note, for people
    #[arg(long, value_name = "TEXT", value_parser = text)]
    about: Option<String>,

    /// When the key ends: after a time such as 90d, on a date such as 2030-01-31, or at
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = expires)]
    expires: Option<Expires>,
}

#[derive(Clone, Debug, clap::Args)]
struct Import {
    /// The tier of lines that say none
    #[arg(long, value_name = "TIER", value_parser = text)]
    tier: Option<String>,
}

/// When a key ends.
#[derive(Clone, Copy, Debug)]
enum Expires {
    After(Span),
    At(Tick),
}

/// Does what was asked for, and says what there is to say.
pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let now = SystemClock::new().now();
    Ok(match &args.verb {
        Verb::Add(add) => change::add(&args.file, add, now)?,
        Verb::Import(lines) => import::run(&args.file, lines.tier.as_deref(), std::io::stdin())?,
        Verb::Revoke { which } => change::revoke(&args.file, which)?,
        Verb::List => Done::good(list::text(&file::read(&args.file)?, now)),
    })
}

/// A text that can stand in the file.
fn text(typed: &str) -> Result<String, String> {
    if KeyFile::is_text(typed) {
        return Ok(typed.to_owned());
    }
    let most = KeyFile::TEXT_BYTES_MAX;
    Err(format!("write 1 to {most} bytes, without line breaks, or blanks around them"))
}

fn expires(typed: &str) -> Result<Expires, String> {
    if let Some(at) = KeyFile::moment(typed) {
        return Ok(Expires::At(at));
    }
    quantity::span(typed).map(Expires::After).map_err(|_| {
        "write a time such as 90d, a date such as 2030-01-31, or 2030-01-31T12:00:00Z".to_owned()
    })
}
