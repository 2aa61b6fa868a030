//! Whether the tests of a policy hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use tidegate_config::{Finding, Suite, Test};
use tidegate_gate::{Tryout, Unmet};

use super::policy;
use super::says::Says;
use crate::failure::Failure;

/// How many tests held, and how many did not.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

/// Policies that were read, and those that could not be used. None is read twice: it may be a pipe,
/// and may change meanwhile.
#[derive(Debug, Default)]
struct Policies {
    read: BTreeMap<PathBuf, Option<Tryout>>,
}

impl Policies {
    /// The policy at `path`; what is wrong with it is said once.
    fn at(&mut self, path: &Path, says: &mut Says) -> Option<&Tryout> {
        let load = || policy::load(path, says).map(|loaded| Tryout::new(loaded.rules));
        self.read.entry(path.to_owned()).or_insert_with(load).as_ref()
    }
}

/// Runs every file of tests, against `policy` or against the one that it names.
pub(super) fn run(
    policy: Option<&Path>,
    files: &[PathBuf],
    says: &mut Says,
) -> Result<(), Failure> {
    let (mut policies, mut tally) = (Policies::default(), Tally::default());
    let mut is_whole = true;
    for file in files {
        is_whole &= one((policy, &mut policies), file, &mut tally, says)?;
    }
    let Tally { passed, failed } = tally;
    says.value(&json!({ "type": "tests", "passed": passed, "failed": failed }));
    if is_whole || 0 < passed + failed {
        says.text(&format!("\n{passed} passed, {failed} failed\n"));
    }
    Ok(())
}

/// Runs a file of tests; `false` if it or its policy cannot be used.
fn one(
    (policy, policies): (Option<&Path>, &mut Policies),
    file: &Path,
    tally: &mut Tally,
    says: &mut Says,
) -> Result<bool, Failure> {
    let suite = match Suite::from_path(file) {
        Ok(suite) => suite,
        Err(error) => {
            if let Some(report) = says.load_error(file, &error) {
                says.text(&format!("{}: {}\n", file.display(), report.summary()));
            }
            return Ok(false);
        }
    };
    let Some(policy) = policy.or(suite.policy()) else {
        let text = format!(
            "nothing says which policy `{}` tests: name it before --tests, or in the file as \
             `policy: policy.yaml`",
            file.display()
        );
        return Err(Failure::Usage { command: "check", text });
    };
    let Some(tryout) = policies.at(policy, says) else { return Ok(false) };
    if let Err(report) = suite.check(tryout.rules()) {
        says.report(&report);
        says.text(&format!("{}: {}\n", file.display(), report.summary()));
        return Ok(false);
    }
    says.text(&format!("{}: {}\n", file.display(), counted(suite.tests().len())));
    for test in suite.tests() {
        let unmet = tryout.run(test).context("the policy cannot be put in force")?;
        told(&suite, file, test, &unmet, says);
        let count = if unmet.is_empty() { &mut tally.passed } else { &mut tally.failed };
        *count += 1;
    }
    Ok(true)
}

/// Says how a test went.
fn told(suite: &Suite, file: &Path, test: &Test, unmet: &[Unmet], says: &mut Says) {
    let findings = unmet.iter().map(|it| suite.finding(it.at, &it.message, &it.when));
    let findings: Vec<Finding> = findings.collect();
    let named = suite.finding(test.at, "", "");
    let failed: Vec<Value> = findings.iter().map(place).collect();
    says.value(&json!({
        "type": "test",
        "file": file.display().to_string(),
        "line": named.line,
        "name": test.name,
        "passed": unmet.is_empty(),
        "unmet": failed,
    }));
    // A name may hold what a terminal would obey.
    let name: String = test.name.chars().filter(|letter| !letter.is_control()).collect();
    if findings.is_empty() {
        return says.text(&format!("ok      {name}\n"));
    }
    says.bad();
    says.text(&format!("FAILED  {name}\n\n"));
    for finding in findings {
        for line in finding.to_string().lines() {
            says.text(format!("        {line}").trim_end());
            says.text("\n");
        }
        says.text("\n");
    }
}

fn place(finding: &Finding) -> Value {
    json!({
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "when": finding.help,
    })
}

fn counted(tests: usize) -> String {
    if tests == 1 { "1 test".to_owned() } else { format!("{tests} tests") }
}
