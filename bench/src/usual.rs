//! The usual case: a million keys, texts or numbers, most of which owe nothing when they come
//! back.
//!
//! Under a *brief* quota a debt is paid before the next visit; under one that *lasts* it is not.
//! One thread and two, one decision a call and 64, beside governor and beside the bare table.

use crate::decide::Row;
use crate::figure::{Figure, Target, Unit, own_algorithm};
use crate::setting::{Form, Quota, Setting};
use crate::statistics::median;
use crate::subject::BARE;
use crate::workload::{Call, Draw, Field, Scene, Workload};

/// Both kinds of quota, on both kinds of keys.
pub(crate) fn scenes(keys: u64) -> [Scene; 4] {
    let scene = |quota, form, workloads| Scene {
        setting: Setting { keys, quota, form },
        passes: 1,
        workloads,
    };
    [
        scene(Quota::BRIEF, Form::Text, &BRIEF_TEXT),
        scene(Quota::BRIEF, Form::Number, &BRIEF_NUMBER),
        scene(Quota::MANY, Form::Text, &LASTING_TEXT),
        scene(Quota::MANY, Form::Number, &LASTING_NUMBER),
    ]
}

/// What is held to something else than governor's single decisions: two threads, batches, and
/// numbers beside the bare table.
pub(crate) fn figures(scene: &Scene, columns: &[Vec<Row>]) -> Vec<Figure> {
    let [Workload { name, field: Field::Usual, .. }, ..] = scene.workloads else {
        return Vec::new();
    };
    let [one, two, batch, _] = columns else { return Vec::new() };
    let mut figures = Vec::new();
    for row in one {
        let Some(algorithm) = own_algorithm(row.name) else { continue };
        let mut hold = |what: &str, ratios: Vec<f64>, most| {
            figures.push(Figure {
                name: format!("decide/{name}/{what}/{algorithm}"),
                value: if ratios.is_empty() { f64::NAN } else { median(&ratios) },
                unit: Unit::Ratio,
                target: Target::AtMost(most),
            });
        };
        let (bare_one, bare_two) = (row_of(one, BARE), row_of(two, BARE));
        let (own_two, own_batch) = (row_of(two, row.name), row_of(batch, row.name));
        let rounds = 0..row.nanos.len();
        let loses = |round: usize| {
            let ours = own_two.nanos[round] / row.nanos[round];
            let bare = bare_two.nanos[round] / bare_one.nanos[round];
            let at_once = own_two.cores[round].min(bare_two.cores[round]);
            (TWO_AT_ONCE <= at_once).then_some(ours / bare)
        };
        hold("two-threads", rounds.clone().filter_map(loses).collect(), 1.25);
        let batched = rounds.clone().map(|round| own_batch.nanos[round] / row.nanos[round]);
        hold("batch", batched.collect(), 0.6);
        if scene.setting.form == Form::Number {
            let of_bare = rounds.map(|round| row.nanos[round] / bare_one.nanos[round]);
            hold("of-the-bare-table", of_bare.collect(), 2.0);
        }
    }
    figures
}

fn row_of<'a>(column: &'a [Row], name: &str) -> &'a Row {
    column.iter().find(|row| row.name == name).expect("who takes part in one takes part in all")
}

/// Processors that two threads must have had, so that they really ran at once.
const TWO_AT_ONCE: f64 = 1.8;

const fn workloads(names: [&'static str; 4], about: &'static str, target: f64) -> [Workload; 4] {
    const fn workload(name: &'static str, about: &'static str, threads: usize) -> Workload {
        let (draw, call) = (Draw::Uniform, Call::Single);
        Workload { name, about, draw, threads, call, field: Field::Usual, target: None }
    }
    let [one, two, batch, batch_two] = names;
    [
        Workload { target: Some(target), ..workload(one, about, 1) },
        workload(two, "The same, two threads at once; the time is each thread's.", 2),
        Workload { call: Call::Batch, ..workload(batch, "The same, 64 to a call.", 1) },
        Workload { call: Call::Batch, ..workload(batch_two, "Both.", 2) },
    ]
}

/// The most that our time may be of governor's, by what keys are.
const OF_TEXT: f64 = 0.45;
const OF_NUMBERS: f64 = 1.0;

const BRIEF_TEXT: [Workload; 4] = workloads(
    ["brief-text", "brief-text-2-threads", "brief-text-64", "brief-text-64-2-threads"],
    "A million texts of 16 bytes; each owes nothing any more when it comes back.",
    OF_TEXT,
);

const BRIEF_NUMBER: [Workload; 4] = workloads(
    ["brief-u64", "brief-u64-2-threads", "brief-u64-64", "brief-u64-64-2-threads"],
    "A million numbers; each owes nothing any more when it comes back.",
    OF_NUMBERS,
);

const LASTING_TEXT: [Workload; 4] = workloads(
    ["lasting-text", "lasting-text-2-threads", "lasting-text-64", "lasting-text-64-2-threads"],
    "A million texts of 16 bytes; each still owes something when it comes back.",
    OF_TEXT,
);

const LASTING_NUMBER: [Workload; 4] = workloads(
    ["lasting-u64", "lasting-u64-2-threads", "lasting-u64-64", "lasting-u64-64-2-threads"],
    "A million numbers; each still owes something when it comes back.",
    OF_NUMBERS,
);

/// One of these workloads, to ask who takes part.
#[cfg(test)]
pub(crate) const EXAMPLE: Workload = BRIEF_NUMBER[0];
