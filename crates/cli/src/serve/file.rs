//! Settings from a file: what it says is what a flag is worth when nobody gave it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::{Args as _, Command, FromArgMatches as _};

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
    let matches =
        matches.map_err(|error| anyhow::anyhow!("{}", error.render())).with_context(told)?;
    Ok(Args::from_arg_matches(&matches)?)
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
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Array(values) if values.iter().all(toml::Value::is_str) => {
                values.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => bail!("`{key}` wants a text or a number"),
        };
        if !command.get_arguments().any(|arg| arg.get_long() == Some(&key)) || key == "config" {
            bail!("there is no setting `{key}`: see `tidegate serve --help`");
        }
        let id = key.replace('-', "_");
        command = command.mut_arg(id, |arg| arg.required(false).default_value(value));
    }
    Ok(command)
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
    fn a_wrong_setting_is_named() {
        let said = |file: &str| format!("{:#}", parsed(file, &[]).unwrap_err());
        assert!(said("htpp = 'off'").contains("there is no setting `htpp`"));
        assert!(said("http = 'nowhere'").contains("give an address and a port"));
        assert!(said("http = true").contains("wants a text or a number"));
        assert!(said("http = ").contains("TOML"), "{}", said("http = "));
    }
}
