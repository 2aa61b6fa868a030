//! What a policy does with one request, and why: put together here, shown by `view`.

use std::path::Path;
use std::sync::Arc;

use tidegate_config::Sharing;
use tidegate_config::{Does, Explained, Facts, Planned, Request as _, Rules, Sample};
use tidegate_core::fair::Class;
use tidegate_core::{Kind, Quota, Span, Tick};
use tidegate_gate::{Admission, Gate};
use tidegate_store::{Clock as _, ManualClock, SystemClock};

use super::says::Says;
use super::{Args, policy, view};
use crate::failure::Failure;

/// What is known of a request, and what comes of it.
pub(super) struct Seen<'s> {
    pub(super) line: String,
    pub(super) address: String,
    /// Names of identities, and what each is made of.
    pub(super) identities: Vec<(String, Vec<String>)>,
    pub(super) tier: Option<String>,
    pub(super) rows: Vec<Row>,
    /// The share that it waits for, if one is for it.
    pub(super) share: Option<Shared>,
    pub(super) admission: &'s Admission,
}

/// A request's part in a share.
pub(super) struct Shared {
    pub(super) name: String,
    /// In whose name it waits, from the outside in.
    pub(super) by: Vec<String>,
    pub(super) weight: u32,
    pub(super) class: &'static str,
    pub(super) cost: u32,
    pub(super) wait: Span,
}

/// What a rule does with it.
pub(super) enum Row {
    /// One of its limits counts it.
    Counts(Box<Counts>),
    /// It does something else.
    Other { rule: String, does: &'static str, why: String },
}

/// A limit that counts it.
pub(super) struct Counts {
    pub(super) name: String,
    pub(super) is_shadow: bool,
    /// Whether the response has a say in the cost.
    pub(super) is_open: bool,
    pub(super) cost: u32,
    pub(super) limit: u32,
    pub(super) window: Span,
    /// The limit as the file says it.
    pub(super) written: String,
    pub(super) part: Part,
    pub(super) kind: Kind,
    /// A tier, or a key of its own.
    pub(super) variant: String,
    pub(super) key: Vec<String>,
}

/// What of a rule a limit is: a rule with `credits` has two.
pub(super) enum Part {
    Whole,
    /// The one that holds what is saved up.
    Saved,
    /// The one that bounds how fast that may go.
    Peak(Quota),
}

/// Tells what the policy at `path` does with a request.
pub(super) fn run(path: &Path, line: &str, args: &Args, says: &mut Says) -> Result<(), Failure> {
    let Some(loaded) = policy::load(path, says) else { return Ok(()) };
    let mut request = Sample::new(line);
    for header in &args.header {
        request = request.with_header(&header.name, &header.value);
    }
    for attribute in &args.attribute {
        request = request.with_attribute(&attribute.name, &attribute.value);
    }
    if let Some(peer) = args.from {
        request = request.from_peer(peer);
    }
    let clock = Arc::new(ManualClock::new());
    let now = args.at.unwrap_or_else(|| SystemClock::new().now());
    clock.advance(now.since(Tick::from_micros(0)));
    let gate = Gate::builder().rules(loaded.rules).clock(clock).open();
    let gate = gate.map_err(anyhow::Error::new)?;
    let rules = gate.rules();
    let facts = rules.facts(&request, now);
    let admission = gate.decide(&request);
    let seen = Seen {
        line: shown_line(&request),
        address: address(&rules, &facts, &request),
        identities: identities(&rules, &facts),
        tier: rules.tier(&facts).map(str::to_owned),
        rows: rules.explain(&facts).iter().flat_map(|it| rows(&rules, it, now)).collect(),
        share: rules.sharing_of(&facts).map(|sharing| shared(&rules, &facts, &sharing)),
        admission: &admission,
    };
    if says.is_json() {
        says.value(&view::json(&seen));
    } else {
        says.text(&view::text(&seen));
    }
    Ok(())
}

/// The request's first line; of its parameters only as much as is no secret.
fn shown_line(request: &Sample) -> String {
    let (method, path) = (request.method(), request.path());
    let Some(query) = request.query() else { return format!("{method} {path}") };
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) => {
            let attribute = tidegate_config::Attribute::Query(name.into());
            format!("{name}={}", attribute.shown(value.as_bytes()))
        }
        None => pair.to_owned(),
    });
    format!("{method} {path}?{}", shown.collect::<Vec<_>>().join("&"))
}

