//! Dependencies point one way: down.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Finding;
use super::source::File;

/// One dependency of one package of this workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    from: String,
    to: String,
    kind: Kind,
    /// Whether `to` is a package of this workspace.
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What ships, and what builds it.
    Normal,
    /// What tests use.
    Dev,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Ours,
    Foreign,
}

/// What one package may depend on.
struct Row {
    from: &'static str,
    manifest: &'static str,
    ours: &'static [&'static str],
    /// Besides, in tests.
    in_tests: &'static [&'static str],
    foreign: Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    Any,
    OnlyInTests,
}

const CORE: &str = "tidegate-core";
const STORE: &str = "tidegate-store";
const FAIR: &str = "tidegate-fair";
const SIM: &str = "tidegate-sim";
const REDIS: &str = "tidegate-redis";
const CONFIG: &str = "tidegate-config";
const GATE: &str = "tidegate-gate";
const TOWER: &str = "tidegate-tower";
const SERVER: &str = "tidegate-server";
const TESTBED: &str = "tidegate-testbed";
const DOOR: &str = "tidegate";

const ROWS: &[Row] = &[
    Row {
        from: CORE,
        manifest: "crates/core/Cargo.toml",
        ours: &[],
        in_tests: &[SIM],
        foreign: Foreign::OnlyInTests,
    },
    Row {
        from: STORE,
        manifest: "crates/store/Cargo.toml",
        ours: &[CORE],
        in_tests: &[SIM],
        foreign: Foreign::Any,
    },
    Row {
        from: FAIR,
        manifest: "crates/fair/Cargo.toml",
        ours: &[CORE, STORE],
        in_tests: &[SIM],
        foreign: Foreign::Any,
    },
    Row {
        from: REDIS,
        manifest: "crates/redis/Cargo.toml",
        ours: &[CORE, STORE],
        in_tests: &[SIM, TESTBED],
        foreign: Foreign::Any,
    },
    Row {
        from: CONFIG,
        manifest: "crates/config/Cargo.toml",
        ours: &[CORE],
        in_tests: &[],
        foreign: Foreign::Any,
    },
    Row {
        from: GATE,
        manifest: "crates/gate/Cargo.toml",
        ours: &[CONFIG, CORE, FAIR, STORE, REDIS],
        in_tests: &[SIM, TESTBED],
        foreign: Foreign::Any,
    },
    Row {
        from: TOWER,
        manifest: "crates/tower/Cargo.toml",
        ours: &[GATE, CORE, FAIR, STORE],
        in_tests: &[CONFIG, SIM, TESTBED, REDIS],
        foreign: Foreign::Any,
    },
    Row {
        from: SERVER,
        manifest: "crates/server/Cargo.toml",
        ours: &[GATE, CONFIG, CORE, FAIR, STORE, REDIS],
        in_tests: &[SIM, TESTBED],
        foreign: Foreign::Any,
    },
    Row {
        from: TESTBED,
        manifest: "crates/testbed/Cargo.toml",
        ours: &[],
        in_tests: &[],
        foreign: Foreign::Any,
    },
    Row {
        from: SIM,
        manifest: "crates/sim/Cargo.toml",
        ours: &[CORE, STORE],
        in_tests: &[],
        foreign: Foreign::Any,
    },
    Row {
        from: DOOR,
        manifest: "crates/tidegate/Cargo.toml",
        ours: &[CORE, FAIR, STORE, REDIS, GATE, TOWER],
        in_tests: &[SIM, TESTBED],
        foreign: Foreign::Any,
    },
    Row {
        from: "tidegate-cli",
        manifest: "crates/cli/Cargo.toml",
        ours: &[CONFIG, CORE, GATE, REDIS, SIM, STORE, DOOR, SERVER],
        in_tests: &[TESTBED],
        foreign: Foreign::Any,
    },
    Row {
        from: "tidegate-bench",
        manifest: "bench/Cargo.toml",
        ours: &[CONFIG, CORE, FAIR, GATE, STORE, SIM, REDIS, TESTBED, TOWER, DOOR],
        in_tests: &[],
        foreign: Foreign::Any,
    },
    Row {
        from: "xtask",
        manifest: "xtask/Cargo.toml",
        ours: &[],
        in_tests: &[],
        foreign: Foreign::Any,
    },
];

/// Reads the arrows from what `cargo metadata --no-deps` says.
pub(crate) fn read(metadata: &Value) -> Result<Vec<Arrow>> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut arrows = Vec::new();
    for package in packages {
        let from = package["name"].as_str().context("a package has no name")?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().context("a dependency has no name")?;
            let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Normal };
            let target = if names.contains(&to) { Target::Ours } else { Target::Foreign };
            arrows.push(Arrow { from: from.to_owned(), to: to.to_owned(), kind, target });
        }
    }
    Ok(arrows)
}

/// Finds arrows that no row allows.
pub(crate) fn check(arrows: &[Arrow], files: &[File]) -> Vec<Finding> {
    arrows.iter().filter_map(|arrow| wrong(arrow, files)).collect()
}

