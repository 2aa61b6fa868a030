//! States as they are kept in Redis, and as the core knows them.

use tidegate_core::{Grains, Kind, Policy, Quota, Shape, Span, State, Tick};

use crate::plan::{WORD, width};

/// Digits of a count at the end of a window's value.
const COUNT: usize = 10;
/// Bytes before the events of a log.
const LOG_HEAD: usize = 16;
/// The most parts to a tick that three digits hold.
const PARTS_MAX: u64 = 1_000;

/// Reads the state that a script left under `policy`; nothing if these bytes are none.
pub(crate) fn read(policy: &Policy, value: &[u8]) -> Option<State> {
    if value.is_empty() {
        return Some(policy.fresh());
    }
    if let Shape::Log { per, .. } = policy.shape() {
        return read_log(per, value);
    }
    read_words(policy, value).map(|words| policy.unpack(words))
}

/// Reads the state as [`Policy::pack`] would pack it; a log has no words.
pub(crate) fn read_words(policy: &Policy, value: &[u8]) -> Option<[u64; 2]> {
    if value.is_empty() {
        return Some([0; 2]);
    }
    match policy.shape() {
        Shape::Line(grains) => read_line(&grains, value),
        Shape::FixedWindow { per, .. } => {
            let (start, [used]) = read_counts(value)?;
            Some([start.checked_mul(per.get())?, used])
        }
        Shape::Calendar { .. } => {
            let (start, [used]) = read_counts(value)?;
            Some([start, used])
        }
        Shape::SlidingWindow { per, .. } => {
            let (start, [last, this]) = read_counts(value)?;
            Some([start.checked_mul(per.get())?, last << 32 | this])
        }
        Shape::Log { .. } => None,
    }
}

/// The value that a script would have left for `state`; empty for a fresh one.
pub(crate) fn write(policy: &Policy, state: &State) -> Vec<u8> {
    let [first, second] = policy.pack(state);
    match policy.shape() {
        Shape::Line(grains) => write_line(&grains, u128::from(second) << 64 | u128::from(first)),
        Shape::FixedWindow { per, .. } => format!("{}{second:010}", first / per.get()).into_bytes(),
        Shape::Calendar { .. } => format!("{first}{second:010}").into_bytes(),
        Shape::SlidingWindow { per, .. } => {
            let (last, this) = (second >> 32, second & 0xFFFF_FFFF);
            format!("{}{last:010}{this:010}", first / per.get()).into_bytes()
        }
        Shape::Log { per, .. } => write_log(policy, per, state),
    }
}

fn read_line(grains: &Grains, value: &[u8]) -> Option<[u64; 2]> {
    let text = str::from_utf8(value).ok()?;
    let (words, ticks, parts) = if let Some(wide) = text.strip_prefix('w') {
        let mut numbers = wide.split(' ').map(str::parse);
        let mut next = || numbers.next().and_then(Result::ok);
        (next()?, next()?, next()?)
    } else if grains.tick() == 1 {
        (0, text.parse().ok()?, 0)
    } else {
        let (ticks, parts) = text.split_at_checked(text.len().checked_sub(3)?)?;
        (0_u64, ticks.parse().ok()?, parts.parse().ok()?)
    };
    let (words, ticks, parts): (u64, u64, u64) = (words, ticks, parts);
    let ticks = u128::from(words).checked_mul(WORD)?.checked_add(ticks.into())?;
    let zero_at = ticks.checked_mul(grains.tick().into())?.checked_add(parts.into())?;
    let lower = u64::try_from(zero_at & u128::from(u64::MAX)).ok()?;
    Some([lower, u64::try_from(zero_at >> 64).ok()?])
}

fn write_line(grains: &Grains, zero_at: u128) -> Vec<u8> {
    let paid = u128::from(grains.tick());
    let (ticks, parts) = (zero_at / paid, zero_at % paid);
    if ticks < WORD && grains.tick() == 1 {
        format!("{ticks}").into_bytes()
    } else if ticks < WORD && grains.tick() <= PARTS_MAX {
        format!("{ticks}{parts:03}").into_bytes()
    } else {
        format!("w{} {} {parts}", ticks / WORD, ticks % WORD).into_bytes()
    }
}

/// A number, and the counts that end the value.
fn read_counts<const N: usize>(value: &[u8]) -> Option<(u64, [u64; N])> {
    let text = str::from_utf8(value).ok()?;
    let (start, mut rest) = text.split_at_checked(text.len().checked_sub(N * COUNT)?)?;
    let mut counts = [0; N];
    for count in &mut counts {
        let (digits, others) = rest.split_at_checked(COUNT)?;
        *count = digits.parse().ok().filter(|&count| u32::try_from(count).is_ok())?;
        rest = others;
    }
    Some((start.parse().ok()?, counts))
}

/// The words of a log.
#[derive(Clone, Copy)]
struct Words {
    width: usize,
}

impl Words {
    /// Half of what a word holds: ticks are kept modulo this.
    fn range(self) -> u64 {
        1 << (8 * self.width - 1)
    }

    fn write(self, word: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&word.to_be_bytes()[8 - self.width..]);
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Reads a log by recording its events anew.
fn read_log(per: Span, value: &[u8]) -> Option<State> {
    // Whatever the limit is now, it may have been higher.
    let policy = Policy::new(Kind::SlidingLog, Quota::new(u32::MAX, per)).ok()?;
    let words = Words { width: width(per) };
    let (head, events) = value.split_at_checked(LOG_HEAD)?;
    let latest = number(&head[8..15]);
    let mut state = policy.fresh();
    let mut pending: Option<(u64, u64)> = None;
    let mut record = |event: Option<(u64, u64)>| -> Option<()> {
        let Some((tick, cells)) = event else { return Some(()) };
        let cells = u32::try_from(cells).ok()?;
        let decision = policy.decide(&mut state, Tick::from_micros(tick), cells);
        decision.verdict.passes().then_some(())
    };
    for word in events.chunks(words.width) {
        let word = number(word);
        if let (1, Some((_, cells))) = (word % 2, &mut pending) {
            *cells += word / 2;
            continue;
        }
        let age = latest.wrapping_sub(word / 2) & (words.range() - 1);
        record(pending.replace((latest.checked_sub(age)?, 1)))?;
    }
    record(pending)?;
    policy.peek(&mut state, Tick::from_micros(latest), 0);
    Some(state)
}

fn write_log(policy: &Policy, per: Span, state: &State) -> Vec<u8> {
    let words = Words { width: width(per) };
    let (mut bytes, mut used, mut core_words, mut latest) = (vec![0; LOG_HEAD], 0, 0_u64, 0);
    for (tick, cells) in policy.events(state) {
        used += u64::from(cells);
        core_words += if cells < 1 << 18 { 1 } else { 2 };
        latest = tick.get();
        words.write(tick.get() % words.range() * 2, &mut bytes);
        let mut more = u64::from(cells) - 1;
        while 0 < more {
            let some = more.min(words.range() - 1);
            words.write(some * 2 + 1, &mut bytes);
            more -= some;
        }
    }
    if used == 0 {
        return Vec::new();
    }
    bytes[..4].copy_from_slice(&used.to_be_bytes()[4..]);
    bytes[4..8].copy_from_slice(&core_words.to_be_bytes()[4..]);
    bytes[8..15].copy_from_slice(&latest.to_be_bytes()[1..]);
    bytes
}
