//! Whether a policy can be used.

use std::path::Path;

use serde_json::json;
use tidegate_config::{LoadError, Loaded, Report, Rules, policy_files};

use super::envoy;
use super::says::Says;

/// Says what is wrong with the policy at `path`, and that it was looked at.
pub(super) fn check(path: &Path, says: &mut Says) {
    let Some(loaded) = load(path, says) else { return };
    let rules = loaded.rules.rules().len();
    let files = policy_files(path).map_or(1, |files| files.len());
    let counted = if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
    let counted = match files {
        _ if !path.is_dir() => counted,
        1 => format!("{counted} in 1 file"),
        files => format!("{counted} in {files} files"),
    };
    says.text(&format!("{}: {counted}, {}\n", path.display(), loaded.report.summary()));
    summary(path, Some(rules), &loaded.report, says);
}

/// Reads the policy at `path`, and says what is wrong with it.
pub(super) fn load(path: &Path, says: &mut Says) -> Option<Loaded> {
    match Rules::from_path(path) {
        Ok(loaded) => {
            says.report(&loaded.report);
            Some(loaded)
        }
        Err(LoadError::Wrong(_)) if envoy::is_meant(path) => {
            let shown = path.display();
            let message = format!("`{shown}` is configuration of envoyproxy/ratelimit");
            let help = format!(
                "check it with `tidegate check --envoy-config {shown}`, and serve it with \
                 `tidegate serve --envoy-config {shown}`"
            );
            says.error(path, &message, &help);
            None
        }
        Err(error) => {
            if let Some(report) = says.load_error(path, &error) {
                says.text(&format!("{}: {}\n", path.display(), report.summary()));
                summary(path, None, report, says);
            }
            None
        }
    }
}

fn summary(path: &Path, rules: Option<usize>, report: &Report, says: &mut Says) {
    says.value(&json!({
        "type": "policy",
        "path": path.display().to_string(),
        "rules": rules,
        "errors": report.errors(),
        "warnings": report.warnings(),
    }));
}
