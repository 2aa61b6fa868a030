//! What a command found: tables to read, figures to check, a section of `RESULTS.md`.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use crate::figure::Figure;
use crate::machine;

#[derive(Debug)]
pub(crate) struct Report {
    about: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) figures: Vec<Figure>,
}

/// The first column is text; all others are numbers.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Report {
    pub(crate) fn new(about: impl Into<String>) -> Self {
        Self { about: about.into(), tables: Vec::new(), figures: Vec::new() }
    }

    pub(crate) fn holds(&self) -> bool {
        self.figures.iter().all(Figure::holds)
    }

    pub(crate) fn json(&self) -> String {
        self.figures.iter().map(|figure| figure.json() + "\n").collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.about);
        for table in &self.tables {
            text += "\n";
            text += &table.markdown();
        }
        if !self.figures.is_empty() {
            text += "\n";
            text += &self.targets().markdown();
        }
        text
    }

    fn targets(&self) -> Table {
        let head = ["figure", "value", "unit", "target", "holds"];
        let mut table = Table::new("Targets".to_owned(), &head);
        for figure in &self.figures {
            table.add(vec![
                figure.name.clone(),
                format!("{:.3}", figure.value),
                figure.unit.to_string(),
                figure.target.to_string(),
                if figure.holds() { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        table
    }

    /// Replaces the command's section of `RESULTS.md` and leaves the others as they are.
    pub(crate) fn write(&self, command: &str) -> io::Result<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md");
        let old = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HEADER.to_owned(),
            read => read?,
        };
        let body = format!("{}\n\n{}", machine::describe(), self.markdown());
        fs::write(&path, with_section(&old, command, &body))
    }
}

impl Table {
    pub(crate) fn new(title: String, head: &[&str]) -> Self {
        Self { title, head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.head.len(), "a cell for every column");
        self.rows.push(row);
    }

    fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells.chain([self.head[column].chars().count(), 3]).max().unwrap_or(3)
            })
            .collect();
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| match column {
                0 => "-".repeat(*width),
                _ => "-".repeat(width - 1) + ":",
            })
            .collect();
        let mut text = format!("**{}**\n\n", self.title);
        for row in [&self.head, &rule].into_iter().chain(&self.rows) {
            text += &line(row, &widths);
        }
        text
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::from("|");
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        let written = match column {
            0 => write!(text, " {cell:<width$} |"),
            _ => write!(text, " {cell:>width$} |"),
        };
        written.expect("a String takes all that is written to it");
    }
    text + "\n"
}

fn with_section(document: &str, title: &str, body: &str) -> String {
    let heading = format!("## {title}");
    let mut sections: Vec<String> = Vec::new();
    for text in document.lines() {
        if sections.is_empty() || text.starts_with("## ") {
            sections.push(String::new());
        }
        let section = sections.last_mut().expect("just pushed");
        section.push_str(text);
        section.push('\n');
    }
    let section = format!("{heading}\n\n{}\n", body.trim_end());
    match sections.iter_mut().find(|section| section.lines().next() == Some(&heading)) {
        Some(old) => *old = section,
        None => sections.push(section),
    }
    let trimmed: Vec<&str> = sections.iter().map(|section| section.trim_end()).collect();
    trimmed.join("\n\n") + "\n"
}

const HEADER: &str = "# Results\n\nWritten by `tidegate-bench … --write`; do not edit by hand.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_its_neighbors_stay() {
        let first = with_section("# Results\n", "decide", "old");
        let both = with_section(&first, "memory", "kept");
        let again = with_section(&both, "decide", "new\n");
        assert_eq!(again, "# Results\n\n## decide\n\nnew\n\n## memory\n\nkept\n");
    }

    #[test]
    fn a_table_lines_up_its_columns() {
        let mut table = Table::new("Title".to_owned(), &["subject", "ns"]);
        table.add(vec!["a".to_owned(), "12345".to_owned()]);
        let expected = "**Title**\n\n\
            | subject |    ns |\n\
            | ------- | ----: |\n\
            | a       | 12345 |\n";
        assert_eq!(table.markdown(), expected);
    }
}
