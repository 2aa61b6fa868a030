//! Values to compare with: a text, where `*` stands for any run of characters.

use std::fmt;

/// A text with wildcards.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Glob {
    /// What stands between the stars: one piece if there are none.
    pieces: Box<[Box<[u8]>]>,
    ignores_case: bool,
}

impl Glob {
    pub(crate) fn new(text: &str) -> Glob {
        Glob {
            pieces: text.split('*').map(|it| it.as_bytes().into()).collect(),
            ignores_case: false,
        }
    }

    /// As [`Glob::new`], for names that mean the same in upper and lower case: methods and hosts.
    pub(crate) fn ignoring_case(text: &str) -> Glob {
        Glob { ignores_case: true, ..Glob::new(&text.to_ascii_lowercase()) }
    }

    /// The text, if there is no star in it.
    pub(crate) fn exact(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(crate) fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Whether it is a single star.
    pub(crate) fn is_any(&self) -> bool {
        matches!(&*self.pieces, [first, last] if first.is_empty() && last.is_empty())
    }

    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        if self.ignores_case
            && let Some(exact) = self.exact()
        {
            return exact.eq_ignore_ascii_case(value);
        }
        if self.ignores_case && value.iter().any(u8::is_ascii_uppercase) {
            return self.fits(&value.to_ascii_lowercase());
        }
        self.fits(value)
    }

    /// Whether every value that `narrow` matches is matched by this one. Says no when unsure.
    pub(crate) fn covers(&self, narrow: &Glob) -> bool {
        self == narrow || self.is_any() || narrow.exact().is_some_and(|exact| self.matches(exact))
    }

    /// Takes each piece where it is first found: later would leave less for the others.
    fn fits(&self, value: &[u8]) -> bool {
        let [first, middle @ .., last] = &*self.pieces else {
            return self.exact() == Some(value);
        };
        let Some(mut rest) = value.strip_prefix(&**first) else { return false };
        for piece in middle {
            let Some(at) = find(rest, piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last)
    }
}

fn find(value: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    value.windows(piece.len()).position(|window| window == piece)
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces: Vec<_> = self.pieces.iter().map(|it| String::from_utf8_lossy(it)).collect();
        write!(f, "`{}`", pieces.join("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(glob: &str, fits: &[&str], misses: &[&str]) {
        for value in fits {
            assert!(Glob::new(glob).matches(value.as_bytes()), "`{glob}` should match `{value}`");
        }
        for value in misses {
            assert!(!Glob::new(glob).matches(value.as_bytes()), "`{glob}` matches `{value}`");
        }
    }

    #[test]
    fn a_star_is_any_run_of_characters() {
        check("a", &["a"], &["", "b", "aa", "A"]);
        check("*", &["", "a", "anything"], &[]);
        check("a*", &["a", "ab"], &["", "ba"]);
        check("*a", &["a", "ba"], &["", "ab"]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
        check("*.example.com", &["a.example.com", ".example.com"], &["example.com", "example.co"]);
        check("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab", "ac"]);
    }

    #[test]
    fn case_matters_unless_said() {
        assert!(Glob::ignoring_case("GET").matches(b"get"));
        assert!(Glob::ignoring_case("Api.*").matches(b"API.example"));
        assert!(!Glob::new("GET").matches(b"get"));
    }

    #[test]
    fn what_covers_another() {
        assert!(Glob::new("*").covers(&Glob::new("a*")));
        assert!(Glob::new("a*").covers(&Glob::new("ab")));
        assert!(!Glob::new("ab").covers(&Glob::new("a*")));
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::new(&"*a".repeat(200));
        assert!(!glob.matches("b".repeat(100_000).as_bytes()));
    }
}
