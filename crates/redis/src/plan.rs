//! What the script receives about one limit: what to do, and by which numbers.

use tidegate_core::{Grains, Kind, Policy, Receipt, Refused, Shape, Span, Tick};

use crate::flat::Sink;
use crate::script;
use crate::wire::ServerRun;

/// What is to be done with a limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Does {
    /// Charges what has happened, also beyond the limit.
    Debit,
    /// Judges, and charges what passes.
    Decide,
    /// Judges.
    Peek,
    /// Gives back so many cells, no matter which request was charged for them.
    GiveBack,
    /// Gives back what was charged at this tick.
    Refund {
        at: Tick,
        /// Only where the data is that it was charged to.
        run: Option<ServerRun>,
    },
    /// Has a permit that was taken at this tick count from now on; only for logs.
    Renew { at: Tick },
    /// Forgets the key.
    Reset,
}

impl Does {
    /// Gives back what was charged just now.
    pub(crate) fn refund(receipt: &Receipt) -> Does {
        Does::Refund { at: receipt.at(), run: None }
    }

    /// Whether it asks if something passes.
    pub(crate) fn judges(self) -> bool {
        matches!(self, Does::Decide | Does::Peek)
    }

    /// The run in which it is to be done, or not at all.
    pub(crate) fn run(self) -> Option<ServerRun> {
        if let Does::Refund { run, .. } = self { run } else { None }
    }

    fn letter(self) -> &'static [u8] {
        match self {
            Does::Debit => b"b",
            Does::GiveBack => b"g",
            Does::Decide => b"d",
            Does::Peek => b"p",
            Does::Refund { .. } => b"r",
            Does::Renew { .. } => b"n",
            Does::Reset => b"x",
        }
    }

    fn at(self) -> Tick {
        match self {
            Does::Refund { at, .. } | Does::Renew { at } => at,
            _ => Tick::default(),
        }
    }
}

/// The ticks past which a line is counted in words; `WORD` in the script.
pub(crate) const WORD: u128 = 1 << 52;

/// Writes a plan: the fields of `decide.lua`.
pub(crate) fn write(args: &mut impl Sink, policy: &Policy, does: Does, cost: u32, formers: usize) {
    args.push(does.letter());
    args.number(script::number(policy.shape()) as u64);
    args.number(formers as u64);
    args.number(cost.into());
    match (policy.kind(), policy.shape(), does) {
        // A queue takes back its last slot only, and then nobody has come since.
        (Kind::LeakyQueue, Shape::Line(grains), Does::Refund { at, .. }) => {
            write_line(args, &grains, weight(&grains, cost), [0, at.get(), 0]);
        }
        (_, Shape::Line(grains), Does::Refund { at, .. }) => {
            let clipped = split(policy.forgives_from(at), &grains);
            write_line(args, &grains, weight(&grains, cost), clipped);
        }
        (_, shape, _) => write_shape(args, shape, does, cost),
    }
    args.number(over(policy, does));
}

