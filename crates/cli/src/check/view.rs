//! What a policy does with a request, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tidegate_core::Verdict;
use tidegate_gate::{Admission, Reason};
use tidegate_sim::chart::words::{grouped, period, spaced};

use super::request::{Counts, Part, Row, Seen, Shared};

const NOTE: &str = "* until the response says otherwise\n";

/// For people: who asks, what each rule does, and what comes of it.
pub(super) fn text(seen: &Seen<'_>) -> String {
    let mut facts = vec![("request", seen.line.clone()), ("address", seen.address.clone())];
    for (name, parts) in &seen.identities {
        let parts = if parts.is_empty() { "nobody".to_owned() } else { parts.join(" + ") };
        facts.push((name, parts));
    }
    facts.extend(seen.tier.iter().map(|tier| ("tier", tier.clone())));
    facts.extend(seen.share.iter().map(|share| ("share", share_of(share))));
    let mut told = vec![("verdict", verdict(seen.admission))];
    let mut name = "headers";
    seen.admission.fields(|field, value| {
        told.push((std::mem::take(&mut name), format!("{}: {value}", field.name())));
    });
    if !seen.admission.verdict().passes() {
        told.push(("body", seen.admission.problem()));
    }
    let is_open = |row: &Row| matches!(row, Row::Counts(counts) if counts.is_open);
    let note = if seen.rows.iter().any(is_open) { NOTE } else { "" };
    format!("{}\n{}{note}\n{}", labelled(&facts), table(&seen.rows), labelled(&told))
}

/// What a request waits for, and in whose name.
fn share_of(share: &Shared) -> String {
    let Shared { name, by, weight, class, cost, wait } = share;
    let (by, wait) = (by.join(", then "), spaced(*wait));
    format!("{name}, by {by}, weight {weight}, class {class}, cost {cost}, for at most {wait}")
}

/// Names, and what stands beside them.
fn labelled(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {value}\n");
    lines.iter().map(line).collect()
}

