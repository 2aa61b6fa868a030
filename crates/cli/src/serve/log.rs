//! Log lines, for people or as JSON, on the standard error.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

use super::args::{LogForm, LogLevel};

/// Writes log lines from now on.
pub(super) fn start(form: LogForm, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = fmt().with_max_level(level).with_writer(std::io::stderr);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    // Somebody who has set this up already, in a test, keeps it.
    let _ = match form {
        LogForm::Human => lines.with_target(false).try_init(),
        LogForm::Json => lines.json().flatten_event(true).try_init(),
    };
}
