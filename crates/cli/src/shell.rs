//! `tidegate completions` and `tidegate man`: what a shell and a reader of manuals want to have,
//! made of the command itself.

use anyhow::Context as _;
use clap::{CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;

use crate::failure::Failure;

/// Print completions for a shell.
///
/// For bash: `tidegate completions bash > /etc/bash_completion.d/tidegate`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = shell)]
    shell: Shell,
}

/// Print the manual page, or that of a command.
///
/// To read one: `tidegate man serve | man -l -`. To install: `tidegate man >
/// /usr/local/share/man/man1/tidegate.1`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The command, such as `serve`
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn completions(args: CompletionsArgs) -> String {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "tidegate", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn man(args: &ManArgs) -> Result<String, Failure> {
    let command = crate::Cli::command();
    let command = match &args.command {
        None => command,
        Some(name) => {
            let Some(found) = command.find_subcommand(name) else {
                let text = format!("there is no command `{name}`");
                return Err(Failure::Usage { command: "man", text });
            };
            found.clone().name(format!("tidegate-{name}")).bin_name(format!("tidegate {name}"))
        }
    };
    let mut out = Vec::new();
    clap_mangen::Man::new(command).render(&mut out).context("the page cannot be written")?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn shell(name: &str) -> Result<Shell, String> {
    Shell::from_str(name, true).map_err(|_| {
        let names = Shell::value_variants().iter().map(ToString::to_string);
        format!("write one of {}", names.collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let text = completions(CompletionsArgs { shell: *shell });
            for word in ["serve", "check", "simulate", "envoy-config"] {
                assert!(text.contains(word), "{shell} does not know {word}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let names = crate::Cli::command();
        let names = names.get_subcommands().map(|it| Some(it.get_name().to_owned()));
        for command in names.chain([None]) {
            let page = man(&ManArgs { command: command.clone() }).unwrap();
            assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{command:?}: {page}");
        }
        assert!(man(&ManArgs { command: Some("serv".to_owned()) }).is_err());
    }
}
