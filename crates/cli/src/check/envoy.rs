//! Whether files of envoyproxy/ratelimit can be used, and how to know them.

use std::fs;
use std::path::Path;

use serde_json::json;
use tidegate_config::{EnvoyRules, policy_files};

use super::says::Says;

/// Says what is wrong with the files at `path`, and what is in them.
pub(super) fn check(path: &Path, says: &mut Says) {
    let shown = path.display();
    let mut value = json!({ "type": "envoy-config", "path": shown.to_string() });
    match EnvoyRules::from_path(path) {
        Ok(loaded) => {
            says.report(&loaded.report);
            let what = contents(&loaded.rules);
            says.text(&format!("{shown}: {what}, {}\n", loaded.report.summary()));
            value["domains"] = json!(loaded.rules.domains());
            value["limits"] = json!(loaded.rules.limits().len());
            value["errors"] = json!(0);
            value["warnings"] = json!(loaded.report.warnings());
        }
        Err(error) => {
            let Some(report) = says.load_error(path, &error) else { return };
            says.text(&format!("{shown}: {}\n", report.summary()));
            value["errors"] = json!(report.errors());
            value["warnings"] = json!(report.warnings());
        }
    }
    says.value(&value);
}

/// Such as `5 limits in the domains edge and internal`.
pub(crate) fn contents(rules: &EnvoyRules) -> String {
    let limits = match rules.limits().len() {
        1 => "1 limit".to_owned(),
        limits => format!("{limits} limits"),
    };
    match &rules.domains()[..] {
        [only] => format!("{limits} in the domain {only}"),
        [several @ .., last] if several.len() < SHOWN_MAX => {
            format!("{limits} in the domains {} and {last}", several.join(", "))
        }
        all => format!("{limits} in {} domains", all.len()),
    }
}

/// More names than that are only counted.
const SHOWN_MAX: usize = 5;

/// Whether a file at `path`, or one in that folder, is one of envoyproxy/ratelimit.
pub(super) fn is_meant(path: &Path) -> bool {
    let files = policy_files(path).unwrap_or_default();
    let is_one = |path: &Path| {
        let is_small = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() < BYTES_MAX);
        let read = || fs::read_to_string(path).unwrap_or_default();
        let text = if is_small { read() } else { String::new() };
        let has = |start: &str| text.lines().any(|line| line.starts_with(start));
        has("domain:") && (has("descriptors:") || !has("rules:"))
    };
    files.iter().any(|path| is_one(path))
}

/// Larger files are not read twice.
const BYTES_MAX: u64 = 1 << 20;