fn wrong(arrow: &Arrow, files: &[File]) -> Option<Finding> {
    let Arrow { from, to, .. } = arrow;
    let Some(row) = ROWS.iter().find(|row| row.from == from) else {
        let path = "Cargo.toml".to_owned();
        let wrong = format!("no rule says what `{from}` may depend on");
        let fix = "add its row in xtask/src/tidy/arrows.rs";
        return Some(Finding { path, line: 1, wrong, fix });
    };
    if row.allows(arrow) {
        return None;
    }
    let manifest = files.iter().find(|file| file.path == row.manifest);
    let line = manifest.map_or(1, |file| line_of(to, file));
    let wrong = format!("`{from}` must not depend on `{to}`");
    let fix = "move the code to the lower crate, or hand the thing in as an argument";
    Some(Finding { path: row.manifest.to_owned(), line, wrong, fix })
}

/// Where a manifest names a dependency: as a key, or as what another name stands for.
fn line_of(to: &str, manifest: &File) -> usize {
    let is_key = |rest: &str| rest.starts_with(['.', ' ', '=', ']']);
    let stands_for = format!("package = \"{to}\"");
    let names = |line: &str| {
        let key = line.rsplit_once("dependencies.").map_or(line, |(_, key)| key);
        key.strip_prefix(to).is_some_and(is_key) || line.contains(&stands_for)
    };
    manifest.lines().find(|(_, line)| names(line)).map_or(1, |(number, _)| number)
}

impl Row {
    fn allows(&self, arrow: &Arrow) -> bool {
        let to = arrow.to.as_str();
        match (arrow.target, arrow.kind) {
            (Target::Ours, Kind::Normal) => self.ours.contains(&to),
            (Target::Ours, Kind::Dev) => self.ours.contains(&to) || self.in_tests.contains(&to),
            (Target::Foreign, Kind::Normal) => self.foreign == Foreign::Any,
            (Target::Foreign, Kind::Dev) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A package `from` with one dependency, beside all packages that have a row.
    fn find(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let mut packages: Vec<Value> =
            ROWS.iter().map(|row| json!({"name": row.from, "dependencies": []})).collect();
        packages.push(json!({"name": from, "dependencies": [{"name": to, "kind": kind}]}));
        let manifest = File::new("crates/core/Cargo.toml", "[dependencies]\n\nserde = \"1\"\n");
        let arrows = read(&json!({ "packages": packages })).unwrap();
        check(&arrows, &[manifest]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_down_are_fine() {
        for (from, to) in [("tidegate-store", CORE), ("tidegate-cli", SIM), (DOOR, STORE)] {
            assert!(find(from, to, None).is_empty(), "{from} -> {to}");
        }
    }

    #[test]
    fn arrows_up_are_found() {
        let ups = [(CORE, STORE), (STORE, SIM), (STORE, DOOR), (SIM, DOOR), (DOOR, SIM)];
        for (from, to) in ups.into_iter().chain([("xtask", CORE), (SIM, "tidegate-cli")]) {
            assert_eq!(find(from, to, None).len(), 1, "{from} -> {to}");
        }
        assert_eq!(find(STORE, SIM, Some("build")).len(), 1);
    }

    #[test]
    fn tests_may_use_the_simulator() {
        for from in [CORE, STORE, DOOR] {
            assert!(find(from, SIM, Some("dev")).is_empty(), "{from}");
        }
        assert_eq!(find("xtask", SIM, Some("dev")).len(), 1);
        assert_eq!(find(CORE, DOOR, Some("dev")).len(), 1);
    }

    #[test]
    fn the_core_ships_alone() {
        let found = "crates/core/Cargo.toml:3: `tidegate-core` must not depend on `serde`; \
                     move the code to the lower crate, or hand the thing in as an argument";
        assert_eq!(find(CORE, "serde", None), [found]);
        assert_eq!(find(CORE, "serde", Some("build")).len(), 1);
        assert!(find(STORE, "serde", None).is_empty());
    }

    #[test]
    fn a_dependency_is_found_where_it_is_named() {
        let manifest = "name = \"a-b\"\n[dependencies]\na-b-c = \"1\"\n";
        for line in ["a-b = \"1\"", "a-b.workspace = true", "[dev-dependencies.a-b]"] {
            let manifest = File::new("Cargo.toml", &format!("{manifest}{line}\n"));
            assert_eq!(line_of("a-b", &manifest), 4, "{line}");
        }
        let renamed = format!("{manifest}d = {{ package = \"a-b\" }}\n");
        assert_eq!(line_of("a-b", &File::new("Cargo.toml", &renamed)), 4);
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let found = "Cargo.toml:1: no rule says what `tidegate-new` may depend on; \
                     add its row in xtask/src/tidy/arrows.rs";
        assert_eq!(find("tidegate-new", CORE, None), [found]);
    }
}
