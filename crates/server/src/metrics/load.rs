//! How much is left of limits that follow the load.

use tidegate_gate::Gate;

use super::text::{Kind, Text};

/// What is given out now, and by how many sources that was asked for.
pub(super) fn write(text: &mut Text, gate: &Gate) {
    let reading = gate.load_reading();
    let help = "What is left of rules marked adaptive; 1 is all of it.";
    text.family("tidegate_adaptive_factor", Kind::Gauge, help);
    let millionths = reading.factor.get();
    let factor = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.number(&[], &factor);
    let help = "Sources whose load counts just now.";
    text.family("tidegate_load_sources", Kind::Gauge, help);
    text.value(&[], reading.sources as u64);
}
