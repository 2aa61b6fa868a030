//! Log lines, for people or as JSON, on the standard error.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::args::{LogForm, LogLevel};

/// Writes log lines from now on.
pub(super) fn start(form: LogForm, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    let subscriber = tracing_subscriber::registry().with(shown(level));
    // Somebody who has set this up already, in a test, keeps it.
    let _ = match form {
        LogForm::Human => subscriber.with(lines.with_target(false)).try_init(),
        LogForm::Json => subscriber.with(lines.json().flatten_event(true)).try_init(),
    };
}

/// What is written. HTTP/2 warns of what a peer does wrong, each time that it does: only who debugs
/// wants to read that.
fn shown(level: LevelFilter) -> Targets {
    let targets = Targets::new().with_default(level);
    if level == LevelFilter::DEBUG { targets } else { targets.with_target("h2", LevelFilter::OFF) }
}
