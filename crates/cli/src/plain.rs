//! A page of the documentation as a terminal shows it: no marks of Markdown, and lines that fit.

/// Text is broken before this column.
const WIDTH: usize = 80;

/// The page without what is only for readers of the library: blocks of Rust, and the line that
/// announces them.
pub(crate) fn plain(page: &str) -> String {
    let mut out = String::new();
    let mut fence = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language == "rust"),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => {}
            (None, Some(false)) => out.extend(["    ", line, "\n"]),
            (None, None) if line == "The same in Rust:" => {}
            (None, None) => out += &text(line),
        }
    }
    // What was left out has left its blank lines.
    while out.contains("\n\n\n") {
        out = out.replace("\n\n\n", "\n\n");
    }
    out
}

fn text(line: &str) -> String {
    if line.starts_with('#') {
        return format!("{}\n", line.trim_start_matches(['#', ' ']).to_uppercase());
    }
    let line = without_links(line);
    let hang = if line.starts_with("- ") { "  " } else { "" };
    let mut out = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let width = word.chars().count();
        if 0 < column && WIDTH < column + 1 + width {
            out.extend(["\n", hang]);
            column = hang.len();
        } else if 0 < column {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width;
    }
    out + "\n"
}

/// `[text](where)` as `text`.
fn without_links(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let found = after.split_once("](").and_then(|(text, after)| {
            let (_, after) = after.split_once(')')?;
            (!text.contains('[')).then_some((text, after))
        });
        let (text, after) = found.unwrap_or(("[", after));
        out += before;
        out += text;
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_examples_stay() {
        let page = "# a\n\nSee [here](b.md), and `this[0]`.\n\n```yaml\nlimit: 1/s\n```\n\n\
                    The same in Rust:\n\n```rust\nlet a = 1;\n```\n\nEnd.\n";
        assert_eq!(plain(page), "A\n\nSee here, and `this[0]`.\n\n    limit: 1/s\n\nEnd.\n");
    }

    #[test]
    fn lines_fit() {
        let page = format!("- {}\n", "word ".repeat(30).trim_end());
        let shown = plain(&page);
        assert!(shown.lines().all(|line| line.len() <= WIDTH), "{shown}");
        assert!(shown.lines().skip(1).all(|line| line.starts_with("  word")), "{shown}");
    }
}
