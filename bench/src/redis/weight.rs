//! What one client takes in the server's memory, beside the published encoding.

use std::sync::Arc;
use std::time::Duration;

use ::tidegate::{Kind, ManualClock, Span};
use anyhow::{Result, ensure};

use super::host::Host;
use super::side::Side;
use super::time::Time;
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::{Effort, Quota};
use crate::statistics::float;

/// Adds the table, and a figure for each algorithm that has a target.
pub(super) async fn add_to(report: &mut Report, host: &Host, effort: Effort) -> Result<()> {
    let mut table = Table::new(TITLE.to_owned(), &HEAD);
    for load in &LOADS {
        let clients = effort.of(load.clients);
        let weighed = load.weigh(host, clients).await?;
        let [plain, ours] = &weighed;
        table.add(vec![
            load.kind.to_string(),
            clients.to_string(),
            load.passes.to_string(),
            format!("{:.1}", ours.used),
            format!("{:.1}", plain.used),
            format!("{:.3}", ours.used / plain.used),
            format!("{:.1}", ours.told),
            format!("{:.1}", plain.told),
        ]);
        report.figures.extend(load.most.map(|most| Figure {
            name: format!("redis/memory/{}", load.kind),
            value: ours.used.max(ours.told),
            unit: Unit::BytesPerKey,
            target: Target::AtMost(most),
        }));
    }
    report.tables.push(table);
    Ok(())
}

/// What is kept under one algorithm when it is weighed.
struct Load {
    kind: Kind,
    quota: Quota,
    clients: u64,
    /// How often each client is asked about.
    passes: u32,
    /// How long after the one before every pass is.
    step: Duration,
    /// The most bytes that a client may take.
    most: Option<f64>,
}

/// Bytes a client.
struct Weight {
    /// By the growth of all that the server has allocated.
    used: f64,
    /// By what it says that the keys take.
    told: f64,
}

impl Load {
    async fn weigh(&self, host: &Host, clients: u64) -> Result<[Weight; 2]> {
        let (time, clock) = Time::standing();
        let [plain, ours] = Side::pair(&host.url(), self.kind, self.quota, &time).await?;
        let plain = self.weigh_side(host, &plain, clients, &clock).await?;
        let ours = self.weigh_side(host, &ours, clients, &clock).await?;
        Ok([plain, ours])
    }

    async fn weigh_side(
        &self,
        host: &Host,
        side: &Side,
        clients: u64,
        clock: &Arc<ManualClock>,
    ) -> Result<Weight> {
        let count = u32::try_from(clients).expect("fewer than 2^32 clients");
        // The buffers of the connection grow before, and the clients' windows begin anew.
        host.flush()?;
        side.pass(count.min(WARM_UP)).await?;
        host.flush()?;
        clock.advance(Span::from(2 * self.quota.per));
        let before = host.used_bytes()?;
        for pass in 0..self.passes {
            let admitted = side.pass(count).await?;
            ensure!(admitted == clients, "{} admits `{admitted}` of `{clients}`", side.name());
            // No two steps are alike, as in real traffic: an encoding may profit from that.
            clock.advance(Span::from(
                self.step + Duration::from_micros((pass * 7_919 % 997).into()),
            ));
        }
        let used = float(host.used_bytes()?.saturating_sub(before)) / float(clients);
        Ok(Weight { used, told: host.keys_bytes()? / float(clients) })
    }
}

const TITLE: &str = "memory: bytes of the server for one client";
const HEAD: [&str; 8] = [
    "algorithm",
    "clients",
    "events each",
    "tidegate",
    "plain script",
    "of plain",
    "tidegate, by MEMORY USAGE",
    "plain, by MEMORY USAGE",
];

const LINE: Load = Load {
    kind: Kind::TokenBucket,
    quota: Quota { per: Duration::from_secs(36), burst: 100 },
    clients: 100_000,
    passes: 2,
    step: Duration::from_millis(1_234),
    most: Some(140.0),
};
const HOURLY: Quota = Quota { per: Duration::from_hours(1), burst: 100 };

const LOADS: [Load; 5] = [
    LINE,
    Load { kind: Kind::Gcra, ..LINE },
    Load { kind: Kind::FixedWindow, quota: HOURLY, most: None, ..LINE },
    // One pass in each of two windows, since both are remembered.
    Load {
        kind: Kind::SlidingWindow,
        quota: HOURLY,
        step: Duration::from_hours(1),
        most: None,
        ..LINE
    },
    // A thousand events within a minute.
    Load {
        kind: Kind::SlidingLog,
        quota: Quota { per: Duration::from_mins(1), burst: 1_000 },
        clients: 400,
        passes: 1_000,
        step: Duration::from_millis(59),
        most: Some(5_120.0),
    },
];
const WARM_UP: u32 = 1_000;
