//! What ten million idle keys do to a decision on another key.

use std::slice;

use crate::figure::{Figure, Target, Unit, own_algorithm};
use crate::key::Key;
use crate::report::{Report, Table};
use crate::setting::{Effort, Form, Quota, Setting};
use crate::statistics::{Spread, median, nanos_each};
use crate::subject::{CONTENDERS, Contender, Subject};
use crate::tape::Tape;
use crate::timer;

/// Adds the table, and a figure for each of our own subjects.
pub(crate) fn add_to(report: &mut Report, effort: Effort) {
    let title = "One hot key beside idle keys: nanoseconds a decision".to_owned();
    let head = ["subject", "1 thousand", "10 million", "ratio", "least..greatest"];
    let mut table = Table::new(title, &head);
    for contender in CONTENDERS.iter().filter(|contender| contender.pauses) {
        let (few, many) = measure(contender, effort);
        let ratio = Spread::of_ratios(&many, &few);
        table.add(vec![
            contender.name.to_owned(),
            format!("{:.1}", median(&few)),
            format!("{:.1}", median(&many)),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
        ]);
        report.figures.extend(own_algorithm(contender.name).map(|algorithm| Figure {
            name: format!("idle/{algorithm}"),
            value: ratio.median,
            unit: Unit::Ratio,
            target: Target::AtMost(RATIO_MAX),
        }));
    }
    report.tables.push(table);
}

fn measure(contender: &Contender, effort: Effort) -> (Vec<f64>, Vec<f64>) {
    let few = beside_idle_keys(contender, FEW);
    let many = beside_idle_keys(contender, effort.of(MANY).max(FEW));
    let hot = Key::numbered(0);
    let tape = Tape::new(slice::from_ref(&hot), effort.of(DECISIONS));
    let time = |subject: &dyn Subject| {
        subject.play(&tape.thinned(WARM_UP));
        let start = timer::now();
        subject.play(&tape);
        nanos_each(start.elapsed(), tape.decisions())
    };
    (0..ROUNDS).map(|_| (time(few.as_ref()), time(many.as_ref()))).unzip()
}

fn beside_idle_keys(contender: &Contender, keys: u64) -> Box<dyn Subject> {
    let subject = (contender.make)(&Setting { keys, quota: Quota::MANY, form: Form::Text });
    let mut key = Key::numbered(0);
    for number in 0..keys {
        key.renumber(number);
        subject.decide(&key);
    }
    subject
}

const FEW: u64 = 1000;
const MANY: u64 = 10_000_000;
const RATIO_MAX: f64 = 1.25;
const ROUNDS: usize = 15;
/// All rounds together stay well within the burst of [`Quota::MANY`].
const DECISIONS: u64 = 200_000;
const WARM_UP: u64 = 8;
