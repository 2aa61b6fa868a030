//! Parts of a request as they are typed on the command line.

use jiff::Timestamp;
use tidegate_core::Tick;

/// A name and a value.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Reads `METHOD /path?query`, or a path alone.
pub(crate) fn line(text: &str) -> Result<String, String> {
    let (method, target) = text.trim().split_once(' ').unwrap_or(("GET", text.trim()));
    let target = target.trim_start();
    if target.starts_with('/') && !target.contains(char::is_whitespace) {
        return Ok(format!("{method} {target}"));
    }
    Err("write a method and a path, such as 'GET /search?q=x'".to_owned())
}

/// Reads `NAME: VALUE`.
pub(crate) fn header(text: &str) -> Result<Named, String> {
    split(text, ':').ok_or_else(|| "write a name and a value, such as 'x-api-key: k'".to_owned())
}

/// Reads `NAME=VALUE`.
pub(crate) fn attribute(text: &str) -> Result<Named, String> {
    split(text, '=').ok_or_else(|| "write a name and a value, such as user=ada".to_owned())
}

/// Reads a time with its offset.
pub(crate) fn time(text: &str) -> Result<Tick, String> {
    let time: Option<Timestamp> = text.parse().ok();
    let micros = time.and_then(|time| u64::try_from(time.as_microsecond()).ok());
    let form = "write a time since 1970 with its offset, such as 2026-03-29T00:30:00+01:00";
    micros.map(Tick::from_micros).ok_or_else(|| form.to_owned())
}

fn split(text: &str, between: char) -> Option<Named> {
    let (name, value) = text.split_once(between)?;
    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
    (!name.is_empty()).then_some(Named { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_alone_is_a_get() {
        assert_eq!(line("/search?q=x"), Ok("GET /search?q=x".to_owned()));
        assert_eq!(line(" POST  /login "), Ok("POST /login".to_owned()));
        for text in ["", "GET", "GET search", "GET /a b", "https://a.example/"] {
            assert!(line(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_may_hold_what_ends_a_name() {
        let Named { name, value } = header("referer: https://a.example:80/").unwrap();
        assert_eq!((&*name, &*value), ("referer", "https://a.example:80/"));
        let Named { name, value } = attribute("query=a=b").unwrap();
        assert_eq!((&*name, &*value), ("query", "a=b"));
        assert!(header("x-api-key").is_err() && header(": k").is_err() && attribute("a").is_err());
    }

    #[test]
    fn a_time_has_an_offset() {
        let tick = Tick::from_micros(1_774_740_600_000_000);
        assert_eq!(time("2026-03-29T00:30:00+01:00"), Ok(tick));
        for text in ["2026-03-29", "2026-03-29T00:30:00", "1969-12-31T23:59:59Z", "now"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
