//! What can go wrong, and the exit code that says so.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why the command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for something that makes no sense.
    Usage {
        /// The subcommand whose help is of use.
        command: &'static str,
        /// What to ask instead.
        text: String,
    },
    /// The world did not let it.
    World(anyhow::Error),
}

impl Failure {
    /// The exit code for bad usage.
    pub(crate) const USAGE: u8 = 2;

    /// Tells the user, and turns into an exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (text, code) = match self {
            Failure::Usage { command, text } => {
                let help = format!("For more information, try 'tidegate {command} --help'.");
                (format!("error: {text}\n\n{help}\n"), Failure::USAGE)
            }
            Failure::World(error) => (format!("error: {error:#}\n"), 1),
        };
        // There is nobody left to tell if this cannot be printed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        ExitCode::from(code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::World(error)
    }
}
