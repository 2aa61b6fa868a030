//! A file of API keys as a text, in YAML: always the same one for the same keys.

use std::fmt::Write as _;

use jiff::Timestamp;
use tidegate_core::Tick;

use super::KeyFile;

const HEAD: &str = "\
# API keys, by the names of those who have them; of each key only its hash.
# `tidegate keys` writes this file: of what people note here it keeps `about`, and no comments.
";

impl KeyFile {
    /// The file as a text.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        text.push_str(if self.owners.is_empty() { "names: {}\n" } else { "names:\n" });
        for (name, owner) in &self.owners {
            let _ = writeln!(text, "  {}:", word(name));
            for (field, value) in [("about", &owner.about), ("tier", &owner.tier)] {
                if let Some(value) = value {
                    let _ = writeln!(text, "    {field}: {}", word(value));
                }
            }
            if !owner.attributes.is_empty() {
                let pairs = owner.attributes.iter();
                let pairs = pairs.map(|(name, value)| format!("{}: {}", word(name), word(value)));
                let pairs: Vec<String> = pairs.collect();
                let _ = writeln!(text, "    attributes: {{ {} }}", pairs.join(", "));
            }
            text.push_str("    keys:\n");
            for key in &owner.keys {
                let _ = write!(text, "      - {{ sha256: \"{}\"", key.hash);
                if let Some(expires) = key.expires {
                    let _ = write!(text, ", expires: \"{}\"", KeyFile::moment_text(expires));
                }
                text.push_str(" }\n");
            }
        }
        text
    }

    /// A moment as [`KeyFile::moment`] reads it.
    pub fn moment_text(at: Tick) -> String {
        let micros = i64::try_from(at.get()).unwrap_or(i64::MAX);
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX).to_string()
    }
}

/// A text, in quotes unless it can only be a text.
fn word(text: &str) -> String {
    const MEANT: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf"];
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it))
        && !MEANT.contains(&text.to_ascii_lowercase().as_str());
    // A text of JSON is one of YAML.
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
