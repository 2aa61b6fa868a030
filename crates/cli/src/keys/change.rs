//! `add` and `revoke`.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tidegate_config::{KeyFile, KeyHash, KeyOwner, ListedKey};
use tidegate_core::Tick;

use super::file::{self, Begins};
use super::{Add, Expires, fresh};
use crate::done::Done;

pub(super) fn add(path: &Path, add: &Add, now: Tick) -> Result<Done> {
    let expires = add.expires.map(|expires| match expires {
        // In whole seconds, as people write it.
        Expires::After(span) => {
            Tick::from_micros(now.after(span).get().div_ceil(1_000_000).saturating_mul(1_000_000))
        }
        Expires::At(at) => at,
    });
    if expires.is_some_and(|at| at <= now) {
        bail!("the key would have expired already: give a later time");
    }
    let key = fresh::key().context("the system has no random numbers")?;
    let listed = ListedKey { hash: KeyHash::of(key.as_bytes()), expires };
    let about = file::change(path, Begins::Yes, |keys| {
        let owner = keys.owners.entry(add.name.clone()).or_default();
        describe(owner, add)?;
        if KeyFile::KEYS_EACH_MAX <= owner.keys.len() {
            owner.keys.retain(|key| key.expires.is_none_or(|expires| now < expires));
        }
        give(&add.name, owner, listed)?;
        Ok(owner.tier.as_ref().map_or(String::new(), |tier| format!(", of tier {tier}")))
    })?;
    let until = expires.map(|at| format!(", until {}", KeyFile::moment_text(at)));
    let err = format!(
        "`{}` has the key {}{about}{}. It is shown this once, and kept nowhere:\n",
        add.name,
        listed.hash.id(),
        until.unwrap_or_default(),
    );
    Ok(Done { out: format!("{key}\n"), err, is_bad: false })
}

/// Writes down what is said of the owner. All keys of a name have one tier, so it is not changed in
/// passing.
fn describe(owner: &mut KeyOwner, add: &Add) -> Result<()> {
    if !owner.keys.is_empty()
        && let Some(tier) = &add.tier
        && owner.tier.as_ref() != Some(tier)
    {
        let known = owner.tier.as_deref().unwrap_or("none");
        bail!(
            "`{}` has keys of another tier ({known}), and one for all of them: leave --tier out, \
             or change the tier in the file",
            add.name
        );
    }
    if add.tier.is_some() {
        owner.tier.clone_from(&add.tier);
    }
    if add.about.is_some() {
        owner.about.clone_from(&add.about);
    }
    for pair in &add.attribute {
        if ["name", "tier"].contains(&&*pair.name) || !KeyFile::is_text(&pair.value) {
            bail!("`{}` cannot be an attribute: use --tier for the tier", pair.name);
        }
        owner.attributes.insert(pair.name.clone(), pair.value.clone());
    }
    if KeyFile::ATTRIBUTES_MAX < owner.attributes.len() {
        bail!("`{}` has more than {} attributes", add.name, KeyFile::ATTRIBUTES_MAX);
    }
    Ok(())
}

/// Gives a key to an owner.
pub(super) fn give(name: &str, owner: &mut KeyOwner, key: ListedKey) -> Result<()> {
    if KeyFile::KEYS_EACH_MAX <= owner.keys.len() {
        let most = KeyFile::KEYS_EACH_MAX;
        bail!("`{name}` has {most} keys already: revoke one of them first");
    }
    owner.keys.push(key);
    Ok(())
}

pub(super) fn revoke(path: &Path, which: &str) -> Result<Done> {
    let out = file::change(path, Begins::No, |keys| {
        let id = which.to_ascii_lowercase();
        let has_id = |key: &ListedKey| key.hash.id() == id;
        let of_id = keys.owners.iter().find(|(_, owner)| owner.keys.iter().any(has_id));
        let of_id = of_id.map(|(name, _)| name.clone());
        match (keys.owners.contains_key(which), of_id) {
            (true, Some(other)) => bail!(
                "`{which}` is a name, and the id of a key of `{other}`: remove it from the file"
            ),
            (true, None) => {
                let owner = keys.owners.remove(which).unwrap_or_default();
                let count = owner.keys.len();
                let word = if count == 1 { "key" } else { "keys" };
                Ok(format!("`{which}` had {count} {word}, and has none now\n"))
            }
            (false, Some(name)) => {
                let owner = keys.owners.entry(name.clone()).or_default();
                owner.keys.retain(|key| !has_id(key));
                let left = owner.keys.len();
                if left == 0 {
                    keys.owners.remove(&name);
                }
                Ok(format!("the key {id} of `{name}` is revoked; {left} left\n"))
            }
            (false, None) => bail!(
                "there is no name and no key `{which}`: `tidegate keys list` shows what there is"
            ),
        }
    })?;
    Ok(Done::good(out))
}
