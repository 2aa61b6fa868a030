//! Resident bytes a key, each subject alone in a process of its own.
//!
//! The child grows one subject from empty, key by key, and keeps no key itself: the growth of
//! its resident set is the subject's.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::figure::{Figure, Target, Unit, own_algorithm};
use crate::key::Key;
use crate::report::{Report, Table};
use crate::setting::{Effort, Form, Quota, Setting};
use crate::statistics::float;
use crate::status;
use crate::subject::{CONTENDERS, Contender};

pub(crate) fn run(effort: Effort) -> Result<Report> {
    let mut report = Report::new(ABOUT);
    let head = ["subject", "keys", "bytes/key", "bytes/key at the peak"];
    let mut table = Table::new("Memory".to_owned(), &head);
    for contender in CONTENDERS.iter().filter(|contender| contender.memory_keys > 0) {
        let keys = effort.of(contender.memory_keys);
        let weight = weigh_in_child(contender, keys)?;
        table.add(vec![
            contender.name.to_owned(),
            keys.to_string(),
            format!("{:.1}", weight.per_key),
            format!("{:.1}", weight.per_key_peak),
        ]);
        report.figures.extend(figure(contender, &weight));
    }
    report.tables.push(table);
    Ok(report)
}

/// What the child does: grows the subject and prints three numbers of bytes.
pub(crate) fn child(name: &str, keys: u64) -> Result<String> {
    let contender = CONTENDERS.iter().find(|contender| contender.name == name);
    let contender = contender.with_context(|| format!("no such subject: `{name}`"))?;
    let mut key = Key::numbered(0);
    let before = status::process_bytes("VmRSS")?;
    let subject = (contender.make)(&Setting { keys, quota: Quota::MANY, form: Form::Text });
    for number in 0..keys {
        key.renumber(number);
        subject.decide(&key);
    }
    let after = status::process_bytes("VmRSS")?;
    let peak = status::process_bytes("VmHWM")?;
    drop(subject);
    Ok(format!("{before} {after} {peak}"))
}

struct Weight {
    per_key: f64,
    per_key_peak: f64,
}

fn weigh_in_child(contender: &Contender, keys: u64) -> Result<Weight> {
    let output = Command::new(env::current_exe()?)
        .args([CHILD, contender.name, &keys.to_string()])
        .output()
        .context("cannot start a process for the subject")?;
    if !output.status.success() {
        bail!("{} failed: {}", contender.name, String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let bytes: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("not a number")?;
    let [before, after, peak] = bytes[..] else { bail!("three numbers expected: `{text}`") };
    Ok(Weight {
        per_key: float(after.saturating_sub(before)) / float(keys),
        per_key_peak: float(peak.saturating_sub(before)) / float(keys),
    })
}

fn figure(contender: &Contender, weight: &Weight) -> Option<Figure> {
    let algorithm = own_algorithm(contender.name)?;
    let (_, target) = TARGETS.iter().find(|(name, _)| *name == algorithm)?;
    Some(Figure {
        name: format!("memory/{algorithm}"),
        value: weight.per_key,
        unit: Unit::BytesPerKey,
        target: Target::AtMost(*target),
    })
}

/// The hidden command that the children run.
pub(crate) const CHILD: &str = "memory-child";

const ABOUT: &str = "Resident bytes a key, grown from empty one key at a time through the API \
    that users call, each subject in its own process. \
    The peak includes what a growing table holds twice. \
    The floor and throttlecrab's adaptive store are not grown but sized for their keys; \
    the sketch keeps none.";
const TARGETS: [(&str, f64); 4] =
    [("gcra", 32.0), ("token-bucket", 48.0), ("fixed-window", 48.0), ("sliding-window", 48.0)];
