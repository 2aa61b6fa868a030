//! What is said, to people or to programs.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_config::{Finding, Level, Lint, LoadError, Report};

use crate::done::Done;

/// What was said so far.
#[derive(Debug)]
pub(super) struct Says {
    json: bool,
    strict: bool,
    done: Done,
}

impl Says {
    pub(super) fn new(json: bool, strict: bool) -> Says {
        Says { json, strict, done: Done::default() }
    }

    pub(super) fn done(self) -> Done {
        self.done
    }

    /// Whether it is for programs.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Something is wrong: the exit code will say so.
    pub(super) fn bad(&mut self) {
        self.done.is_bad = true;
    }

    /// Adds a text for people.
    pub(super) fn text(&mut self, text: &str) {
        if !self.json {
            self.done.out.push_str(text);
        }
    }

    /// Adds a line for programs.
    pub(super) fn value(&mut self, value: &Value) {
        if self.json {
            let _ = writeln!(self.done.out, "{value}");
        }
    }

    /// Adds all that a report lists.
    pub(super) fn report(&mut self, report: &Report) {
        report.problems().for_each(|finding| self.finding(finding));
        if 0 < report.errors() || (self.strict && 0 < report.warnings()) {
            self.bad();
        }
    }

    pub(super) fn finding(&mut self, finding: &Finding) {
        let level = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        self.value(&json!({
            "type": "finding",
            "level": level,
            "lint": finding.lint.map(Lint::name),
            "file": finding.file,
            "line": finding.line,
            "column": finding.column,
            "message": finding.message,
            "help": finding.help,
        }));
        if !self.json {
            let _ = writeln!(self.done.err, "{finding}");
        }
    }

    /// Adds an error that is about all of the files at `path`.
    pub(super) fn error(&mut self, path: &Path, message: &str, help: &str) {
        self.bad();
        let file = path.display().to_string();
        self.value(&json!({
            "type": "finding",
            "level": "error",
            "file": file,
            "message": message,
            "help": help,
        }));
        if !self.json {
            let _ = writeln!(self.done.err, "error: {message}\n  {help}");
        }
    }

    /// Adds why a file at `path` could not be used; `None` if there is no report about it.
    pub(super) fn load_error<'e>(
        &mut self,
        path: &Path,
        error: &'e LoadError,
    ) -> Option<&'e Report> {
        self.bad();
        if let LoadError::Wrong(report) = error {
            self.report(report);
            return Some(report);
        }
        let file = path.display().to_string();
        let message = error.to_string();
        let finding =
            json!({ "type": "finding", "level": "error", "file": file, "message": message });
        self.value(&finding);
        if !self.json {
            let _ = writeln!(self.done.err, "error: {message}");
        }
        None
    }
}
