//! What servers make of the letters of a path: what they cut, and what they take for the same.

use super::normal::is_dots;

/// Whether a decoded path has something in it that is cut, or is a slash to some.
pub(super) fn is_odd(path: &str) -> bool {
    let is_cut = |byte: u8| byte <= b' ' || matches!(byte, b';' | b'\\' | DELETE);
    path.bytes().any(is_cut) || path.split('/').any(|segment| segment.ends_with('.'))
}

/// A decoded path as servers see it that cut it short at a NUL, take a backslash for a slash, and
/// cut parameters off a name, and blanks and dots off its end.
///
/// All of that at once and before dots are followed: a server that does less of it finds the same
/// path, or one in which there is a letter that no name has.
pub(super) fn cut(path: &str) -> String {
    let path = path.split('\0').next().unwrap_or_default();
    let mut all = String::with_capacity(path.len());
    for segment in path.split(['/', '\\']) {
        all.push('/');
        all.push_str(cut_name(segment));
    }
    all
}

fn cut_name(name: &str) -> &str {
    let name = name.split(';').next().unwrap_or_default();
    let is_blank = |letter: char| letter <= ' ' || letter == char::from(DELETE);
    let name = name.trim_end_matches(is_blank);
    let bare = name.trim_end_matches(|letter| letter == '.' || is_blank(letter));
    // Those are no end of a name.
    if bare.is_empty() || is_dots(name) { name } else { bare }
}

const DELETE: u8 = 0x7F;

/// A decoded path, or a part of one, in which all letters that only differ in case are the same;
/// nothing if it is that already. Escapes stay as they are.
pub(super) fn folded(text: &str) -> Option<String> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return None;
    }
    let mut folded = String::with_capacity(text.len());
    let mut escape = 0;
    for letter in text.chars() {
        if letter == '%' {
            escape = 3;
        }
        if 0 < escape {
            escape -= 1;
            folded.push(letter);
        } else if letter.is_ascii() {
            folded.push(letter.to_ascii_lowercase());
        } else {
            // Both ways: some have two letters of lower case for one of upper case.
            folded.extend(letter.to_uppercase().flat_map(char::to_lowercase));
        }
    }
    (folded != text).then_some(folded)
}

/// A value of a path, or of a part of one, as keys have it.
pub(crate) fn key_spelling(text: &str) -> String {
    folded(text).unwrap_or_else(|| text.to_owned())
}
