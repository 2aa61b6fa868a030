//! The container and the manifests for Kubernetes: no registry can be reached from a test, so that
//! their steps are tried one by one.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testbed::{Daemon, Http, Ready, Server};

use crate::stand::{local, swap};

const CONTAINER: &str = include_str!("../../../../deploy/Containerfile");
const MANIFESTS: &str = include_str!("../../../../deploy/kubernetes/tidegate.yaml");

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Starts what a container would, at ports of this test's own, and asks it whether it is well.
#[track_caller]
fn runs(args: &[String], swaps: &[(&str, String)]) {
    let mut builder = Daemon::builder().expect("a folder");
    let ports = [(); 3].map(|()| builder.port().expect("a free port"));
    let places = ["0.0.0.0:8080", "0.0.0.0:8081", "0.0.0.0:6380"];
    let mut args = args.join("\n");
    for (place, port) in places.into_iter().zip(ports) {
        args = swap(&args, place, &local(port));
    }
    for (from, to) in swaps {
        args = swap(&args, from, to);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args.lines());
    let daemon = builder.start(command, Ready::Answers(ports[0], "/readyz".to_owned()));
    let _daemon = daemon.expect("it starts");
    let json = r#"{"path":"/","ip":"192.0.2.1"}"#;
    let answer = Http::post(ports[0], "/v1/check", json).expect("an answer");
    assert!(answer.text().contains(r#""verdict":"allow""#), "{}", answer.text());
    for path in MANIFESTS.lines().filter_map(|line| line.split_once("path: ")) {
        let path = path.1.split(',').next().unwrap_or_default();
        let probed = Http::get(ports[0], path).expect("an answer");
        assert_eq!(probed.status, 200, "{path}");
    }
}

#[test]
fn the_container_has_what_it_copies_and_starts_what_there_is() {
    let instruction = |word: &str| -> Vec<&str> {
        CONTAINER.lines().filter_map(|line| line.strip_prefix(word)).collect()
    };
    let build = instruction("RUN cargo build ")[0];
    assert!(build.contains(concat!("--package ", env!("CARGO_PKG_NAME"), " --bin tidegate")));
    for copied in instruction("COPY --from=build ") {
        for path in copied.split(' ').filter_map(|path| path.strip_prefix("/src/")) {
            let is_built = path == "target/release/tidegate";
            assert!(is_built || root().join(path).is_file(), "{path}");
        }
    }
    let command: Value = serde_json::from_str(instruction("CMD ")[0]).unwrap();
    let command = command.as_array().unwrap().iter();
    let command: Vec<String> = command.map(|word| word.as_str().unwrap().to_owned()).collect();
    let policy = root().join("examples/policy.yaml").display().to_string();
    runs(&command, &[("/etc/tidegate/policy.yaml", policy)]);
}

/// Distroless' `cc` has glibc and libgcc, and nothing else.
#[test]
fn the_program_needs_no_library_that_the_container_lacks() {
    let Ok(output) = Command::new("ldd").arg(env!("CARGO_BIN_EXE_tidegate")).output() else {
        println!("skipped: there is no ldd");
        return;
    };
    let known = ["linux-vdso", "libgcc_s.", "libc.", "libm.", "ld-linux"];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let is_known = known.iter().any(|name| line.contains(name));
        assert!(is_known || line.contains("statically linked"), "{line}");
    }
}

#[test]
fn the_manifests_start_a_server_with_their_policy() {
    let args = MANIFESTS.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let args = args.map(str::trim).take_while(|line| !line.starts_with("ports:"));
    let args: Vec<String> =
        args.filter_map(|line| Some(line.strip_prefix("- ")?.to_owned())).collect();
    assert_eq!(args[0], "serve");
    let policy = MANIFESTS.lines().skip_while(|line| line.trim() != "policy.yaml: |").skip(1);
    let policy: Vec<&str> = policy.map_while(|line| line.strip_prefix("    ")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("policy.yaml");
    fs::write(&path, policy.join("\n")).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let checked = check.args(["check", "--strict"]).arg(&path).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let redis = Server::start().unwrap();
    let swaps = [
        ("/etc/tidegate/policy.yaml", path.display().to_string()),
        ("redis://redis:6379", redis.url()),
    ];
    runs(&args, &swaps);
}