fn address(rules: &Rules, facts: &Facts<'_, '_>, request: &Sample) -> String {
    let (Some(client), Some(peer)) = (rules.client(facts), request.peer()) else {
        return "none; give one with --from".to_owned();
    };
    if client != peer.to_canonical() {
        let header = rules.forwarded_by().unwrap_or_default();
        return format!("{client}, by {header} past {peer}");
    }
    let headers = ["x-forwarded-for", "forwarded"];
    match headers.into_iter().find(|name| request.header(name).is_some()) {
        Some(name) if rules.forwarded_by().is_none() => {
            format!("{client}; {name} is ignored, as the policy has no trusted_proxies")
        }
        Some(name) if rules.forwarded_by() != Some(name) => {
            format!("{client}; {name} is ignored, as the policy does not go by it")
        }
        Some(name) => format!("{client}; {name} says nothing that is trusted"),
        None => client.to_string(),
    }
}

fn identities(rules: &Rules, facts: &Facts<'_, '_>) -> Vec<(String, Vec<String>)> {
    let identities = rules.identities(facts).into_iter();
    let shown = |(name, parts): (&str, tidegate_config::Parts<'_>)| {
        (name.to_owned(), parts.iter().map(|part| rules.shown(part)).collect())
    };
    identities.map(shown).collect()
}

fn shared(rules: &Rules, facts: &Facts<'_, '_>, sharing: &Sharing<'_>) -> Shared {
    let mut by = Vec::new();
    sharing.share.names(facts, |parts| {
        let shown: Vec<String> = parts.iter().map(|part| rules.shown(part)).collect();
        by.push(shown.join(" + "));
    });
    Shared {
        name: sharing.share.name().to_owned(),
        by,
        weight: sharing.weight.get(),
        class: match sharing.class {
            Class::Critical => "critical",
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        },
        cost: sharing.cost,
        wait: sharing.wait(facts),
    }
}

fn rows(rules: &Rules, explained: &Explained<'_>, now: Tick) -> Vec<Row> {
    let does = match &explained.does {
        Does::Counts(planned) => return counts(rules, planned, now),
        Does::Blocks => "blocks",
        Does::WantsLength => "wants-length",
        Does::HasNoLimit { .. } => "has-no-limit",
        Does::IsNotForIt { .. } => "is-not-for-it",
        Does::IsOutOfReach { .. } => "is-out-of-reach",
        Does::LetsPass => "lets-pass",
        Does::MissesItsKey { .. } => "misses-its-key",
        _ => "does-something-else",
    };
    let rule = explained.rule.name().to_owned();
    vec![Row::Other { rule, does, why: explained.to_string() }]
}

fn counts(rules: &Rules, planned: &Planned<'_>, now: Tick) -> Vec<Row> {
    let variant = &planned.rule.variants()[planned.variant];
    let rows = variant.policies().iter().map(|timed| {
        let dash = if timed.part().is_empty() { "" } else { "-" };
        Row::Counts(Box::new(Counts {
            name: format!("{}{dash}{}", planned.rule.name(), timed.part()),
            is_shadow: planned.is_shadow,
            is_open: planned.is_open,
            cost: planned.cost,
            limit: timed.policy(now).limit(),
            window: timed.window(),
            written: variant.written().to_owned(),
            part: match (timed.part(), variant.policies().len()) {
                ("", 1) => Part::Whole,
                ("", _) => Part::Saved,
                _ => Part::Peak(timed.quota()),
            },
            kind: timed.kind(),
            variant: variant.id().trim_start_matches('=').to_owned(),
            key: planned.key.iter().map(|part| rules.shown(part)).collect(),
        }))
    });
    rows.collect()
}
