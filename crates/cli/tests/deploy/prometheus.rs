//! The alert rules and how Prometheus asks, by its own tool.

use std::path::Path;

use tidegate_testbed::Program;

#[track_caller]
fn promtool(args: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    let mut command = Program::Promtool.command().expect("it is there");
    let output = command.args(args).current_dir(folder).output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_configuration_is_one_and_every_alert_fires_when_it_should() {
    if !Program::Promtool.is_there() {
        println!("skipped: promtool is not installed");
        return;
    }
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}

#[test]
fn every_alert_is_tested() {
    let rules = include_str!("../../../../deploy/prometheus/alerts.yml");
    let tests = include_str!("../../../../deploy/prometheus/alerts_test.yml");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    assert!(5 <= alerts.len());
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} is never seen to fire");
        assert!(tests.contains(&format!("alertname: {alert}, exp_alerts: []")), "{alert}");
    }
}
