//! Settings from a file: what it says is what a flag is worth when nobody gave it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::{ArgAction, Args as _, Command, FromArgMatches as _};
use tidegate_config::did_you_mean;

use super::args::Args;

/// A settings file is a page, not a book.
const BYTES_MAX: u64 = 1 << 20;

/// The settings, with what is in the file that `--config` names, if it names one.
pub(super) fn with_file(args: Args) -> Result<Args> {
    let Some(path) = &args.config else { return Ok(args) };
    let told = || format!("the settings file `{}`", path.display());
    let text = read(path).with_context(told)?;
    let command = with_defaults(&text).with_context(told)?;
    // Once more, over what the file says: flags and variables count more.
    let typed = std::env::args_os().skip_while(|arg| arg != "serve");
    let typed: Vec<_> = typed.collect();
    let typed = if typed.is_empty() { vec!["serve".into()] } else { typed };
    let matches = command.try_get_matches_from(typed);
    let matches = matches.map_err(|error| anyhow::anyhow!(why(&error))).with_context(told)?;
    Ok(Args::from_arg_matches(&matches)?)
}

/// What is wrong, without the word that is printed before it, and without what is said to those who
/// typed it.
fn why(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or_default().trim().to_owned()
}

/// A text of bounded length.
pub(super) fn read(path: &Path) -> Result<String> {
    let length = fs::metadata(path)?.len();
    if BYTES_MAX < length {
        bail!("it has {length} bytes: that is more than a page");
    }
    Ok(fs::read_to_string(path)?)
}

/// The command whose defaults are what the file says.
fn with_defaults(text: &str) -> Result<Command> {
    let mut command = Args::augment_args(Command::new("serve").no_binary_name(false));
    let table: toml::Table = text.parse()?;
    for (key, value) in table {
        let line = line_of(&key, text);
        let known = command.get_arguments().find(|arg| arg.get_long() == Some(&key));
        let Some(known) = known.filter(|_| key != "config") else {
            let names = command.get_arguments().filter_map(clap::Arg::get_long);
            match did_you_mean(&key, names.filter(|name| *name != "config")) {
                Some(near) => bail!("line {line}: no setting `{key}`: did you mean `{near}`?"),
                None => bail!("line {line}: no setting `{key}`: see `tidegate serve --help`"),
            }
        };
        let is_flag = matches!(known.get_action(), ArgAction::SetTrue);
        let value = match value {
            toml::Value::Boolean(is_set) if is_flag => is_set.to_string(),
            _ if is_flag => bail!("line {line}: `{key}` is `true` or `false`"),
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Array(values) if values.iter().all(toml::Value::is_str) => {
                values.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => bail!("line {line}: `{key}` wants a text or a number"),
        };
        let id = key.replace('-', "_");
        command = command.mut_arg(id, |arg| arg.required(false).default_value(value));
    }
    Ok(command)
}

/// The line that a key of the table stands in, from 1.
fn line_of(key: &str, text: &str) -> usize {
    let is_it = |line: &str| {
        let rest = line.trim_start().trim_start_matches(['"', '\'']).strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ', '\t']).starts_with('='))
    };
    text.lines().position(is_it).map_or(1, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(file: &str, typed: &[&str]) -> Result<Args> {
        let typed = ["serve"].iter().chain(typed);
        Ok(Args::from_arg_matches(&with_defaults(file)?.try_get_matches_from(typed)?)?)
    }

    #[test]
    fn a_flag_counts_more_than_the_file() {
        let file =
            "http = '127.0.0.1:1'\nsnapshot-every = '3s'\nthreads = 2\ntrace-sample = 0.000001\n";
        let args = parsed(file, &["--http", "127.0.0.1:2"]).unwrap();
        assert_eq!(args.http.0, "127.0.0.1:2".parse().ok());
        assert_eq!(args.snapshot_every.as_secs(), 3);
        assert_eq!(args.threads, Some(2));
        let share = |text: &str| text.parse().ok();
        assert_eq!(Some(args.trace_sample), share("0.000001"));
        assert_eq!(args.resp.0, "127.0.0.1:6380".parse().ok(), "as it is without a file");
    }

    #[test]
    fn a_flag_can_be_set_in_the_file() {
        assert!(parsed("pressure = true", &[]).unwrap().pressure);
        assert!(!parsed("pressure = false", &[]).unwrap().pressure);
    }

    #[test]
    fn what_is_wrong_is_said_once() {
        let command = with_defaults("http = 'nowhere'").unwrap();
        let said = why(&command.try_get_matches_from(["serve"]).unwrap_err());
        assert!(said.starts_with("invalid value 'nowhere' for '--http <ADDRESS>': give"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let said = |file: &str| format!("{:#}", parsed(file, &[]).unwrap_err());
        assert_eq!(said("\nhtpp = 'off'"), "line 2: no setting `htpp`: did you mean `http`?");
        assert_eq!(
            said("snapshot_every = '1s'"),
            "line 1: no setting `snapshot_every`: did you mean `snapshot-every`?"
        );
        assert!(said("colour = 'red'").ends_with("`colour`: see `tidegate serve --help`"));
        assert!(said("config = 'other.toml'").contains("no setting `config`"));
        assert!(said("http = 'nowhere'").contains("give an address and a port"));
        assert!(said("threads = 2\n \"http\" = true").starts_with("line 2: `http` wants a text"));
        assert_eq!(said("pressure = 'yes'"), "line 1: `pressure` is `true` or `false`");
        assert!(said("http = ").contains("TOML"), "{}", said("http = "));
    }
}
