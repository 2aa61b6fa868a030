//! `limit`, `burst`, `credits`: how much.

use std::fmt::Write as _;

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Credits, Kind, Policy, Quota, Span as Time};

use super::Reading;
use super::tables::CREDITS;
use crate::problem::Span;
use crate::quantity::{self, Amount, Limit, Period};
use crate::read::Fields;
use crate::rule::{Quotas, Timed, Unit, When};
use crate::source::{Node, Value};
use crate::zone::Zone;

/// What all quotas of a rule have in common.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    /// How many bytes make a cell.
    pub(super) per_cell: u32,
    pub(super) zone: Option<Zone>,
    pub(super) lease: Time,
    pub(super) max_wait: Option<Time>,
    /// With how many times the limit they may be spent.
    pub(super) credits: Option<(Credits, u32)>,
}

impl Reading<'_> {
    pub(super) fn read_credits(&mut self, node: &Node, kind: Kind) -> Option<(Credits, u32)> {
        let fields = Fields::of(node, &CREDITS, &mut self.problems)?;
        if !matches!(kind, Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket) {
            let problem = self.problems.error(node.at, format!("`{kind}` saves no credits"));
            problem.help("use `algorithm: token-bucket`");
            return None;
        }
        let saved_for = fields.required("for", &mut self.problems)?;
        let saved_for = self.read_duration(saved_for, "for")?;
        let rate = fields.required("rate", &mut self.problems)?;
        let text = rate.scalar("rate", &mut self.problems)?;
        match quantity::factor(&text) {
            Ok(factor) => Some((Credits::new(saved_for, factor), factor)),
            Err(misread) => {
                self.misread(rate.at, misread);
                None
            }
        }
    }

    /// The quota of a tier or a key.
    pub(super) fn read_quota(
        &mut self,
        node: &Node,
        burst: Option<&Node>,
        measures: &Measures,
    ) -> Option<Quotas> {
        if let Value::List(_) = node.value {
            let problem = self.problems.error(node.at, "`limit` takes one limit, not a list");
            problem.help("write a rule for each: all that match are judged together");
            return None;
        }
        let text = node.scalar("limit", &mut self.problems)?;
        let limit = match quantity::limit(&text) {
            Ok(limit) => limit,
            Err(misread) => {
                let is_number = quantity::count(&text).is_ok();
                if is_number && measures.kind == Kind::Concurrency {
                    let problem =
                        self.problems.error(node.at, "`concurrency` limits what is in flight");
                    problem.help(format!("write `{text} in flight`"));
                } else {
                    self.misread(node.at, misread);
                }
                return None;
            }
        };
        let burst = match burst {
            Some(node) => Some(self.read_burst(node, measures.kind)?),
            None => None,
        };
        match limit {
            Limit::Block => Some(Quotas::Block),
            Limit::Unlimited => Some(Quotas::Unlimited),
            Limit::InFlight { cells } => self.in_flight(node.at, cells, measures),
            Limit::Rate { amount, per } => self.rate(node.at, &amount, per, burst, measures),
        }
    }

    pub(super) fn read_burst(&mut self, node: &Node, kind: Kind) -> Option<u32> {
        let has_burst =
            matches!(kind, Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket | Kind::LeakyQueue);
        if !has_burst {
            let problem = self.problems.error(node.at, format!("`{kind}` has no burst"));
            problem.help("leave it out, or use `algorithm: token-bucket`");
            return None;
        }
        let cells = self.read_cells(node, "burst")?;
        if cells == 0 {
            let problem = self.problems.error(node.at, "a burst of 0 lets nothing pass");
            problem.help("give at least 1, or leave it out");
            return None;
        }
        Some(cells)
    }

    fn read_cells(&mut self, node: &Node, what: &str) -> Option<u32> {
        let text = node.scalar(what, &mut self.problems)?;
        let count = match quantity::count(&text) {
            Ok(count) => count,
            Err(misread) => {
                self.misread(node.at, misread);
                return None;
            }
        };
        self.cells(node.at, count)
    }

    pub(super) fn cells(&mut self, at: Span, count: u64) -> Option<u32> {
        let cells = u32::try_from(count).ok();
        if cells.is_none() {
            let message = format!("`{count}` is more than can be counted: at most `{}`", u32::MAX);
            self.problems
                .error(at, message)
                .help("write a smaller number; bytes can also be counted in `unit: kB`");
        }
        cells
    }

    fn in_flight(&mut self, at: Span, cells: u64, measures: &Measures) -> Option<Quotas> {
        let cells = self.cells(at, cells)?;
        if measures.kind != Kind::Concurrency {
            let message = format!("`{}` does not count what is in flight", measures.kind);
            self.problems.error(at, message).help("use `algorithm: concurrency`");
            return None;
        }
        let (quota, window) = (Quota::in_flight(cells, measures.lease), measures.lease);
        let policy = When::Always(self.policy(at, Kind::Concurrency, quota)?);
        Some(judged(Timed { part: "", policy, quota, window }))
    }

    fn rate(
        &mut self,
        at: Span,
        amount: &Amount,
        per: Period,
        burst: Option<u32>,
        measures: &Measures,
    ) -> Option<Quotas> {
        if measures.kind == Kind::Concurrency {
            let problem = self.problems.error(at, "concurrency has no period");
            problem.help(format!("write `{} in flight`", amount.cells));
            return None;
        }
        let cells = self.amount(at, amount, measures)?;
        if Self::is_calendar(per, measures) {
            let zone = measures.zone.clone().unwrap_or_else(Zone::utc);
            return self.calendar(at, cells, per, zone);
        }
        let Some(span) = per.span() else {
            let problem = self.problems.error(at, "months and years differ in length");
            problem.help("use `algorithm: fixed-window`, which follows the calendar");
            return None;
        };
        let mut quota = Quota::new(cells, span);
        quota = burst.map_or(quota, |burst| quota.burst(burst));
        if measures.kind == Kind::LeakyQueue
            && let Some(wait) = measures.max_wait
        {
            quota = waits_at_most(quota, wait);
        }
        if let Some(credits) = measures.credits {
            return self.with_credits(at, quota, credits, measures.kind);
        }
        let policy = self.policy(at, measures.kind, quota)?;
        Some(judged(timed("", policy, quota)))
    }

    /// Cells of an amount in the rule's unit.
    fn amount(&mut self, at: Span, amount: &Amount, measures: &Measures) -> Option<u32> {
        let per_cell = u64::from(measures.per_cell);
        let cells = match (&amount.unit, &measures.unit) {
            (quantity::Unit::Bytes, Unit::Bytes(_)) => {
                if !amount.cells.is_multiple_of(per_cell) {
                    let message = format!("a limit of whole units of {per_cell} bytes is needed");
                    self.problems.error(at, message).help("round it, or choose a smaller `unit`");
                    return None;
                }
                amount.cells / per_cell
            }
            (quantity::Unit::Bytes, _) => {
                self.problems.error(at, "this rule does not count bytes").help("add `unit: B`");
                return None;
            }
            (quantity::Unit::Named(said), Unit::Named(unit)) if **said != **unit => {
                let message = format!("the limit counts `{said}`, but the rule counts `{unit}`");
                self.problems.error(at, message).help(format!("write `unit: {said}`"));
                return None;
            }
            (quantity::Unit::Named(said), Unit::Requests | Unit::Bytes(_) | Unit::InFlight) => {
                let message = format!("this rule does not count `{said}`");
                self.problems.error(at, message).help(format!("write `unit: {said}`"));
                return None;
            }
            _ => amount.cells,
        };
        self.cells(at, cells)
    }

    /// Whether a window is one of the calendar: where a time zone is given, and for months and
    /// years.
    fn is_calendar(per: Period, measures: &Measures) -> bool {
        measures.kind == Kind::FixedWindow && (measures.zone.is_some() || per.span().is_none())
    }

    fn calendar(&mut self, at: Span, limit: u32, per: Period, zone: Zone) -> Option<Quotas> {
        let Some(unit) = per.calendar() else {
            let problem = self.problems.error(at, "a calendar has no windows of this length");
            problem.help("use one of min, h, day, week, month, year, or leave `time_zone` out");
            return None;
        };
        let policy = When::Calendar { limit, unit, zone };
        let window = unit.about();
        Some(judged(Timed { part: "", policy, quota: Quota::new(limit, window), window }))
    }

    /// Two buckets that judge together: one saves unused quota, the other says how fast it may go.
    fn with_credits(
        &mut self,
        at: Span,
        quota: Quota,
        (credits, factor): (Credits, u32),
        kind: Kind,
    ) -> Option<Quotas> {
        let base = self.policy(at, kind, quota)?;
        let Ok([saves, bounds]) = credits.policies(&base) else {
            let problem = self.problems.error(at, "credits come to more than can be counted");
            problem.help("save for a shorter time, or spend at a lower rate");
            return None;
        };
        Some(Quotas::Judged(smallvec![
            timed("", saves, quota),
            timed("peak", bounds, Quota::new(quota.cells().saturating_mul(factor), quota.per()))
        ]))
    }

    pub(super) fn policy(&mut self, at: Span, kind: Kind, quota: Quota) -> Option<Policy> {
        match Policy::new(kind, quota) {
            Ok(policy) => Some(policy),
            Err(error) => {
                self.problems.error(at, error.to_string());
                None
            }
        }
    }
}

