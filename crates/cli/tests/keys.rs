//! `tidegate keys` as those meet it who give out keys.
#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tidegate_testbed::until;

const POLICY: &str = "
api_keys: { header: x-api-key, file: keys.yaml }
identify: { client: [api-key, ip] }
tiers: { default: free }
rules:
  - { name: per-client, key: client, limit: { free: 1/min, pro: 9/min } }
";

/// A folder of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("keys-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the tests' own folder can be written");
    folder
}

fn run(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let command = command.current_dir(folder).args(args);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the command can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    // It may have ended without reading.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// What it prints; it has to do what it was asked.
#[track_caller]
fn done(folder: &Path, args: &[&str], input: &str) -> (String, String) {
    let output = run(folder, args, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command prints UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    (out, err)
}

/// What is wrong with it; the file stays as it is.
#[track_caller]
fn refused(folder: &Path, args: &[&str], input: &str, expected: &str) {
    let before = fs::read(folder.join("keys.yaml")).ok();
    let output = run(folder, args, input);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains(expected), "{err}");
    assert!(!err.contains("a-key"), "no key is repeated: {err}");
    assert_eq!(fs::read(folder.join("keys.yaml")).ok(), before);
}

#[track_caller]
fn add(folder: &Path, args: &[&str]) -> String {
    let (out, err) = done(folder, &[&["keys", "add"], args].concat(), "");
    let key = out.strip_suffix('\n').expect("one line");
    assert!(key.starts_with("tg_") && !key.contains(char::is_whitespace), "{out}");
    assert!(!err.contains(key));
    key.to_owned()
}

/// What the policy says of a request with this key.
fn asks(folder: &Path, key: &str) -> String {
    let header = format!("x-api-key: {key}");
    let args = ["check", "policy.yaml", "--request", "/", "--from", "192.0.2.1", "--header"];
    done(folder, &[&args[..], &[&header]].concat(), "").0
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn a_key_is_shown_once_and_known_from_then_on() {
    let folder = folder("once");
    fs::write(folder.join("policy.yaml"), POLICY).expect("a file");
    let key = add(&folder, &["acme", "--tier", "pro", "--attribute", "tenant=a1"]);
    let file = fs::read_to_string(folder.join("keys.yaml")).expect("a file");
    assert!(!file.contains(&key) && file.contains("tier: pro"), "{file}");
    assert_eq!(mode(&folder.join("keys.yaml")), 0o600);
    let known = asks(&folder, &key);
    assert!(known.contains("api-key = acme") && known.contains("pro"), "{known}");
    let unknown = asks(&folder, &key.to_uppercase());
    assert!(unknown.contains("ip = 192.0.2.1") && !unknown.contains("acme"), "{unknown}");
    // Nothing is left beside it.
    let names = fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(names, 2);
}

#[test]
fn keys_are_replaced_one_after_the_other() {
    let folder = folder("replaced");
    fs::write(folder.join("policy.yaml"), POLICY).expect("a file");
    let first = add(&folder, &["acme", "--tier", "pro"]);
    let second = add(&folder, &["acme", "--expires", "2200-12-31"]);
    let (list, _) = done(&folder, &["keys", "list"], "");
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), rows[0][0], &rows[1][..2]), (3, "NAME", &["acme", "pro"][..]));
    assert_eq!((rows[1][3], rows[2][3]), ("never", "2200-12-31T00:00:00Z"));
    for key in [&first, &second] {
        assert!(asks(&folder, key).contains("api-key = acme"));
    }
    done(&folder, &["keys", "revoke", rows[1][2]], "");
    assert!(!asks(&folder, &first).contains("acme") && asks(&folder, &second).contains("acme"));
    done(&folder, &["keys", "revoke", "acme"], "");
    assert!(!asks(&folder, &second).contains("acme"));
    assert_eq!(done(&folder, &["keys", "list"], "").0.lines().count(), 1);
    refused(&folder, &["keys", "revoke", "acme"], "", "there is no name and no key `acme`");
}

