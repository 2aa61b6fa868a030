//! `list`: names, tiers, and the ids of keys.

use tidegate_config::KeyFile;
use tidegate_core::Tick;

const HEAD: [&str; 4] = ["NAME", "TIER", "KEY-ID", "EXPIRES"];

pub(super) fn text(keys: &KeyFile, now: Tick) -> String {
    let mut rows = vec![HEAD.map(ToOwned::to_owned)];
    for (name, owner) in &keys.owners {
        for key in &owner.keys {
            let expires = match key.expires {
                None => "never".to_owned(),
                Some(at) if at <= now => format!("{} (over)", KeyFile::moment_text(at)),
                Some(at) => KeyFile::moment_text(at),
            };
            let tier = owner.tier.clone().unwrap_or_else(|| "-".to_owned());
            rows.push([name.clone(), tier, key.hash.id(), expires]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line: Vec<String> = cells.collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}