/// A queue no longer than what leaves it in time.
fn waits_at_most(quota: Quota, wait: Time) -> Quota {
    let held = u128::from(quota.cells()) * u128::from(wait.get());
    let held = held / u128::from(quota.per().get().max(1));
    let held = u32::try_from(held).unwrap_or(u32::MAX).saturating_add(1);
    quota.burst(quota.burst_asked().map_or(held, |burst| burst.min(held)))
}

/// A limit as the file says it, with what belongs to it.
pub(super) fn written(limit: &Node, burst: Option<&Node>, measures: &Measures) -> Box<str> {
    let mut text = typed(limit);
    if text == "unlimited" || text == "block" {
        return text.into();
    }
    if let Some(burst) = burst {
        let _ = write!(text, ", burst {}", typed(burst));
    }
    if let Some(zone) = &measures.zone {
        let _ = write!(text, ", {}", zone.name());
    }
    text.into()
}

fn typed(node: &Node) -> String {
    match &node.value {
        Value::Integer(number) => number.to_string(),
        _ => node.plain_text().trim().to_owned(),
    }
}

fn judged(one: Timed) -> Quotas {
    Quotas::Judged(SmallVec::from_iter([one]))
}

/// A policy with the window that clients see: for a bucket, the time in which it fills.
fn timed(part: &'static str, policy: Policy, quota: Quota) -> Timed {
    let window = policy.grains().map_or(quota.per(), crate::scale::fills);
    Timed { part, policy: When::Always(policy), quota, window }
}
