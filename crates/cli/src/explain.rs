//! `tidegate explain`: what an algorithm does and when to use it; what a warning is about.
//!
//! The texts are the documentation's own pages and the table of warnings, so there is only one of
//! each.

use anyhow::{Result, bail};
use tidegate_config::{Lint, did_you_mean};
use tidegate_core::Kind;

use crate::plain::plain;

/// Explain an algorithm or a warning.
///
/// Without a name it lists all algorithms and all warnings, one line each.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// An algorithm: token-bucket, gcra, leaky-bucket, leaky-queue, fixed-window, sliding-window,
    /// sliding-log or concurrency; or the name of a warning, such as unreachable-rule
    #[arg(value_name = "NAME", value_parser = named)]
    topic: Option<Topic>,
}

#[derive(Clone, Copy, Debug)]
enum Topic {
    Algorithm(Kind),
    Warning(Lint),
}

/// What to print.
pub(crate) fn run(args: Args) -> String {
    match args.topic {
        Some(Topic::Algorithm(kind)) => plain(page(kind)),
        Some(Topic::Warning(lint)) => about(lint),
        None => list(),
    }
}

fn named(name: &str) -> Result<Topic> {
    match (name.parse(), name.parse()) {
        (Ok(kind), _) => Ok(Topic::Algorithm(kind)),
        (_, Ok(lint)) => Ok(Topic::Warning(lint)),
        _ => {
            let names = Kind::ALL.iter().map(|kind| kind.name());
            let names = names.chain(Lint::ALL.iter().map(|lint| lint.name()));
            let begins = names.clone().find(|known| !name.is_empty() && known.starts_with(name));
            match did_you_mean(name, names).or(begins) {
                Some(near) => bail!("did you mean `{near}`?"),
                None => bail!("`tidegate explain` lists all algorithms and warnings"),
            }
        }
    }
}

fn about(lint: Lint) -> String {
    let (meaning, page) = (lint.meaning(), lint.page());
    plain(&format!(
        "# {lint}\n\n{meaning}\n\n{page}\n\nIf the warning describes what you want, write \
         `allow: {lint}` in the rule, or at the top of the file.\n"
    ))
}

fn list() -> String {
    let lines = Kind::ALL.map(|kind| format!("  {kind:14}  {}\n", summary(kind)));
    let lines = lines.concat();
    let warning = |lint: &Lint| format!("  {lint:18}  {}\n", lint.meaning());
    let warnings: String = Lint::ALL.iter().map(warning).collect();
    format!(
        "Algorithms:\n\n{lines}\nWarnings of `tidegate check`:\n\n{warnings}\nRead one with \
         `tidegate explain token-bucket`.\n"
    )
}

/// The first sentence of the page, below its title.
fn summary(kind: Kind) -> &'static str {
    page(kind).lines().skip(1).find(|line| !line.is_empty()).unwrap_or("")
}

fn page(kind: Kind) -> &'static str {
    match kind {
        Kind::Concurrency => include_str!("../../../docs/algorithms/concurrency.md"),
        Kind::FixedWindow => include_str!("../../../docs/algorithms/fixed-window.md"),
        Kind::Gcra => include_str!("../../../docs/algorithms/gcra.md"),
        Kind::LeakyBucket => include_str!("../../../docs/algorithms/leaky-bucket.md"),
        Kind::LeakyQueue => include_str!("../../../docs/algorithms/leaky-queue.md"),
        Kind::SlidingLog => include_str!("../../../docs/algorithms/sliding-log.md"),
        Kind::SlidingWindow => include_str!("../../../docs/algorithms/sliding-window.md"),
        Kind::TokenBucket => include_str!("../../../docs/algorithms/token-bucket.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_the_same_sections() {
        for kind in Kind::ALL {
            let page = page(kind);
            let heads: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
            let title = format!("# {kind}");
            let expected = [
                &title,
                "## What it does",
                "## When to use it",
                "## When not",
                "## Example",
                "## State and cost",
            ];
            assert_eq!(heads, expected);
            assert!(summary(kind).ends_with('.') && summary(kind).len() <= 80);
        }
    }

    #[test]
    fn every_page_shows_a_policy_and_no_marks() {
        for kind in Kind::ALL {
            let (_, policy) = page(kind).split_once("```yaml\n").unwrap();
            let (policy, _) = policy.split_once("```").unwrap();
            let loaded = tidegate_config::Rules::from_text(policy).unwrap();
            assert_eq!(loaded.report.summary(), "no problems", "{kind}");
            assert_eq!(loaded.rules.rules()[0].variants()[0].policies()[0].kind(), kind);
            let shown = plain(page(kind));
            assert!(shown.contains("\n    rules:\n"), "{shown}");
            for mark in ["```", "\n#", "](", "tidegate_core"] {
                assert!(!shown.contains(mark), "{mark} in {shown}");
            }
        }
    }
}
