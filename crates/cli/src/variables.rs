//! Environment variables that look like ours and are none: a name that is misspelled says nothing,
//! and the server would run without what it was meant to be told.

use std::ffi::{OsStr, OsString};

use tidegate_config::did_you_mean;

/// What all of ours begin with.
const PREFIX: &str = "TIDEGATE_";

/// Variables that nobody reads, by their names. Values are never shown: they may be secrets.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Unread {
    /// Each with the name that was probably meant.
    pub(crate) misspelled: Vec<(String, String)>,
    /// What is like none of ours.
    pub(crate) unknown: Vec<String>,
}

impl Unread {
    /// What of `variables` no argument of `command` or its subcommands reads.
    pub(crate) fn of(
        command: &clap::Command,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Unread {
        let known = known(command);
        let mut unread = Unread::default();
        for (name, value) in variables {
            let name = name.to_string_lossy().into_owned();
            if known.contains(&name) || is_of_kubernetes(&name, &value) {
                continue;
            }
            match meant(&name, &known) {
                Some(meant) => unread.misspelled.push((name, meant)),
                None if has_prefix(&name) => unread.unknown.push(name),
                None => {}
            }
        }
        unread.misspelled.sort();
        unread.unknown.sort();
        unread
    }

    /// What is wrong, if a name is misspelled.
    pub(crate) fn error(&self) -> Option<String> {
        let said = self.misspelled.iter().map(|(name, meant)| {
            format!("there is no variable `{name}`: did you mean `{meant}`? If not, unset it")
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("\n       "))
    }
}

/// The names that arguments read.
fn known(command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|arg| arg.get_env());
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(known)).collect()
}

/// The name that was meant, if it is near enough. Without the prefix: that is long, and would make
/// unlike names near. A slip in the prefix leaves none for the rest.
fn meant(name: &str, known: &[String]) -> Option<String> {
    let rests = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
    let rest = if has_prefix(name) {
        did_you_mean(name.get(PREFIX.len()..)?, rests)?
    } else {
        let (prefix, rest) = name.split_once('_')?;
        did_you_mean(prefix, [PREFIX.trim_end_matches('_')])?;
        rests.into_iter().find(|known| *known == rest)?
    };
    Some(format!("{PREFIX}{rest}"))
}

/// Whether it begins like ours, however it is written.
fn has_prefix(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Whether Kubernetes sets it beside a service, of whatever name: `TIDEGATE_SERVICE_HOST`,
/// `TIDEGATE_PORT_8080_TCP_ADDR` and so on beside one that is called `tidegate`.
fn is_of_kubernetes(name: &str, value: &OsStr) -> bool {
    if name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
    {
        return true;
    }
    if name.ends_with("_PORT") && value.to_string_lossy().contains("://") {
        return true;
    }
    name.match_indices("_PORT_").any(|(at, mark)| is_port_of_kubernetes(&name[at + mark.len()..]))
}

/// Whether it is such as `8080_TCP` or `8080_TCP_ADDR`.
fn is_port_of_kubernetes(rest: &str) -> bool {
    let mut words = rest.split('_');
    words.next().is_some_and(|port| port.parse::<u16>().is_ok())
        && matches!(words.next(), Some("TCP" | "UDP" | "SCTP"))
        && matches!(words.next(), None | Some("PROTO" | "PORT" | "ADDR"))
        && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// What is said of one variable.
    #[track_caller]
    fn check(name: &str, value: &str, wanted: &Unread) {
        let variables = [(name.into(), value.into())].into_iter();
        assert_eq!(&Unread::of(&crate::Cli::command(), variables), wanted, "{name}");
    }

    fn misspelled(name: &str, meant: &str) -> Unread {
        Unread { misspelled: vec![(name.to_owned(), meant.to_owned())], ..Unread::default() }
    }

    fn unknown(name: &str) -> Unread {
        Unread { unknown: vec![name.to_owned()], ..Unread::default() }
    }

    #[test]
    fn a_slip_is_told_from_a_stranger() {
        for (wrong, meant) in [
            ("TIDEGATE_POLCY", "TIDEGATE_POLICY"),
            ("TIDEGATE_policy", "TIDEGATE_POLICY"),
            ("tidegate_policy", "TIDEGATE_POLICY"),
            ("TIDEGATE_SNAPSHOT-EVERY", "TIDEGATE_SNAPSHOT_EVERY"),
            ("TIDEGATE_HTTPS", "TIDEGATE_HTTP"),
            ("TIDEGATE_TOKENS_FILE", "TIDEGATE_TOKEN_FILE"),
            ("TIDGATE_POLICY", "TIDEGATE_POLICY"),
            ("TIDEGATES_STORE", "TIDEGATE_STORE"),
        ] {
            check(wrong, "x", &misspelled(wrong, meant));
        }
        for stranger in ["TIDEGATE_", "TIDEGATE_COLOUR", "TIDEGATE_REDIS_URL", "TIDEGATE_PORT"] {
            check(stranger, "8080", &unknown(stranger));
        }
        for other in ["PATH", "HOME", "POLICY", "MY_TIDEGATE_POLICY", "LOG", "TIDE_LOG", "_", ""] {
            check(other, "x", &Unread::default());
        }
    }

    #[test]
    fn what_kubernetes_sets_is_nobodys_mistake() {
        for (name, value) in [
            ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
            ("TIDEGATE_SERVICE_PORT", "8080"),
            ("TIDEGATE_SERVICE_PORT_HTTP", "8080"),
            ("TIDEGATE_PORT", "tcp://10.0.0.1:8080"),
            ("TIDEGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("TIDEGATE_PORT_8080_TCP_PROTO", "tcp"),
            ("TIDEGATE_PORT_8080_TCP_PORT", "8080"),
            ("TIDEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("TIDEGATE_HTTP_PORT", "tcp://10.0.0.1:8080"),
            ("TIDEGATE_POLICY_PORT_443_UDP", "udp://10.0.0.1:443"),
        ] {
            check(name, value, &Unread::default());
        }
    }

    /// Otherwise a service of an unlucky name would be a setting.
    #[test]
    fn no_name_of_ours_is_one_that_kubernetes_sets() {
        let known = known(&crate::Cli::command());
        assert!(known.iter().any(|name| name == "TIDEGATE_POLICY"));
        for name in known {
            assert!(!is_of_kubernetes(&name, "tcp://10.0.0.1:1".as_ref()), "{name}");
            assert!(name.starts_with(PREFIX), "{name}");
        }
    }
}
