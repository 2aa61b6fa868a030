//! What a command has to say, and whether what it looked at is good.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::failure::Failure;

/// What a command has to say.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// For the standard output.
    pub(crate) out: String,
    /// For the standard error.
    pub(crate) err: String,
    /// Whether what it looked at is wrong.
    pub(crate) is_bad: bool,
}

impl Done {
    /// Nothing is wrong.
    pub(crate) fn good(out: String) -> Done {
        Done { out, ..Done::default() }
    }

    /// Prints it, and turns into an exit code. A reader that has seen enough is no failure.
    pub(crate) fn show(self) -> Result<ExitCode, Failure> {
        // There is nobody left to tell if this cannot be printed.
        let _ = io::stderr().lock().write_all(self.err.as_bytes());
        let mut out = io::stdout().lock();
        match out.write_all(self.out.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(anyhow::Error::new(error).context("cannot write to the standard output").into())
            }
            _ => Ok(ExitCode::from(u8::from(self.is_bad))),
        }
    }
}
