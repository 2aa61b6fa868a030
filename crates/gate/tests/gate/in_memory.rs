//! Gates in this process.

use std::sync::Arc;

use tidegate_gate::GateBuilder;
use tidegate_store::ManualClock;

#[path = "laws/mod.rs"]
mod laws;
#[path = "laws/overrides.rs"]
mod overrides;
#[path = "laws/reload.rs"]
mod reload;

const FEWER: u32 = 1;

fn with_store(builder: GateBuilder, _place: u64, _clock: &Arc<ManualClock>) -> GateBuilder {
    builder
}