/// How far beyond the limit is charged; of a refund, what the shape needs to know instead.
fn over(policy: &Policy, does: Does) -> u64 {
    match (does, policy.shape()) {
        (Does::Debit, _) => policy.overdraft_ticks(),
        (Does::Decide, _) => policy.refusals_to(),
        (Does::Refund { .. }, Shape::Line(_)) if policy.kind() == Kind::LeakyQueue => 0,
        (Does::Refund { at, .. }, Shape::Line(_)) => at.get() + 1,
        // A count has less than a word.
        (Does::Refund { at, .. }, _) => u64::try_from(policy.forgives_from(at)).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// Whether a limit charges what it refuses: then no shorter script will do.
pub(crate) fn charges_refusals(policy: &Policy) -> bool {
    policy.refused() == Refused::Charge
}

/// Writes the plan of a narrow line: the fields of `narrow_line.lua`.
pub(crate) fn write_narrow(args: &mut impl Sink, grains: &Grains, cost: u32) {
    for [_, ticks, parts] in narrow_weights(grains, cost) {
        args.number(ticks);
        args.number(parts);
    }
    args.number(grains.tick());
}

/// Writes the plan of a line of whole ticks: the fields of `whole_line.lua`.
pub(crate) fn write_whole(args: &mut impl Sink, grains: &Grains, cost: u32) {
    for [_, ticks, _] in narrow_weights(grains, cost) {
        args.number(ticks);
    }
}

/// What a request weighs, and what a burst does.
fn narrow_weights(grains: &Grains, cost: u32) -> [[u64; 3]; 2] {
    // Whatever weighs more than a burst never passes; but its weight might need a word.
    let cost = cost.min(grains.burst().saturating_add(1));
    [weight(grains, cost), weight(grains, grains.burst())]
}

/// Writes the seven fields that a shape reads.
pub(crate) fn write_shape(args: &mut impl Sink, shape: Shape, does: Does, cost: u32) {
    let at = does.at().get();
    let fields = match shape {
        Shape::Line(grains) => {
            let bound = weight(&grains, grains.burst());
            return write_line(args, &grains, weight(&grains, cost), bound);
        }
        Shape::FixedWindow { limit, per } | Shape::SlidingWindow { limit, per } => {
            [limit.into(), per.get(), at, 0, 0, 0, 0]
        }
        Shape::Calendar { limit, boundaries: [start, middle, end] } => {
            [limit.into(), 0, at, start.get(), middle.get(), end.get(), 0]
        }
        Shape::Log { limit, per } => [limit.into(), per.get(), at, width(per) as u64, 0, 0, 0],
    };
    for field in fields {
        args.number(field);
    }
}

/// Writes the same for a line: what the cost weighs, what bounds it, and what a tick pays. Instead
/// of a bound, a refund has the line that may have forgiven something, or when its slot ends.
fn write_line(args: &mut impl Sink, grains: &Grains, cost: [u64; 3], bound: [u64; 3]) {
    for field in cost.into_iter().chain(bound) {
        args.number(field);
    }
    args.number(grains.tick());
}

/// How long a debt of `cells` takes to pay: words, ticks and parts of a tick.
fn weight(grains: &Grains, cells: u32) -> [u64; 3] {
    // Nearly always one word will do, and divides several times faster than two.
    if let Some(debt) = u64::from(cells).checked_mul(grains.cell()) {
        let ticks = debt / grains.tick();
        return [ticks >> 52, ticks & ((1 << 52) - 1), debt % grains.tick()];
    }
    // Words stay below 2^25, since a debt does below 2^77.
    split(u128::from(cells) * u128::from(grains.cell()), grains)
}

/// Grains as words, ticks and parts of a tick.
fn split(amount: u128, grains: &Grains) -> [u64; 3] {
    let (ticks, parts) = (amount / u128::from(grains.tick()), amount % u128::from(grains.tick()));
    [ticks / WORD, ticks % WORD, parts].map(|part| u64::try_from(part).unwrap_or(u64::MAX))
}

/// How many alike may be decided by one count, so that the script's sums stay exact.
pub(crate) fn most_alike(policy: &Policy, cost: u32) -> u32 {
    // A log gets one refusal at a time.
    if charges_refusals(policy) && matches!(policy.shape(), Shape::Log { .. }) {
        return 1;
    }
    let Shape::Line(grains) = policy.shape() else { return u32::MAX };
    let [_, ticks, _] = weight(&grains, cost);
    u32::try_from((1_u64 << 52) / (ticks + 1)).unwrap_or(u32::MAX).max(1)
}

/// Bytes to an event of a log: as few as tell ticks of a period apart, with a bit to spare.
pub(crate) const fn width(per: Span) -> usize {
    match per.get() {
        0..0x8000_0000 => 4,
        0x8000_0000..0x80_0000_0000 => 5,
        _ => 6,
    }
}
