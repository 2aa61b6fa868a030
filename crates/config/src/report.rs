//! What is wrong with the files, for people: each problem with the line that it is in.
//!
//! What is shown is cut out when the report is made, so that a report does not keep the files.

use std::error::Error;
use std::fmt;

use crate::excerpt::{self, Excerpt};
use crate::lint::Lint;
use crate::problem::{Level, Problem, Problems};

/// Everything that is wrong with some files. Prints like a compiler does, without colors.
#[derive(Clone, Eq, PartialEq)]
pub struct Report {
    findings: Vec<Finding>,
    errors: usize,
    warnings: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// Its name, if it is a warning that can be allowed.
    pub lint: Option<Lint>,
    /// The name of the file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// None if the file has nothing to show.
    excerpt: Option<Excerpt>,
}

/// A file that problems are in: its name, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'f> {
    pub(crate) name: &'f str,
    pub(crate) text: &'f [u8],
}

impl Report {
    /// Sorts problems by place. A place's file is its number in `files`.
    pub(crate) fn of(files: &[File<'_>], problems: Problems) -> Report {
        let (errors, warnings) = (problems.errors(), problems.warnings());
        let finding = |problem| Finding::of(files, problem);
        let findings = problems.into_sorted().into_iter().map(finding).collect();
        Report { findings, errors, warnings }
    }

    /// What is wrong, by file and place. At most a hundred errors and a hundred warnings.
    pub fn problems(&self) -> impl ExactSizeIterator<Item = &Finding> {
        self.findings.iter()
    }

    /// How many errors there are, with those that are not listed.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// How many warnings there are, with those that are not listed.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// The last line, such as `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let errors = counted(self.errors, "error");
        let warnings = counted(self.warnings, "warning");
        let summary = match (self.errors, self.warnings) {
            (0, 0) => "no problems".to_owned(),
            (_, 0) => errors,
            (0, _) => warnings,
            _ => format!("{errors}, {warnings}"),
        };
        let left_out = self.errors + self.warnings - self.findings.len();
        if left_out == 0 { summary } else { format!("{summary} ({left_out} not shown)") }
    }
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        f.write_str(&self.summary())
    }
}

impl Error for Report {}

impl Finding {
    pub(crate) fn of(files: &[File<'_>], problem: Problem) -> Finding {
        let file = files.get(usize::from(problem.at.file)).copied();
        let File { name, text } = file.unwrap_or(File { name: "unknown file", text: b"" });
        let (start, end) = (problem.at.start as usize, problem.at.end as usize);
        let excerpt = Excerpt::of(text, start..end);
        Finding {
            level: problem.level,
            lint: problem.lint,
            file: excerpt::drawn(name.chars()),
            line: excerpt.line,
            column: excerpt.column,
            // Messages repeat what was typed.
            message: excerpt::drawn(problem.message.chars()),
            help: problem.help.map(|help| excerpt::drawn(help.chars())),
            excerpt: (!text.is_empty()).then_some(excerpt),
        }
    }
}

/// Ends with a line break.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        match self.lint {
            Some(lint) => writeln!(f, "{level}[{lint}]: {}", self.message)?,
            None => writeln!(f, "{level}: {}", self.message)?,
        }
        let Some(excerpt) = &self.excerpt else {
            writeln!(f, " --> {}", self.file)?;
            return match &self.help {
                Some(help) => writeln!(f, "  = {help}"),
                None => Ok(()),
            };
        };
        let line = self.line.to_string();
        let margin = " ".repeat(line.len());
        let marks = format!("{}{}", " ".repeat(excerpt.marks_from), "^".repeat(excerpt.marks));
        let help = self.help.as_deref().unwrap_or_default();
        writeln!(f, "{margin}--> {}:{line}:{}", self.file, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{}", format!("{line} | {}", excerpt.shown).trim_end())?;
        writeln!(f, "{}", format!("{margin} | {marks} {help}").trim_end())
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Span;

    fn report(text: &str, add: impl FnOnce(&mut Problems)) -> Report {
        let mut problems = Problems::default();
        add(&mut problems);
        Report::of(&[File { name: "policy.yaml", text: text.as_bytes() }], problems)
    }

    fn span(start: u32, end: u32) -> Span {
        Span { file: 0, start, end }
    }

    #[track_caller]
    fn check(text: &str, at: Span, wanted: &str) {
        let report = report(text, |problems| problems.error(at, "wrong").help("so do this"));
        assert_eq!(report.to_string(), wanted.trim_start_matches('\n'));
    }

    #[test]
    fn a_problem_shows_its_line() {
        check(
            "rules:\n  - limt: 100/min\n",
            span(11, 15),
            "
error: wrong
 --> policy.yaml:2:5
  |
2 |   - limt: 100/min
  |     ^^^^ so do this

1 error",
        );
    }

    #[test]
    fn the_margin_is_as_wide_as_the_number_of_the_line() {
        check(
            &format!("{}bad", "\n".repeat(99)),
            span(99, 102),
            "
error: wrong
   --> policy.yaml:100:1
    |
100 | bad
    | ^^^ so do this

1 error",
        );
    }

    #[test]
    fn a_problem_of_many_lines_shows_the_first() {
        check(
            "a:\r\n  b: 1\r\n  c: 2\r\n",
            span(6, 18),
            "
error: wrong
 --> policy.yaml:2:3
  |
2 |   b: 1
  |   ^^^^ so do this

1 error",
        );
    }

    #[test]
    fn an_empty_file_has_nothing_to_show() {
        check("", span(0, 0), "\nerror: wrong\n --> policy.yaml\n  = so do this\n\n1 error");
    }

    #[test]
    fn problems_are_sorted_by_place_and_errors_come_first() {
        let report = report("a: 1\nb: 2\n", |problems| {
            problems.warn(span(5, 6), "third");
            problems.error(span(5, 6), "second");
            problems.warn(span(0, 1), "first");
        });
        let found = report.problems().map(|found| (found.message.as_str(), found.line));
        assert_eq!(found.collect::<Vec<_>>(), [("first", 1), ("second", 2), ("third", 2)]);
        assert_eq!(report.summary(), "1 error, 2 warnings");
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let report = report("a", |problems| {
            for _ in 0..150 {
                problems.warn(span(0, 1), "doubtful").help("think");
            }
            assert!(!problems.is_fatal());
            for count in 0..101 {
                assert_eq!((problems.is_fatal(), problems.is_full()), (0 < count, count == 100));
                problems.error(span(0, 1), "wrong").help("fix");
            }
        });
        assert_eq!((report.errors(), report.warnings(), report.problems().len()), (101, 150, 200));
        assert_eq!(report.summary(), "101 errors, 150 warnings (51 not shown)");
    }

    #[test]
    fn a_place_outside_of_every_file_is_no_reason_to_panic() {
        for at in [span(7, 9), span(2, 1), span(u32::MAX, u32::MAX), span(1, u32::MAX)] {
            let shown = report("ä\n", |problems| {
                problems.error(at, "wrong");
            });
            let shown = shown.to_string();
            assert!(shown.contains("policy.yaml"), "{shown}");
        }
        let elsewhere = Span { file: 9, ..span(0, 0) };
        let shown = report("a", |problems| {
            problems.error(elsewhere, "wrong");
        });
        let shown = shown.to_string();
        assert!(shown.contains("unknown file"), "{shown}");
    }
}
