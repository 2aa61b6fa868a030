//! `cargo xtask campaign`: things that go wrong for as long as a campaign takes, and what is left
//! of what was promised. The programs are the benchmark's, which measures; this starts them.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::bench;

/// Every campaign there is, each a command of the benchmark.
const CAMPAIGNS: [&str; 1] = ["hostile"];

/// Runs one campaign; its output and its exit code are its own.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let known = CAMPAIGNS.join(", ");
    match args.first() {
        Some(name) if CAMPAIGNS.contains(&name.as_str()) => {}
        Some(name) => bail!("no such campaign: `{name}`; there is: {known}"),
        None => bail!("campaign needs to know which: {known}"),
    }
    bench::build_server(root)?;
    bench::measure(root, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(args: &[&str], message: &str) {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let refused = run(Path::new("."), &args).expect_err("this must be refused");
        assert_eq!(refused.to_string(), message);
    }

    #[test]
    fn what_is_no_campaign_is_refused_before_building() {
        refuses(&[], "campaign needs to know which: hostile");
        refuses(&["friendly"], "no such campaign: `friendly`; there is: hostile");
    }
}
