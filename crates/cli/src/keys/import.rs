//! `import`: keys that were given out before, from the standard input; all of them, or none.
//!
//! No message repeats a line: it has a key in it.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tidegate_config::{FILE_BYTES_MAX, KeyFile, KeyHash, ListedKey};

use super::change::give;
use super::file::{self, Begins};
use crate::done::Done;

/// The most bytes of a key, as a request may have it.
const KEY_BYTES_MAX: usize = 1_024;
/// A shorter key may be found by trying, by somebody who has its hash.
const KEY_BYTES_RANDOM: usize = 20;

/// A line of the input.
struct Line<'t> {
    number: usize,
    name: &'t str,
    key: &'t str,
    tier: Option<&'t str>,
}

pub(super) fn run(path: &Path, tier: Option<&str>, mut from: impl Read) -> Result<Done> {
    let mut text = String::new();
    let most = FILE_BYTES_MAX as u64 + 1;
    (&mut from).take(most).read_to_string(&mut text).context("cannot read the standard input")?;
    if FILE_BYTES_MAX < text.len() {
        bail!("the standard input has more than {FILE_BYTES_MAX} bytes: import a part of it");
    }
    let lines = lines(&text, tier)?;
    if lines.is_empty() {
        bail!("the standard input has no keys: write lines such as acme,THE-KEY,pro");
    }
    let (new, known) = file::change(path, Begins::Yes, |keys| put(keys, &lines))?;
    let weak = lines.iter().filter(|line| line.key.len() < KEY_BYTES_RANDOM).count();
    let mut done = Done::good(format!("{new} keys imported, {known} known already\n"));
    if 0 < weak {
        done.err = format!(
            "warning: {weak} of them have fewer than {KEY_BYTES_RANDOM} characters, and may be \
             found from their hashes: replace them by `tidegate keys add`\n"
        );
    }
    Ok(done)
}

fn lines<'t>(text: &'t str, tier: Option<&'t str>) -> Result<Vec<Line<'t>>> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split(',').map(str::trim);
        let (Some(name), Some(key), said, None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            bail!("line {number} is none of NAME,KEY and NAME,KEY,TIER: correct it");
        };
        let tier = said.filter(|tier| !tier.is_empty()).or(tier);
        if !KeyFile::is_text(name) || tier.is_some_and(|tier| !KeyFile::is_text(tier)) {
            bail!("the name or the tier of line {number} is empty, too long or odd: correct it");
        }
        let is_key = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if key.is_empty() || KEY_BYTES_MAX < key.len() || !is_key {
            bail!("the key of line {number} cannot be sent in a header: correct it");
        }
        lines.push(Line { number, name, key, tier });
    }
    Ok(lines)
}

/// How many are new, and how many their owner has already.
fn put(keys: &mut KeyFile, lines: &[Line<'_>]) -> Result<(usize, usize)> {
    let owners = keys.owners.iter();
    let listed = owners.flat_map(|(name, owner)| owner.keys.iter().map(move |it| (it.hash, name)));
    let mut known: HashMap<KeyHash, String> =
        listed.map(|(hash, name)| (hash, name.clone())).collect();
    let mut new = 0;
    for line in lines {
        let hash = KeyHash::of(line.key.as_bytes());
        match known.insert(hash, line.name.to_owned()) {
            Some(name) if name == line.name => continue,
            Some(_) => bail!("the key of line {} has another name already", line.number),
            None => {}
        }
        let owner = keys.owners.entry(line.name.to_owned()).or_default();
        if owner.keys.is_empty() {
            owner.tier = line.tier.map(ToOwned::to_owned);
        } else if line.tier.is_some() && owner.tier.as_deref() != line.tier {
            bail!("the name of line {} has keys of another tier: it has one", line.number);
        }
        let key = ListedKey { hash, expires: None };
        give(line.name, owner, key).with_context(|| format!("line {}", line.number))?;
        new += 1;
    }
    Ok((new, lines.len() - new))
}
