//! What the store has seen: keys and bytes here, answers and errors of Redis.

use tidegate_gate::{Gate, GateStats, RemoteStats};
use tidegate_store::RoundTrips;

use super::histogram::Reading;
use super::text::{Kind, Text};

pub(super) fn write(text: &mut Text, gate: &Gate) {
    let GateStats { keys, bytes, crowded, forgotten, store, .. } = gate.stats();
    let gauges = [
        ("tidegate_keys", "Keys that are remembered in this process.", keys as u64),
        ("tidegate_keys_max", "The most that are, of each size of state.", gate.keys_max() as u64),
        ("tidegate_store_bytes", "Bytes that they have in use.", bytes as u64),
    ];
    for (name, help, value) in gauges {
        text.family(name, Kind::Gauge, help);
        text.value(&[], value);
    }
    let counters = [
        ("tidegate_crowded_total", "Requests of keys that there was no room for.", crowded),
        ("tidegate_forgotten_total", "Keys that were forgotten as fresh.", forgotten),
    ];
    for (name, help, value) in counters {
        text.family(name, Kind::Counter, help);
        text.value(&[], value);
    }
    let help = "Nodes that share the quota while Redis does not answer.";
    text.family("tidegate_nodes", Kind::Gauge, help);
    text.value(&[], gate.nodes().into());
    // Also where there is no Redis: an alert on what is not there never fires.
    let store = store.unwrap_or_default();
    write_fallback(text, &store);
    write_written_off(text, &store);
    write_redis(text, &store);
}

/// Decisions that were made without Redis.
fn write_fallback(text: &mut Text, store: &RemoteStats) {
    let help = "Decisions that were made while Redis did not answer, by what decided.";
    text.family("tidegate_fallback_decisions_total", Kind::Counter, help);
    let counts = store.decisions;
    for (by, count) in [("local", counts.local), ("open", counts.open), ("closed", counts.closed)] {
        text.value(&[("by", by)], count);
    }
}

/// What will be missing in Redis.
fn write_written_off(text: &mut Text, store: &RemoteStats) {
    let help = "Cells that were let through without Redis and that it is never told of.";
    text.family("tidegate_written_off_cells_total", Kind::Counter, help);
    text.value(&[], store.decisions.written_off);
    let help = "Cells that were to be given back to Redis and perhaps never were.";
    text.family("tidegate_not_returned_cells_total", Kind::Counter, help);
    text.value(&[], store.decisions.not_returned);
}

fn write_redis(text: &mut Text, store: &RemoteStats) {
    let help = "Requests that Redis did not answer, by the reason.";
    text.family("tidegate_store_errors_total", Kind::Counter, help);
    for (kind, count) in store.errors.each() {
        text.value(&[("kind", kind)], count);
    }
    let help = "From a write to Redis until it was answered.";
    text.family("tidegate_store_latency_seconds", Kind::Histogram, help);
    let (bounds, buckets) = (&RoundTrips::BOUNDS, &store.round_trips.counts);
    text.histogram(&[], Reading { bounds, buckets, sum: store.round_trips.total });
    let help = "Servers that are left alone just now, because they failed several times in a row.";
    text.family("tidegate_store_resting", Kind::Gauge, help);
    text.value(&[], store.resting as u64);
    let help = "Servers of Redis that could not be reached since this process began.";
    text.family("tidegate_store_never_seen", Kind::Gauge, help);
    let unseen = store.health.nodes.iter().filter(|node| !node.seen);
    text.value(&[], unseen.count() as u64);
    let help = "Servers of Redis that may evict our keys, each of which is a free reset.";
    text.family("tidegate_store_evicting", Kind::Gauge, help);
    let evicting = store.health.nodes.iter().filter(|node| node.eviction_warning.is_some());
    text.value(&[], evicting.count() as u64);
}
