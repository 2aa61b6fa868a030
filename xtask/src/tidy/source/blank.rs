//! Blanks what is not code: comments, strings and characters become spaces, lines stay lines.
//!
//! A small scanner, not a parser. It must know where literals end and nothing else.

/// `text` with comments and the insides of literals replaced by spaces.
pub(super) fn blank(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(first) = rest.chars().next() {
        let skipped = skip(rest, out.chars().next_back());
        if skipped == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..skipped].chars().map(|c| if c == '\n' { c } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    out
}

/// How many bytes of a comment or literal `rest` starts with.
fn skip(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    // `r`, `br` and `cr` only start a literal where they do not end a word.
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') { 0 } else { raw(rest) }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A quote starts a character if it closes right behind one; otherwise it starts a lifetime.
fn character(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    let first = inside.next();
    if first == Some('\\') || inside.next() == Some('\'') { quoted(rest, '\'') } else { 0 }
}

fn raw(rest: &str) -> usize {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|tail| tail.trim_start_matches('#').starts_with('"'))
    });
    let Some(prefix) = prefix else { return 0 };
    let tail = &rest[prefix.len()..];
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len())
}

#[cfg(test)]
mod tests {
    use super::blank;

    /// Runs of spaces count as one.
    #[track_caller]
    fn check(text: &str, code: &str) {
        let blanked = blank(text);
        assert_eq!(blanked.lines().count(), text.lines().count(), "lines must stay lines");
        assert_eq!(blanked.split_whitespace().collect::<Vec<_>>().join(" "), code);
    }

    #[test]
    fn comments_go() {
        check("a // b\nc /* d /* e */ f */ g\n//! h", "a c g");
        check("a /* never closed", "a");
    }

    #[test]
    fn literals_go() {
        check(r#"a("b \" c") + "d""#, "a( ) +");
        check("x = \"two\nlines\";", "x = ;");
        check("br#\"a \"b\" c\"# d r\"e\" f", "d f");
        check("r##\"a \"# b\"## c", "c");
        check(r"['\'', 'a', '\\', '\u{1F30A}', '→'] b", "[ , , , , ] b");
    }

    #[test]
    fn lifetimes_and_words_stay() {
        check("fn a<'a, 'b>(c: &'a str)", "fn a<'a, 'b>(c: &'a str)");
        check("for r in br { r#type }", "for r in br { r#type }");
        check("car\"b\"", "car");
    }

    #[test]
    fn quotes_in_comments_open_nothing() {
        check("// it's\na \"// b\" c", "a c");
    }
}
