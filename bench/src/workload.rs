//! The traffic that `decide` times.

use crate::setting::{Effort, Form, Quota, Setting};
use crate::usual;

/// One column of the comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// A sentence for the report.
    pub(crate) about: &'static str,
    pub(crate) draw: Draw,
    pub(crate) threads: usize,
    pub(crate) call: Call,
    /// Who takes part.
    pub(crate) field: Field,
    /// The most that our time may be of governor's.
    pub(crate) target: Option<f64>,
}

/// Which subjects take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    All,
    /// Ours, governor and the bare table.
    Usual,
}

/// How the next key is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    Hot,
    Uniform,
    Zipf,
}

/// How many decisions one call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Single,
    /// Subjects without a batch call are asked one by one.
    Batch,
}

/// Workloads that share their subjects: filled once, timed in every round.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) setting: Setting,
    /// Passes over all keys before the timer starts.
    pub(crate) passes: u64,
    pub(crate) workloads: &'static [Workload],
}

pub(crate) fn scenes(effort: Effort) -> Vec<Scene> {
    let many = effort.of(MANY_KEYS);
    let of = |keys, quota| Setting { keys, quota, form: Form::Text };
    let scenes = [
        Scene { setting: of(1, Quota::HOT), passes: 1, workloads: &HOT },
        Scene {
            setting: of(1, Quota::REFUSING),
            passes: PASSES_UNTIL_REFUSED,
            workloads: &[HOT_REFUSED],
        },
        Scene { setting: of(many, Quota::MANY), passes: 1, workloads: &MANY },
        Scene {
            setting: of(many, Quota::REFUSING),
            passes: PASSES_UNTIL_REFUSED,
            workloads: &[MANY_REFUSED],
        },
    ];
    scenes.into_iter().chain(usual::scenes(many)).collect()
}

impl Workload {
    pub(crate) fn is_hot(&self) -> bool {
        self.draw == Draw::Hot
    }
}

const HOT: [Workload; 2] = [
    Workload {
        name: "hot",
        about: "One key, all admitted.",
        draw: Draw::Hot,
        threads: 1,
        call: Call::Single,
        field: Field::All,
        target: Some(0.6),
    },
    Workload {
        name: "hot-2-threads",
        about: "One key, all admitted, two threads at once; the time is each thread's.",
        draw: Draw::Hot,
        threads: 2,
        call: Call::Single,
        field: Field::All,
        target: Some(1.0),
    },
];

const HOT_REFUSED: Workload = Workload {
    name: "hot-refused",
    about: "One key, all refused.",
    draw: Draw::Hot,
    threads: 1,
    call: Call::Single,
    field: Field::All,
    target: Some(0.65),
};

const MANY: [Workload; 4] = [
    Workload {
        name: "uniform-1m",
        about: "A million keys, each as likely, all admitted.",
        draw: Draw::Uniform,
        threads: 1,
        call: Call::Single,
        field: Field::All,
        target: Some(0.4),
    },
    Workload {
        name: "uniform-1m-2-threads",
        about: "The same, two threads at once; the time is each thread's.",
        draw: Draw::Uniform,
        threads: 2,
        call: Call::Single,
        field: Field::All,
        target: None,
    },
    Workload {
        name: "zipf-1m",
        about: "A million keys, drawn by Zipf's law with exponent 0.99, all admitted.",
        draw: Draw::Zipf,
        threads: 1,
        call: Call::Single,
        field: Field::All,
        target: None,
    },
    Workload {
        name: "batch-64-uniform-1m",
        about: "A million keys, each as likely, all admitted, 64 to a call where a subject can. \
                Governor cannot: the ratio is to its single decisions.",
        draw: Draw::Uniform,
        threads: 1,
        call: Call::Batch,
        field: Field::All,
        target: Some(0.15),
    },
];

const MANY_REFUSED: Workload = Workload {
    name: "uniform-1m-refused",
    about: "A million keys, each as likely, all refused.",
    draw: Draw::Uniform,
    threads: 1,
    call: Call::Single,
    field: Field::All,
    target: None,
};

const MANY_KEYS: u64 = 1_000_000;
const PASSES_UNTIL_REFUSED: u64 = 3;
