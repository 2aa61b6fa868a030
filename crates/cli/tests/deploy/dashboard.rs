//! What the dashboard and the alerts ask for is what the server counts.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_testbed::{Http, Server};

use crate::stand::Tidegate;

const POLICY: &str = "rules: [{ name: a, limit: 1/s }]";

/// The names that begin as ours do, without what Prometheus appends to those of histograms.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("tidegate_"));
    words.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

/// Every family that the server tells of, with a store in this process or in Redis.
fn counted() -> BTreeSet<String> {
    let redis = Server::start().expect("Redis starts");
    let snapshot = ["--snapshot", "states", "--snapshot-every", "1s"];
    let memory = Tidegate::start(POLICY, &snapshot).expect("the server starts");
    let fleet = Tidegate::start(POLICY, &["--store", &redis.url()]).expect("the server starts");
    tidegate_testbed::until(crate::stand::SOON, "a snapshot was saved", || {
        Http::get(memory.http, "/metrics")
            .is_ok_and(|answer| answer.text().contains("snapshot_age"))
    })
    .expect("a snapshot is saved");
    let mut names = BTreeSet::new();
    for tidegate in [memory, fleet] {
        let text = Http::get(tidegate.http, "/metrics").expect("the server answers").text();
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        names.extend(families.filter_map(|line| Some(line.split(' ').next()?.to_owned())));
    }
    names
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let query = ["expr", "query"].into_iter().filter_map(|name| fields.get(name)?.as_str());
            found.extend(query.map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn all_that_is_shown_and_warned_of_is_counted() {
    let counted = counted();
    let dashboard = include_str!("../../../../deploy/grafana/tidegate.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut shown = Vec::new();
    queries(&dashboard, &mut shown);
    let shown = names_in(&shown.join(" "));
    let rules = include_str!("../../../../deploy/prometheus/alerts.yml");
    let rules: String = rules.lines().filter(|line| !line.contains("description:")).collect();
    let warned = names_in(&rules);
    assert!(10 < shown.len() && 5 < warned.len(), "{shown:?} {warned:?}");
    let asked: BTreeSet<String> = shown.union(&warned).cloned().collect();
    let unknown: Vec<&String> = asked.difference(&counted).collect();
    assert!(unknown.is_empty(), "nobody counts {unknown:?}");
    let forgotten: Vec<&String> = counted.difference(&shown).collect();
    assert!(forgotten.is_empty(), "the dashboard does not show {forgotten:?}");
    let page = include_str!("../../../../docs/operate.md");
    let (_, table) = page.split_once("<!-- metrics -->").unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let told = names_in(table);
    assert_eq!(told, counted, "docs/operate.md has another list");
}

#[test]
fn every_alert_has_a_runbook() {
    let rules = include_str!("../../../../deploy/prometheus/alerts.yml");
    let page = include_str!("../../../../docs/operate.md");
    let headings: Vec<&str> = page.lines().filter(|line| line.starts_with("### ")).collect();
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    assert!(8 < alerts.len(), "{alerts:?}");
    for alert in alerts {
        let name = format!("`{alert}`");
        assert!(headings.iter().any(|line| line.contains(&name)), "{alert} has no runbook");
    }
}