/// One line for each limit that counts the request, and for each rule that does not.
fn table(rows: &[Row]) -> String {
    let head = ["rule", "cost ", "limit", "algorithm", "key"].map(str::to_owned);
    let counted = rows.iter().filter_map(|row| match row {
        Row::Counts(counts) => Some(cells(counts)),
        Row::Other { .. } => None,
    });
    let counted: Vec<[String; 5]> = counted.collect();
    let names = rows.iter().map(|row| match row {
        Row::Counts(counts) => counts.name.chars().count(),
        Row::Other { rule, .. } => rule.chars().count(),
    });
    let mut widths = head.each_ref().map(|name| name.chars().count());
    for row in &counted {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths[0] = names.max().unwrap_or(0).max(8);
    let mut counted = counted.iter();
    let mut text = if counted.len() == 0 { String::new() } else { aligned(&head, &widths) };
    for row in rows {
        match row {
            Row::Counts(_) => text.extend(counted.next().map(|row| aligned(row, &widths))),
            Row::Other { rule, why, .. } => {
                let _ = writeln!(text, "{rule:0$}  {why}", widths[0]);
            }
        }
    }
    text
}

fn aligned(row: &[String; 5], widths: &[usize; 5]) -> String {
    let [name, cost, limit, algorithm, counts] = row;
    let [w0, w1, w2, w3, _] = widths;
    let line = format!("{name:w0$}  {cost:>w1$} {limit:w2$}  {algorithm:w3$}  {counts}");
    format!("{}\n", line.trim_end())
}

fn cells(counts: &Counts) -> [String; 5] {
    // The mark stands beside the column of numbers.
    let cost =
        if counts.is_open { format!("{}*", counts.cost) } else { format!("{} ", counts.cost) };
    let limit = match counts.part {
        // Of what is saved up, and of how fast it may go, the file says only what they are made of.
        Part::Whole => counts.written.clone(),
        Part::Saved => format!("{}, saves up to {}", counts.written, grouped(counts.limit.into())),
        Part::Peak(quota) => {
            let (cells, burst) = (grouped(quota.cells().into()), grouped(counts.limit.into()));
            format!("{cells} per {}, burst {burst}", period(quota.per()))
        }
    };
    let mut algorithm = counts.kind.name().to_owned();
    if !counts.variant.is_empty() {
        let _ = write!(algorithm, ", {}", counts.variant);
    }
    let mut key = counts.key.join(" + ");
    if key.is_empty() {
        "everybody together".clone_into(&mut key);
    }
    if counts.is_shadow {
        key += " (in shadow)";
    }
    [counts.name.clone(), cost, limit, algorithm, key]
}

fn verdict(admission: &Admission) -> String {
    let refused = |word: &str| format!("{word}, with status {}", admission.status());
    let said = match (admission.reason(), admission.verdict()) {
        (Reason::Blocked, _) => refused("block"),
        (Reason::LengthRequired, _) => refused("never, since it does not say its length"),
        (Reason::UnknownKey, _) => refused("unknown key"),
        (Reason::Unlimited, Verdict::Allow) => {
            format!("allow, as `{}` says", admission.stopped_by().unwrap_or_default())
        }
        (_, Verdict::Allow) => "allow".to_owned(),
        (_, Verdict::Delay { by }) => format!("delay by {}", spaced(by)),
        (_, Verdict::Deny { .. }) => refused("deny"),
        (_, Verdict::Never) => refused("never"),
    };
    let shadow = admission.each().filter(|it| it.is_shadow && !it.decision.verdict.passes());
    let shadow: Vec<String> = shadow.map(|answer| answer.name()).collect();
    let shadow = match &shadow[..] {
        [] => String::new(),
        names => format!("; {} would refuse it, but in shadow", names.join(" and ")),
    };
    let fresh = if admission.each().next().is_some() { ", if nothing has been used" } else { "" };
    format!("{said}{fresh}{shadow}")
}

/// For programs.
pub(super) fn json(seen: &Seen<'_>) -> Value {
    let identities = seen.identities.iter().map(|(name, parts)| (name.clone(), json!(parts)));
    let mut headers = Map::new();
    seen.admission.fields(|field, value| {
        headers.insert(field.name().to_owned(), json!(value));
    });
    let (word, wait) = match (seen.admission.reason(), seen.admission.verdict()) {
        (Reason::Blocked, _) => ("block", None),
        (Reason::UnknownKey, _) => ("unknown-key", None),
        (_, Verdict::Allow) => ("allow", None),
        (_, Verdict::Delay { by }) => ("delay", Some(by)),
        (_, Verdict::Deny { retry_after }) => ("deny", Some(retry_after)),
        (_, Verdict::Never) => ("never", None),
    };
    json!({
        "type": "request",
        "request": seen.line,
        "address": seen.address,
        "identities": identities.collect::<Map<_, _>>(),
        "tier": seen.tier,
        "share": seen.share.as_ref().map(|share| json!({
            "name": share.name,
            "by": share.by,
            "weight": share.weight,
            "class": share.class,
            "cost": share.cost,
            "wait_us": share.wait.get(),
        })),
        "rules": seen.rows.iter().map(row).collect::<Vec<_>>(),
        "verdict": word,
        "wait_us": wait.map(tidegate_core::Span::get),
        "headers": headers,
    })
}

fn row(row: &Row) -> Value {
    match row {
        Row::Counts(counts) => json!({
            "name": counts.name,
            "does": if counts.is_shadow { "counts-in-shadow" } else { "counts" },
            "cost": counts.cost,
            "limit": counts.limit,
            "window_us": counts.window.get(),
            "quota": counts.written,
            "algorithm": counts.kind.name(),
            "variant": counts.variant,
            "key": counts.key,
        }),
        Row::Other { rule, does, why } => json!({ "name": rule, "does": does, "why": why }),
    }
}
