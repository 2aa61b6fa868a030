//! Ten thousand rules beside ten: the time of a decision, and the time to read them.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use tidegate_gate::{Gate, Rules, Sample};

use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, median, nanos_each};
use crate::timer;

/// Adds the table and its figures.
pub(super) fn add_to(report: &mut Report, effort: Effort) -> Result<()> {
    let few = Gate::from_text(&policy(FEW)).context("ten rules")?;
    let text = policy(MANY);
    let mut reading = Vec::new();
    for _ in 0..READS {
        let start = timer::now();
        let loaded = Rules::from_text(&text).context("ten thousand rules")?;
        reading.push(start.elapsed().as_secs_f64() * 1e6);
        assert_eq!(loaded.rules.rules().len(), MANY, "every rule is read");
    }
    let many = Gate::from_text(&text).context("ten thousand rules")?;
    let requests: Vec<Sample> = (0..CLIENTS).map(request).collect();
    let decisions = effort.of(DECISIONS);
    let time = |gate: &Gate| {
        let start = timer::now();
        for request in requests.iter().cycle().take(usize::try_from(decisions).unwrap_or(0)) {
            let admission = gate.decide(request);
            assert!(admission.verdict().passes(), "the limits are far away");
        }
        nanos_each(start.elapsed(), decisions)
    };
    let (times_few, times_many): (Vec<f64>, Vec<f64>) =
        (0..ROUNDS).map(|_| (time(&few), time(&many))).unzip();
    let ratio = Spread::of_ratios(&times_many, &times_few);
    let mut table = Table::new(
        "One decision by three matching rules: nanoseconds".to_owned(),
        &["rules in the file", "ns", "of ten rules", "least..greatest", "ms to read the file"],
    );
    table.add(vec![
        FEW.to_string(),
        format!("{:.0}", median(&times_few)),
        "1".into(),
        String::new(),
        String::new(),
    ]);
    table.add(vec![
        MANY.to_string(),
        format!("{:.0}", median(&times_many)),
        format!("{:.3}", ratio.median),
        format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
        format!("{:.0}", median(&reading) / 1e3),
    ]);
    report.tables.push(table);
    report.figures.push(Figure {
        name: "layer/rules/10000".to_owned(),
        value: ratio.median,
        unit: Unit::Ratio,
        target: Target::AtMost(2.0),
    });
    report.figures.push(Figure {
        name: "layer/rules/read".to_owned(),
        value: median(&reading),
        unit: Unit::Microseconds,
        target: Target::AtMost(1e6),
    });
    Ok(())
}

fn request(client: u8) -> Sample {
    let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, client));
    let request = Sample::new("GET /search/things?q=x").from_peer(peer);
    request.with_header("host", "api.example.com").with_header("user-agent", "bench/1.0")
}

/// Three rules that match [`request`], and as many others as make `count`: each for a path, a host
/// or a header of its own, as in a file that many teams write.
pub(super) fn policy(count: usize) -> String {
    let mut text = String::from(THREE);
    for other in 0..count - 3 {
        let matches = match other % 4 {
            0 => format!("{{ path: /team-{other}/** }}"),
            1 => format!("{{ method: [GET, POST], path: '/team-{other}/{{id}}/items/*' }}"),
            2 => format!("{{ host: team-{other}.example.com }}"),
            _ => format!("{{ header: {{ x-team: team-{other} }} }}"),
        };
        let _ = writeln!(
            text,
            "  - name: team-{other}\n    match: {matches}\n    key: [client]\n    \
            algorithm: token-bucket\n    limit: 1000/min\n    burst: 100"
        );
    }
    text
}

const THREE: &str = "\
rules:
  - name: per-client
    key: [client]
    limit: 10000000/s
  - name: search
    match: { method: GET, path: /search/** }
    key: [client]
    algorithm: gcra
    limit: 10000000/s
  - name: everyone
    algorithm: gcra
    limit: 10000000/s
";

const FEW: usize = 10;
const MANY: usize = 10_000;
const CLIENTS: u8 = 100;
const READS: usize = 5;
const ROUNDS: usize = 15;
const DECISIONS: u64 = 400_000;