#[test]
fn keys_that_were_given_out_before_are_hashed() {
    let folder = folder("import");
    fs::write(folder.join("policy.yaml"), POLICY).expect("a file");
    let lines = "# name,key,tier\nacme,the-first-a-key-of-acme,pro\r\nbob, a-key-of-bob \n\n";
    let (out, err) = done(&folder, &["keys", "import"], lines);
    assert_eq!(out, "2 keys imported, 0 known already\n");
    assert!(err.contains("1 of them have fewer than 20 characters"), "{err}");
    assert!(asks(&folder, "the-first-a-key-of-acme").contains("api-key = acme"));
    assert!(asks(&folder, "a-key-of-bob").contains("api-key = bob"));
    let again = format!("{lines}acme,another-a-key-of-acme");
    let (out, _) = done(&folder, &["keys", "import"], &again);
    assert_eq!(out, "1 keys imported, 2 known already\n");
    for (wrong, expected) in [
        ("", "has no keys"),
        ("carl,c-key-of-carl\nacme", "line 2 is none of"),
        ("a,a-key,b,c", "line 1 is none of"),
        ("carl,a-key-of-bob", "line 1 has another name already"),
        ("acme,a-key-2,free", "line 1 has keys of another tier"),
        ("carl,a-key\u{7f}", "line 1 cannot be sent"),
        (",a-key", "line 1 is empty"),
    ] {
        refused(&folder, &["keys", "import"], wrong, expected);
    }
    let many: Vec<String> = (0..9).map(|number| format!("carl,a-key-{number}\n")).collect();
    let many = many.concat();
    refused(&folder, &["keys", "import"], &many, "`carl` has 8 keys already");
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let folder = folder("sense");
    refused(&folder, &["keys", "revoke", "acme"], "", "cannot read `keys.yaml`");
    refused(&folder, &["keys", "add", "acme", "--expires", "2001-01-01"], "", "expired already");
    refused(&folder, &["keys", "add", "acme", "--expires", "soon"], "", "2030-01-31");
    refused(&folder, &["keys", "add", " acme"], "", "bytes");
    refused(&folder, &["keys", "add", "acme", "--file", "keys.json"], "", "written as YAML");
    assert!(!folder.join("keys.yaml").exists());
    add(&folder, &["acme", "--tier", "pro"]);
    refused(&folder, &["keys", "add", "acme", "--tier", "free"], "", "another tier (pro)");
    refused(&folder, &["keys", "add", "acme", "--attribute", "tier=x"], "", "use --tier");
    fs::write(folder.join("keys.yaml"), "names:\n  acme: { keys: [a-key] }\n").expect("a file");
    refused(&folder, &["keys", "add", "acme"], "", "keys.yaml:2: a key is a map");
}

/// The server may run as another user than the one who gives out keys.
#[test]
fn a_file_stays_whose_it_is_and_a_link_one() {
    let folder = folder("mode");
    fs::create_dir(folder.join("there")).expect("a folder");
    add(&folder, &["acme", "--file", "there/real.yaml"]);
    let real = folder.join("there/real.yaml");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("it is ours");
    symlink("there/real.yaml", folder.join("keys.yaml")).expect("a link");
    add(&folder, &["bob"]);
    assert_eq!(mode(&real), 0o640);
    assert!(fs::symlink_metadata(folder.join("keys.yaml")).expect("a link").is_symlink());
    assert!(fs::read_to_string(&real).expect("a file").contains("bob"));
}

/// Of two that change the file at once, neither loses what the other wrote.
#[test]
fn nobody_changes_the_file_while_somebody_does() {
    let folder = folder("lock");
    add(&folder, &["acme"]);
    let file = fs::File::open(folder.join("keys.yaml")).expect("a file");
    file.lock().expect("nobody else has it");
    refused(&folder, &["keys", "add", "bob"], "", "is being changed by somebody else");
    drop(file);
    // A process that another test is about to start may hold a copy of it for a moment.
    let is_added = || run(&folder, &["keys", "add", "bob"], "").status.success();
    until(Duration::from_mins(1), "the file is free again", is_added).expect("it is");
}
