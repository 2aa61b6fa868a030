//! A comparison as a table for people.

use tidegate_core::{Kind, Span};
use tidegate_sim::chart::words::{grouped, period, share, spaced};
use tidegate_sim::{Comparison, Report};

/// The table: one row for each algorithm.
pub(crate) fn table(comparison: &Comparison) -> String {
    let mut rows = vec![head(comparison)];
    rows.extend(comparison.reports.iter().map(|report| row(comparison, report)));
    aligned(&rows)
}

/// The table of one limit under several kinds of traffic: one row for each.
pub(crate) fn by_shape(comparisons: &[Comparison]) -> String {
    let Some(longest) = comparisons.iter().max_by_key(|it| it.lanes.len()) else {
        return String::new();
    };
    let mut rows = vec![head(longest)];
    let columns = rows[0].len();
    for comparison in comparisons {
        for report in &comparison.reports {
            let mut row = row(comparison, report);
            comparison.scenario.shape.name().clone_into(&mut row[0]);
            row.resize(columns, String::new());
            rows.push(row);
        }
    }
    "traffic".clone_into(&mut rows[0][0]);
    for row in &mut rows {
        row.remove(MEMORY);
    }
    aligned(&rows)
}

/// Where a row says how much memory a key takes.
const MEMORY: usize = 7;

fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        text += line(row, &widths).trim_end();
        text.push('\n');
    }
    text
}

/// Names are read from the left, numbers from the right.
fn line(row: &[String], widths: &[usize]) -> String {
    let mut cells = row.iter().zip(widths);
    let name = cells.next().map(|(name, width)| format!("{name:width$}"));
    let numbers = cells.map(|(number, width)| format!("{number:>width$}"));
    name.into_iter().chain(numbers).collect::<Vec<_>>().join("  ")
}

/// What the table does not say by itself.
pub(crate) fn notes(comparison: &Comparison) -> String {
    let per = period(comparison.scenario.quota.per());
    let mut notes = vec![
        format!(
            "worst {per}: the most cells that started within any span of one {per}, wherever it \
             begins"
        ),
        "smoothness: an even tenth of the quota, divided by the busiest tenth of a period;\n    \
         100% is \
         even, 10% is a whole quota in a rush"
            .to_owned(),
    ];
    for report in &comparison.reports {
        notes.extend(note(comparison, report));
    }
    notes.extend(law(comparison));
    let chosen = |kind| comparison.reports.iter().any(|report| report.kind == kind);
    if chosen(Kind::TokenBucket) && !chosen(Kind::Gcra) && !chosen(Kind::LeakyBucket) {
        notes.push(
            "gcra and leaky-bucket admit exactly what token-bucket admits: they are the same line"
                .to_owned(),
        );
    }
    format!("  {}\n", notes.join("\n  "))
}

/// Why a bucket may pass more than the quota, if one did.
fn law(comparison: &Comparison) -> Option<String> {
    let quota = comparison.scenario.quota;
    let bucket = |report: &&Report| report.kind.has_burst() && 0 < report.excess(quota);
    let bucket = comparison.reports.iter().find(bucket)?;
    let most = u64::from(quota.cells()) + u64::from(bucket.limit);
    Some(format!(
        "{}: within its law, which is one burst and one period's cells: up to {}",
        bucket.kind,
        grouped(most),
    ))
}

fn note(comparison: &Comparison, report: &Report) -> Option<String> {
    match report.kind {
        Kind::Concurrency => Some(format!(
            "concurrency: it limits what is under way, so its worst is the most in flight; each \
             request takes {}",
            spaced(comparison.hold)
        )),
        Kind::LeakyQueue if 0 < report.delayed => Some(format!(
            "leaky-queue: {} of its {} had to wait, {} at most; they are counted when they start",
            grouped(report.delayed),
            grouped(report.requests),
            spaced(Span::from_millis(u32::try_from(millis(report.delay_max)).unwrap_or(u32::MAX))),
        )),
        _ => None,
    }
}

fn head(comparison: &Comparison) -> Vec<String> {
    let worst = format!("worst {}", period(comparison.scenario.quota.per()));
    let mut head = vec!["algorithm", "offered", "admitted", &worst, "excess", "ratio"];
    head.extend(["smoothness", "memory/key"]);
    if 1 < comparison.lanes.len() {
        head.push("quiet refused");
    }
    head.into_iter().map(str::to_owned).collect()
}

fn row(comparison: &Comparison, report: &Report) -> Vec<String> {
    let quota = comparison.scenario.quota;
    let excess = report.excess(quota);
    let bytes = u64::try_from(report.state_bytes_max).unwrap_or(u64::MAX);
    let mut row = vec![
        report.kind.name().to_owned(),
        grouped(comparison.cells),
        grouped(report.cells),
        format!("{} of {}", grouped(report.worst.cells), grouped(quota.cells().into())),
        if excess == 0 { "none".to_owned() } else { format!("+{}", grouped(excess)) },
        format!("{:.2}x", comparison.ratio(report)),
        format!("{:.0}%", 100.0 * report.smoothness),
        format!("{} B", grouped(bytes)),
    ];
    if let Some((lane, quiet)) = comparison.quiet(report) {
        let share = share(quiet.refused, lane.requests);
        row.push(format!("{share} of {}", grouped(lane.requests)));
    }
    row
}

/// A wait in whole milliseconds, rounded up.
fn millis(span: Span) -> u64 {
    span.get().div_ceil(1_000)
}
