//! The honest client: a hundred requests a second, and how long after each was due it is answered.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate_testbed::Http;

use crate::histogram::Histogram;
use crate::statistics::micros;
use crate::timer;

/// In microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) longest: f64,
}

/// Asks the HTTP door for so long.
pub(super) fn ask(port: u16, time: Duration) -> Result<Latency> {
    let mut http = Http::connect_within(port, PATIENCE)?;
    let mut times = Histogram::new();
    let mut due = timer::now();
    let end = due + time;
    while due < end {
        timer::pause(due.saturating_duration_since(timer::now()));
        let told = http.send("POST", "/v1/check", &JSON, BODY)?;
        ensure!(told.status == 200, "the honest client is told {}", told.status);
        times.add(due.elapsed());
        due += STEP;
    }
    Ok(Latency {
        p50: micros(times.all_but(2)),
        p99: micros(times.all_but(100)),
        longest: micros(times.longest()),
    })
}

const STEP: Duration = Duration::from_millis(10);
/// Far longer than any answer may take: a server that is so slow is measured, too.
const PATIENCE: Duration = Duration::from_mins(1);
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const BODY: &[u8] = br#"{"attributes":{"peer":"honest"}}"#;
