//! How much is held for which callers, and what there was no room for.

use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Kind, Text};
use crate::caller::Caller;
use crate::desk::{Desk, NoRoom};
use crate::limits;

/// What there may be no room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// A permit or a receipt.
    Held,
    /// A limit that a command names.
    Limit,
}

/// How often there was no room.
#[derive(Debug, Default)]
pub(super) struct NoRooms([AtomicU64; 2]);

impl What {
    const ALL: [What; 2] = [What::Held, What::Limit];

    const fn name(self) -> &'static str {
        match self {
            What::Held => "held",
            What::Limit => "limits",
        }
    }
}

impl NoRooms {
    pub(super) fn add(&self, what: What, caller: Caller, why: NoRoom) {
        let before = self.0[what as usize].fetch_add(1, Ordering::Relaxed);
        // The first, and then one of so many: a caller that has no room asks again and again.
        if before.is_multiple_of(COMPLAIN_EVERY) {
            let (what, is_its_own) = (what.name(), why == NoRoom::Yours);
            tracing::warn!(%caller, what, is_its_own, "a caller was refused: there is no room");
        }
    }

    pub(super) fn write(&self, text: &mut Text, desk: &Desk) {
        let help = "Permits, receipts and named limits that are held, by caller.";
        text.family("tidegate_caller_holds", Kind::Gauge, help);
        let most = limits::METRIC_CALLERS_MAX;
        for (what, (each, others)) in
            [(What::Held, desk.held.most(most)), (What::Limit, desk.named.most(most))]
        {
            for (caller, count) in each {
                let caller = caller.to_string();
                text.value(&[("what", what.name()), ("caller", &caller)], count as u64);
            }
            text.value(&[("what", what.name()), ("caller", "others")], others as u64);
        }
        let help = "What callers were refused because there was no room to hold it.";
        text.family("tidegate_no_room_total", Kind::Counter, help);
        for what in What::ALL {
            let count = self.0[what as usize].load(Ordering::Relaxed);
            text.value(&[("what", what.name())], count);
        }
    }
}

const COMPLAIN_EVERY: u64 = 10_000;
