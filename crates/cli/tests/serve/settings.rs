//! Settings of the server: by flags, by variables and by a file, and wrong ones.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::Command;

use tidegate_testbed::{Daemon, Http, Ready};

use crate::stand::{JSON, Tidegate, command, local};

/// Starts with what is said, and tells what can be seen of it.
fn seen(say: impl FnOnce(&mut Command, &[(&str, String)], &std::path::Path)) -> Vec<String> {
    let mut builder = Daemon::builder().unwrap();
    let port = builder.port().unwrap();
    let policy = builder.write("policy.yaml", "rules: [{ name: all, limit: 7/min }]").unwrap();
    let tokens = "check 0123456789abcdef\nadmin fedcba9876543210\n";
    let tokens = builder.write("tokens", tokens).unwrap();
    let settings = [
        ("policy", policy.display().to_string()),
        ("token-file", tokens.display().to_string()),
        ("http", local(port)),
        ("grpc", "off".to_owned()),
        ("resp", "off".to_owned()),
        ("clock", "manual".to_owned()),
        ("threads", "1".to_owned()),
        ("log", "json".to_owned()),
        ("drain", "3s".to_owned()),
    ];
    let mut command = command();
    say(&mut command, &settings, builder.folder());
    let daemon = builder.start(command, Ready::Answers(port, "/readyz".to_owned())).unwrap();
    let mut http = Http::connect(port).unwrap();
    let token = [("x-tidegate-token", "0123456789abcdef")];
    let mut told = vec![
        http.send("POST", "/v1/check", &JSON, b"{}").unwrap().status.to_string(),
        http.send("POST", "/v1/check", &[JSON[0], token[0]], b"{}").unwrap().text(),
        http.send("GET", "/v1/clock", &token, b"").unwrap().text(),
    ];
    let log = daemon.log();
    told.extend(log.lines().filter(|line| line.contains(" off")).map(str::to_owned));
    told
}

