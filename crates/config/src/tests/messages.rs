//! Every message that a policy file can bring about, word for word.
//!
//! `messages.txt` has wrong policies, each with what is said about it. To add one, write it there
//! without an answer; to renew the answers, run `UPDATE=1 cargo test -p tidegate-config messages`,
//! and read what changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs, io};

use crate::file::Outside;
use crate::load::read;
use crate::problem::seen;
use crate::source::Format;

const SNAPSHOT: &str = "src/tests/messages.txt";

/// A file of keys with more mistakes than are reported.
const BAD_KEYS: &str = "\
names:
  acme:
    teir: pro
    keys: [{ sha256: tg_a-key-that-must-not-be-shown }]
  bob:
    keys: tg_another-key
  carl: { keys: [{ sha256: 00 }], attributes: { tier: pro } }
  dora: {}
  emil: { keys: [{ expires: soon }] }
";

/// What is around the policies of this test.
#[derive(Debug)]
pub(super) struct Pretended;

impl Outside for Pretended {
    fn file(&self, name: &str) -> io::Result<Vec<u8>> {
        match name {
            "bad-keys.yaml" => Ok(BAD_KEYS.into()),
            "binary.pem" => Ok(vec![0xff; 4]),
            "hello.txt" => Ok(b"hello".to_vec()),
            "keys.yaml" => Ok(super::api_keys::keys().text().into_bytes()),
            "secret.txt" => Ok(b"an example of a secret, of 32 b.\n".to_vec()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "SECRET" => Some("an example of a secret, of 32 b.".to_owned()),
            "WEAK" => Some("secret".to_owned()),
            _ => None,
        }
    }
}

/// A case: its title, and its files.
struct Case<'t> {
    title: &'t str,
    policy: &'t str,
}

fn cases(text: &str) -> impl Iterator<Item = Case<'_>> {
    text.split("=== ").skip(1).map(|case| {
        let (title, rest) = case.split_once('\n').unwrap();
        let (policy, _) = rest.split_once("--- says\n").unwrap_or((rest, ""));
        Case { title, policy }
    })
}

fn said(policy: &str) -> String {
    let names = ["policy.yaml", "more.yaml"];
    let files = policy.split("+++\n").zip(names);
    let files: Vec<_> = files
        .map(|(text, name)| (name.to_owned(), text.as_bytes().to_vec(), Format::Yaml))
        .collect();
    match read(&files, &Pretended) {
        Ok(loaded) => loaded.report.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn every_message_is_as_it_was_read_and_found_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOT);
    let before = fs::read_to_string(&path).unwrap();
    seen::forget();
    let now: Vec<String> = cases(&before)
        .map(|Case { title, policy }| {
            format!("=== {title}\n{policy}--- says\n{}\n", said(policy).trim_end())
        })
        .collect();
    let now = now.concat();
    let tiers: Vec<String> = (0..=1_000).map(|number| format!("t{number}")).collect();
    let names: Vec<String> = (0..=256).map(|number| format!("i{number}: ip")).collect();
    let keys: Vec<String> = (0..20_000).map(|number| format!("k{number}: 1/s")).collect();
    let shares: Vec<String> =
        (0..=100).map(|at| format!("{{ name: s{at}, by: ip, capacity: 1/s }}")).collect();
    let rule = "{ name: a, limit: 1/s }";
    for (policy, message) in [
        (
            format!("tiers: {{ header: x, default: a, names: {tiers:?} }}\nrules: [{rule}]"),
            "error: there are more than 1000 tiers\n",
        ),
        (format!("share: [{}]", shares.join(", ")), "error: there are more than 100 shares\n"),
        (
            format!("identify: {{ {} }}\nrules: [{rule}]", names.join(", ")),
            "error: `identify` has 257 names\n",
        ),
        (
            format!(
                "rules: [{{ name: a, key: host, limit: 1/s, overrides: {{ {} }} }}]",
                keys.join(", ")
            ),
            "error: 20001 rules, tiers and overrides are too many\n",
        ),
    ] {
        let said = said(&policy);
        assert!(said.starts_with(message) && said.ends_with("\n1 error"), "{said:.300}");
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &now).unwrap();
    } else if let Some((was, is)) = before.lines().zip(now.lines()).find(|(was, is)| was != is) {
        panic!("`{was}` is now `{is}`: read it, then run with UPDATE=1 to keep it ({SNAPSHOT})");
    } else {
        assert_eq!(before.len(), now.len(), "run with UPDATE=1 ({SNAPSHOT})");
    }
    assert_eq!(unseen(), BTreeSet::new(), "messages without a case in {SNAPSHOT}");
}

/// Lines of `src/file` that can say something, but did not.
fn unseen() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/file");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = format!("file/{}", path.file_name().unwrap().to_str().unwrap());
        let text = fs::read_to_string(&path).unwrap();
        // What core refuses is refused before it gets there.
        let says = |line: &str| {
            [".error(", ".warn(", ".lint(", ".lint_unless("].iter().any(|it| line.contains(it))
                && !line.contains("error.to_string()")
        };
        let found = text.lines().zip(1..).filter(|(line, _)| says(line));
        lines.extend(found.map(|(_, number)| format!("{name}:{number}")));
    }
    let said = seen::places();
    lines.into_iter().filter(|line| !said.iter().any(|place| place.ends_with(line))).collect()
}

#[test]
fn messages_have_the_house_form() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOT)).unwrap();
    for line in text.lines() {
        let named = line.strip_prefix("warning[").and_then(|it| Some(it.split_once("]: ")?.1));
        let message = line.strip_prefix("error: ").or(named);
        let Some(message) = message else { continue };
        assert!(!message.starts_with(char::is_uppercase), "{message}");
        assert!(!message.ends_with('.'), "{message}");
    }
}
