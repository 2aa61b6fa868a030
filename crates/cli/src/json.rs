//! A comparison for machines. Times are in microseconds, sizes in bytes, as the names say.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidegate_sim::{Comparison, Report};

/// The comparison, and where its pictures were written.
pub(crate) fn json(comparison: &Comparison, burst: Option<u32>, pictures: &[PathBuf]) -> Value {
    let scenario = &comparison.scenario;
    let reports = comparison.reports.iter().map(|report| algorithm(comparison, report));
    json!({
        "shape": scenario.shape.name(),
        "seed": scenario.seed,
        "quota": {
            "cells": scenario.quota.cells(),
            "per_us": scenario.quota.per().get(),
            "burst": burst,
        },
        "cost": scenario.cost,
        "tenants": comparison.lanes.iter().map(|lane| lane.tenants).sum::<u32>(),
        "duration_us": comparison.grid.duration.get(),
        "offered": { "requests": comparison.requests, "cells": comparison.cells },
        "algorithms": reports.collect::<Vec<_>>(),
        "pictures": pictures.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}

fn algorithm(comparison: &Comparison, report: &Report) -> Value {
    let mut value = json!({
        "name": report.kind.name(),
        "limit": report.limit,
        "admitted": { "requests": report.requests, "cells": report.cells },
        "refused": { "requests": comparison.requests - report.requests },
        "delayed": { "requests": report.delayed, "longest_us": report.delay_max.get() },
        "worst": {
            "span_us": report.span.get(),
            "from_us": report.worst.from.get(),
            "tenant": report.worst.tenant,
            "cells": report.worst.cells,
            "excess": report.excess(comparison.scenario.quota),
            "ratio": comparison.ratio(report),
            "standing": report.standing.name(),
        },
        "smoothness": report.smoothness,
        "memory_per_key_bytes": report.state_bytes_max,
    });
    if let Some((lane, quiet)) = comparison.quiet(report) {
        value["quiet"] = json!({ "requests": lane.requests, "refused": quiet.refused });
    }
    value
}
