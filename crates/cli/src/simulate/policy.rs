//! `tidegate simulate --policy`: the rules of a file, each by itself, under every kind of traffic.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_config::{Rule, Rules, Timed, Variant};
use tidegate_core::{Kind, Policy, Quota, Span, Tick};
use tidegate_sim::{Comparison, Scenario, Shape};

use super::usage;
use crate::failure::Failure;
use crate::{json, table};

/// A quota is asked for in about so many requests a period, each of which costs accordingly: one
/// of bytes by the million would take too long.
const REQUESTS: u32 = 1_000;

/// What of the traffic can be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) seed: u64,
    pub(super) tenants: u32,
}

/// A limit of the file, and what it does under each kind of traffic.
struct Limit {
    name: String,
    written: String,
    cost: u32,
    comparisons: Vec<Comparison>,
}

pub(super) fn run(path: &Path, traffic: Traffic, is_json: bool) -> Result<String, Failure> {
    let loaded = Rules::from_path(path).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut limits = Vec::new();
    for (rule, variant, timed) in limits_of(&loaded.rules) {
        limits.push(simulated(rule, variant, timed, traffic)?);
    }
    if is_json {
        let limits: Vec<Value> = limits.iter().map(value).collect();
        return Ok(format!(
            "{:#}\n",
            json!({ "policy": path.display().to_string(), "limits": limits })
        ));
    }
    let sections: Vec<String> = limits.iter().map(section).collect();
    Ok(format!(
        "{}: each limit by itself, for one client (noisy-tenant: {} clients), in virtual time.\n\n\
         {}\nThe columns are explained in `tidegate simulate --help`. What a request with your own \
         headers meets\nis shown by `tidegate check {0} --request 'GET /'`.\n",
        path.display(),
        traffic.tenants,
        sections.join("\n"),
    ))
}

fn limits_of(rules: &Rules) -> impl Iterator<Item = (&Rule, &Variant, &Timed)> {
    rules.rules().iter().flat_map(|rule| {
        rule.variants().iter().flat_map(move |variant| {
            variant.policies().iter().map(move |timed| (rule, variant, timed))
        })
    })
}

fn simulated(
    rule: &Rule,
    variant: &Variant,
    timed: &Timed,
    traffic: Traffic,
) -> Result<Limit, Failure> {
    let quota = timed.quota();
    let policy = policy(timed, quota)?;
    let cost = quota.cells().div_ceil(REQUESTS).min(policy.limit()).max(1);
    let hold = Span::from_micros(quota.per().get() / 5);
    let compared = |shape: Shape| {
        let tenants = if shape == Shape::NoisyTenant { traffic.tenants } else { 1 };
        let scenario = Scenario { shape, quota, cost, tenants, duration: None, seed: traffic.seed };
        Comparison::run(scenario, &[policy], hold).map_err(|error| {
            usage(format!("the limit `{}` of rule `{}`: {error}", variant.written(), rule.name()))
        })
    };
    let comparisons: Result<Vec<Comparison>, Failure> =
        Shape::ALL.into_iter().map(compared).collect();
    let mut name = rule.name().to_owned();
    if !timed.part().is_empty() {
        name = format!("{name}-{}", timed.part());
    }
    let id = variant.id();
    if !id.is_empty() {
        let (word, id) = id.strip_prefix('=').map_or(("tier", id), |key| ("for", key));
        name.extend([", ", word, " ", id]);
    }
    Ok(Limit { name, written: variant.written().to_owned(), cost, comparisons: comparisons? })
}

/// The policy; windows of a calendar are all as long as one of them is on average.
fn policy(timed: &Timed, quota: Quota) -> Result<Policy, Failure> {
    let policy = timed.policy(Tick::from_micros(0));
    let is_calendar = policy.kind() == Kind::FixedWindow;
    let plain = if is_calendar { Policy::new(Kind::FixedWindow, quota) } else { Ok(policy) };
    plain.map_err(|error| usage(error.to_string()))
}

fn section(limit: &Limit) -> String {
    let Limit { name, written, cost, comparisons } = limit;
    let Some(first) = comparisons.first().and_then(|it| it.reports.first()) else {
        return String::new();
    };
    let each = if *cost == 1 { String::new() } else { format!("; a request costs {cost}") };
    format!("{name}: {written} ({}{each})\n{}", first.kind, table::by_shape(comparisons))
}

fn value(limit: &Limit) -> Value {
    let shapes = limit.comparisons.iter().map(|it| json::json(it, None, &[]));
    json!({ "name": limit.name, "quota": limit.written, "shapes": shapes.collect::<Vec<_>>() })
}
