//! A policy file in front of a service: what it costs beside no limit and beside a peer's, and what
//! ten thousand rules cost beside ten.

mod child;
mod load;
mod rules;
mod service;

use anyhow::Result;

pub(crate) use self::child::CHILD;
use crate::report::Report;
use crate::setting::Effort;

/// Serves one of the contenders until it is killed.
pub(crate) use self::child::serve;

pub(crate) fn run(effort: Effort) -> Result<Report> {
    let mut report = Report::new(ABOUT);
    rules::add_to(&mut report, effort)?;
    service::add_to(&mut report, effort)?;
    Ok(report)
}

const ABOUT: &str = "An axum service that answers a small JSON over loopback, without a limit, \
    behind Tidegate's layer with three matching rules, and behind tower_governor with the same \
    three limits, which takes three layers, and with one; all with their headers. \
    Ours are five fields in every response, theirs are two; `legacy` is the dialect that is most \
    like theirs. \
    All are added to the router as axum's users add layers; one of ours is put around it, where \
    axum has nothing to box and to clone for it. \
    Two of ours have a share with room for everybody, with the rules and alone. \
    The service has the first core, and the load with 50 connections has the second, and never \
    sleeps: to wake it is no part of an answer. \
    Each takes turns with the service that has no limit, a tenth of a second at a time, and both \
    are started seven times; \
    \"of no limit\" is the median of the rounds' own ratios, and \"added\" that of the differences \
    in the service's processor time, the kernel's included. \
    Below that, one decision in this process by a policy of ten rules and of ten thousand, \
    of which the same three match.";