#[test]
fn flags_variables_and_a_file_say_the_same() {
    let by_flags = seen(|command, settings, _| {
        for (name, value) in settings {
            command.arg(format!("--{name}")).arg(value);
        }
    });
    assert!(by_flags[1].contains(r#""limit":7,"#) && by_flags[2].contains(r#""manual":true"#));
    assert_eq!((&*by_flags[0], by_flags.len()), ("401", 3), "as JSON there is no banner");
    let by_variables = seen(|command, settings, _| {
        for (name, value) in settings {
            let name = name.to_ascii_uppercase().replace('-', "_");
            command.env(format!("TIDEGATE_{name}"), value);
        }
    });
    assert_eq!(by_variables, by_flags);
    let by_file = seen(|command, settings, folder| {
        let lines = settings.iter().map(|(name, value)| format!("{name} = {value:?}\n"));
        let path = folder.join("settings.toml");
        fs::write(&path, lines.collect::<String>()).unwrap();
        command.arg("--config").arg(path);
    });
    assert_eq!(by_file, by_flags);
}

/// What is said to a command that cannot be carried out.
#[track_caller]
fn refused(flags: &[&str], says: &[&str]) {
    let folder = tempfile();
    let mut command = command();
    command.current_dir(&folder);
    // Only what is tried may go wrong.
    for door in ["--http", "--grpc", "--resp"] {
        if !flags.contains(&door) {
            command.args([door, "off"]);
        }
    }
    let output = command.args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{flags:?} were accepted");
    for word in says {
        assert!(said.contains(word), "{flags:?}: no `{word}` in\n{said}");
    }
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
}

/// The tests' own folder, with a few files that are wrong.
fn tempfile() -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-wrong");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("wrong.yaml", "rules: [{ name: all, limt: 7/min }]"),
        ("wrong.toml", "htpp = 'off'\n"),
        ("short.tokens", "check abc\n"),
        ("short.secret", "hunter2\n"),
        ("no.pem", "nothing\n"),
        ("empty.url", "\n"),
        ("wrong.url", "redis:/nowhere:hunter2\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn what_is_wrong_is_told_with_a_way_out() {
    refused(&["--polcy", "a"], &["--polcy", "--policy"]);
    refused(&["--http", "localhost"], &["--http", "give an address and a port"]);
    refused(&["--drain", "10"], &["--drain", "give a number with a unit"]);
    refused(&["--policy", "missing.yaml"], &["missing.yaml"]);
    refused(&["--policy", "wrong.yaml"], &["wrong.yaml", "limt", "limit"]);
    refused(&["--config", "missing.toml"], &["missing.toml"]);
    refused(&["--config", "wrong.toml"], &["line 1: no setting `htpp`", "did you mean `http`?"]);
    refused(&["--token-file", "short.tokens"], &["line 1", "at least 16 bytes"]);
    refused(&["--tls-certificate", "no.pem"], &["--tls-key"]);
    refused(
        &["--tls-certificate", "no.pem", "--tls-key", "no.pem"],
        &["no.pem", "holds no certificate"],
    );
    refused(&["--envoy-config", "missing"], &["missing"]);
    refused(&["--admin", "wrong.toml"], &["wrong.toml", "no socket", "another path"]);
    refused(&["--store", "redis:/nowhere"], &["the URL has no `://`, for example"]);
    refused(&["--store-file", "missing.url"], &["--store-file", "missing.url"]);
    refused(&["--store-file", "empty.url"], &["--store-file", "write the URL"]);
    refused(&["--store-file", "wrong.url"], &["the URL has no `://`, for example"]);
    refused(
        &["--store-file", "wrong.url", "--store", "redis://127.0.0.1"],
        &["--store and --store-file", "give one of them"],
    );
    refused(&["--key-secret-file", "missing.secret"], &["--key-secret-file", "missing.secret"]);
    refused(&["--key-secret-file", "short.secret"], &["32 to 4096 bytes", "openssl rand"]);
    refused(&["--store-prefix", "shop"], &["--store-prefix is for states in Redis"]);
    refused(&["--store-prefix", "a:{b}"], &["--store-prefix", "letters, digits"]);
    refused(&["--store", "redis://127.0.0.1:1", "--clock", "manual"], &["--clock manual"]);
}

#[test]
fn help_does_not_show_the_password_of_a_store() {
    let mut command = command();
    command.env("TIDEGATE_STORE", "redis://ada:hunter2@127.0.0.1").arg("--help");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("TIDEGATE_STORE") && !said.contains("hunter2"), "{said}");
}

/// The policy was said, and would not have been in force: the sample would have been.
#[test]
fn a_misspelled_variable_is_no_sample_policy() {
    for (wrong, meant) in
        [("TIDEGATE_POLCY", "TIDEGATE_POLICY"), ("TIDEGATE_TOKENFILE", "TIDEGATE_TOKEN_FILE")]
    {
        let mut command = command();
        command.env(wrong, "a secret, say").args(["--http", "off", "--grpc", "off"]);
        // It ends in any case, for this if for nothing else.
        command.args(["--resp", "off", "--policy", "missing.yaml"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`{wrong}`: did you mean `{meant}`?")), "{said}");
        assert!(!said.contains("a secret"), "{said}");
    }
}

#[test]
fn an_unknown_variable_is_warned_of_but_for_those_of_kubernetes() {
    let mut builder = Daemon::builder().unwrap();
    let port = builder.port().unwrap();
    let mut command = command();
    command.args(["--http", &local(port), "--grpc", "off", "--resp", "off"]);
    for (name, value) in [
        ("TIDEGATE_COLOUR", "a secret, say"),
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT", "8080"),
        ("TIDEGATE_PORT", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
    ] {
        command.env(name, value);
    }
    let daemon = builder.start(command, Ready::Answers(port, "/readyz".to_owned())).unwrap();
    let log = daemon.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("variable")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("TIDEGATE_COLOUR") && !log.contains("a secret"), "{log}");
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for door in ["--http", "--grpc", "--resp"] {
        refused(&[door, &address], &[&format!("cannot listen on {address}"), "another address"]);
    }
}

/// A policy that comes from a secret store, say. What came out of a pipe cannot be read again.
#[test]
fn a_policy_from_a_pipe_stays_as_it_is() {
    let mut builder = Daemon::builder().unwrap();
    let port = builder.port().unwrap();
    builder.write("policy.yaml", "rules: [{ name: all, limit: 7/min }]").unwrap();
    let pipe = builder.folder().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat policy.yaml > pipe"]).current_dir(builder.folder());
    let mut writer = writer.spawn().unwrap();
    let mut command = command();
    command.arg("--policy").arg(&pipe).args(["--http", &local(port), "--grpc", "off"]);
    let socket = builder.folder().join("admin.sock");
    command.args(["--resp", "off", "--admin"]).arg(&socket);
    let daemon = builder.start(command, Ready::Answers(port, "/readyz".to_owned())).unwrap();
    writer.wait().unwrap();
    let told = Http::post(port, "/v1/check", "{}").unwrap().text();
    assert!(told.contains("\"remaining\":6"), "{told}");
    assert!(daemon.log().contains("the policy is from a pipe"), "{}", daemon.log());
    assert_eq!(Http::post(port, "/v1/reload", "").unwrap().status, 403, "anybody may have asked");
    let mut admin = Http::over(UnixStream::connect(socket).unwrap(), "localhost");
    assert_eq!(admin.send("POST", "/v1/reload", &[], b"").unwrap().status, 409);
}

#[test]
fn a_policy_with_warnings_says_so_when_it_starts() {
    let rules = "{ name: all, unlimited: true }, { name: none, limit: 1/s }";
    let server = Tidegate::start(&format!("rules: [{rules}]"), &[]).unwrap();
    let log = server.daemon.log();
    assert!(log.contains("warning[unreachable-rule]: rule `none` never applies"), "{log}");
    let allowed = format!("allow: unreachable-rule\nrules: [{rules}]");
    let log = Tidegate::start(&allowed, &[]).unwrap().daemon.log();
    assert!(!log.contains("warning"), "{log}");
}

#[test]
fn a_secret_for_keys_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    for (mode, warns) in [(0o604, true), (0o600, false), (0o640, false)] {
        let mut builder = Daemon::builder().unwrap();
        let port = builder.port().unwrap();
        let secret = builder.write("secret", &"a".repeat(32)).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = command();
        command.args(["--http", &local(port), "--grpc", "off", "--resp", "off"]);
        command.arg("--key-secret-file").arg(&secret);
        let daemon = builder.start(command, Ready::Answers(port, "/readyz".to_owned())).unwrap();
        let log = daemon.log();
        assert_eq!(log.contains("others may read the secret"), warns, "{mode:o}: {log}");
    }
}

#[test]
fn secrets_that_others_may_read_are_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("open-secrets");
    fs::create_dir_all(&folder).unwrap();
    let (tokens, snapshot) = (folder.join("tokens"), folder.join("states"));
    fs::write(&tokens, "admin fedcba9876543210\n").unwrap();
    let _ = fs::remove_file(&snapshot);
    let (tokens, snapshot) = (tokens.to_str().unwrap(), snapshot.to_str().unwrap());
    let flags = ["--token-file", tokens, "--snapshot", snapshot];
    for (mode, warns) in [(0o644, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(tokens, fs::Permissions::from_mode(mode)).unwrap();
        let server = Tidegate::start("rules: [{ name: all, limit: 1/s }]", &flags).unwrap();
        let log = server.daemon.log();
        assert_eq!(log.contains("others on this machine may read it"), warns, "{mode:o}: {log}");
        assert!(!log.contains("fedcba"), "{log}");
    }
}
