//! `tidegate explain`: what an algorithm does, when to use it and when not.
//!
//! The texts are the documentation's own pages, so there is only one of each.

use tidegate_core::{Kind, UnknownKind};

/// What an algorithm does, when to use it, when not, and what it costs.
///
/// Without a name it lists all of them, one line each.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// The algorithm: token-bucket, gcra, leaky-bucket, leaky-queue, fixed-window,
    /// sliding-window, sliding-log or concurrency
    #[arg(value_name = "ALGORITHM", value_parser = named)]
    algorithm: Option<Kind>,
}

/// What to print.
pub(crate) fn run(args: Args) -> String {
    match args.algorithm {
        Some(kind) => page(kind).to_owned(),
        None => list(),
    }
}

fn named(name: &str) -> Result<Kind, UnknownKind> {
    name.parse()
}

fn list() -> String {
    let lines = Kind::ALL.map(|kind| format!("  {kind:14}  {}\n", summary(kind)));
    let lines = lines.concat();
    format!("The algorithms:\n\n{lines}\nRead one with `tidegate explain token-bucket`.\n")
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
}
