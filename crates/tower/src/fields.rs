//! The gate's fields as headers of a response.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::Admission;

/// Whose value counts where a response has a field already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wins {
    /// Ours: only we know what is left.
    Ours,
    /// Theirs: the author of the refusal has thought of it.
    Theirs,
}

/// Adds the fields that the policy file asks for.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    admission.fields(|field, value| {
        // Rules with odd names cannot be read from a file; the field of one is left out.
        let Ok(value) = HeaderValue::from_str(value) else { return };
        let name = HeaderName::from_static(field.name());
        match wins {
            Wins::Ours => drop(headers.insert(name, value)),
            Wins::Theirs => drop(headers.entry(name).or_insert(value)),
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::header;
    use tidegate_gate::{Gate, Headers, Sample};
    use tidegate_store::ManualClock;

    use super::*;

    fn gate(limit: &str) -> Gate {
        Gate::from_text(&format!("rules: [{{ name: all, limit: {limit} }}]")).unwrap()
    }

    fn told(admission: &Admission) -> Vec<(String, String)> {
        let mut told = Vec::new();
        admission.fields(|field, value| told.push((field.name().to_owned(), value.to_owned())));
        told
    }

    fn typed() -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))])
    }

    /// Adds the fields to a response that has these headers already, which stay as they are.
    #[track_caller]
    fn check(admission: &Admission, before: &HeaderMap) {
        for wins in [Wins::Ours, Wins::Theirs] {
            let mut headers = before.clone();
            write(admission, &mut headers, wins);
            let told = told(admission);
            for (name, value) in &told {
                assert_eq!(headers[name], value, "{name}");
            }
            for (name, value) in before {
                assert_eq!(headers.get_all(name).iter().filter(|it| *it == value).count(), 1);
            }
            assert_eq!(headers.len(), told.len() + before.len());
        }
    }

    /// Whatever headers a response has already.
    #[test]
    fn every_response_tells_what_the_gate_says() {
        let mut cookies = typed();
        for cookie in ["a=1", "b=2"] {
            cookies.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        let other = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("e"))]);
        let (mut long, mut tagged) = (typed(), typed());
        long.insert(header::CONTENT_LENGTH, HeaderValue::from_static("7"));
        tagged.extend(other.clone());
        let mut bare = long.clone();
        bare.remove(header::CONTENT_TYPE);
        let mut full = long.clone();
        full.extend(other.clone());
        let befores = [typed(), HeaderMap::new(), long, cookies, other, tagged, bare, full];
        // Each lets all kinds of response pass before it refuses.
        let gates = [gate("12/s"), gate("24/min"), gate("37/h"), gate("36/s")];
        for (at, before) in befores.iter().cycle().take(48).enumerate() {
            for gate in &gates[at % 3..] {
                // Once after another gate, and once after itself.
                for _ in 0..=at % 2 {
                    check(&gate.decide(&Sample::new("GET /")), before);
                }
            }
        }
    }

    /// In windows of a calendar resets are the same for all, so that nothing else changes.
    #[test]
    fn a_policy_or_a_limit_may_change_alone() {
        let gate = |rules: &str| {
            let clock = Arc::new(ManualClock::new());
            Gate::builder().text(&format!("rules: [{rules}]")).clock(clock).open().unwrap()
        };
        let of_all = |name| format!("{{ name: {name}, algorithm: fixed-window, limit: 9/d }}");
        for name in ["one", "two"] {
            let gate = gate(&of_all(name));
            check(&gate.decide(&Sample::new("GET /")), &typed());
        }
        let each = "{ name: each, key: header:x, algorithm: fixed-window, limit: 5/d }";
        let gate = gate(&format!("{each}, {}", of_all("all")));
        let mut limits = Vec::new();
        for client in 0..8 {
            let admission = gate.decide(&Sample::new("GET /").with_header("x", client.to_string()));
            check(&admission, &typed());
            limits.push(admission.decision().limit);
        }
        assert_eq!(limits, [5, 5, 5, 5, 5, 9, 9, 9], "the limit that speaks");
    }

    #[test]
    fn other_dialects_are_told_as_they_are() {
        for dialect in Headers::WORDS {
            let policy = format!("headers: {dialect}\nrules: [{{ name: all, limit: 2/h }}]");
            let gate = Gate::from_text(&policy).unwrap();
            for _ in 0..3 {
                check(&gate.decide(&Sample::new("GET /")), &typed());
            }
        }
    }

    #[test]
    fn theirs_stay_where_they_win() {
        let admission = gate("5/s").decide(&Sample::new("GET /"));
        for (wins, limit) in [(Wins::Theirs, "theirs"), (Wins::Ours, "5")] {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-limit", HeaderValue::from_static("theirs"));
            write(&admission, &mut headers, wins);
            assert_eq!(headers["x-ratelimit-limit"], limit);
            assert_eq!(headers.len(), 5);
        }
    }
}
