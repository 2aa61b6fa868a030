//! What tenants share: who waits, what is out, and what became of the others.
//!
//! A policy has few shares, so that each is reported by itself.

use tidegate_gate::{Gate, ShareStats};

use super::text::{Kind, Text};

type Gauge = (&'static str, &'static str, fn(&ShareStats) -> u64);

const GAUGES: [Gauge; 4] = [
    ("tidegate_share_waiting", "Requests that wait for their turn.", |share| share.waiting.into()),
    ("tidegate_share_in_flight", "Places of a share that are taken.", |share| share.in_flight),
    ("tidegate_share_limit", "Places that a share has.", |share| share.limit.into()),
    ("tidegate_share_tenants", "Tenants that a share remembers.", |share| share.tenants as u64),
];

pub(super) fn write(text: &mut Text, gate: &Gate) {
    let shares = gate.stats().shares;
    for (name, help, of) in GAUGES {
        text.family(name, Kind::Gauge, help);
        for share in &shares {
            text.value(&[("share", &share.name)], of(share));
        }
    }
    let help = "Requests that had their turn.";
    text.family("tidegate_share_turns_total", Kind::Counter, help);
    for share in &shares {
        text.value(&[("share", &share.name)], share.dispatched);
    }
    let help = "Requests that had no turn, by the reason.";
    text.family("tidegate_share_refused_total", Kind::Counter, help);
    for share in &shares {
        for (reason, count) in &share.refused {
            text.value(&[("share", &share.name), ("reason", reason.name())], *count);
        }
    }
}
