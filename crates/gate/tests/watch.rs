//! A policy that is watched: however it is replaced, it is in force within a second.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::print_stdout, reason = "how long it took is worth knowing")]
#![cfg(unix)]

mod stand;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::{Gate, Reloaded, Watch};
use tidegate_store::{Clock as _, SystemClock};
use tidegate_testbed::until;

use self::stand::Folder;

/// Longer than any machine takes.
const LONG: Duration = Duration::from_secs(20);

fn policy(name: &str) -> String {
    format!("rules: [{{ name: {name}, limit: 5/min }}]\n")
}

/// A gate that watches, and what the watch reported.
struct Watched {
    gate: Gate,
    told: Arc<Mutex<Vec<Reloaded>>>,
    _watch: Watch,
}

impl Watched {
    fn new(path: &Path) -> Watched {
        let gate = Gate::from_file(path).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let tell = move |reloaded: &Reloaded| hears.lock().unwrap().push(reloaded.clone());
        let watch = gate.watch(path, tell).unwrap();
        Watched { gate, told, _watch: watch }
    }

    fn names(&self) -> Vec<String> {
        self.gate.rules().rules().iter().map(|rule| rule.name().to_owned()).collect()
    }

    /// Waits until these rules are in force, and says how long that took.
    #[track_caller]
    fn becomes(&self, how: &str, names: &[&str]) {
        let start = SystemClock::new().now();
        let done = until(LONG, &format!("{how}: {names:?} in force"), || self.names() == names);
        if let Err(error) = done {
            panic!("{error}; told {:?}", self.told.lock().unwrap());
        }
        let took = SystemClock::new().now().since(start).get() / 1_000;
        println!("{how}: {took} ms");
    }

    /// Waits until a report says that a policy is wrong, and says why.
    #[track_caller]
    fn hears_why(&self) -> String {
        let mut why = None;
        until(LONG, "it is told why", || {
            let mut told = self.told.lock().unwrap();
            why = told.drain(..).find_map(|reloaded| match reloaded {
                Reloaded::Kept { error } => Some(error),
                _ => None,
            });
            why.is_some()
        })
        .unwrap();
        why.unwrap()
    }
}

#[test]
fn a_file_that_is_written_in_place_or_renamed_over() {
    let folder = Folder::new();
    let path = folder.write("policy.yaml", &policy("one"));
    let watched = Watched::new(&path);
    folder.write("policy.yaml", &policy("second"));
    watched.becomes("written in place", &["second"]);
    folder.write("new.tmp", &policy("third"));
    fs::rename(folder.join("new.tmp"), &path).unwrap();
    watched.becomes("renamed over", &["third"]);
    // Two texts of the same size within the same moment.
    for turn in 0..20 {
        let (first, last) = (format!("a{}", turn % 10), format!("b{}", turn % 10));
        folder.write("policy.yaml", &policy(&first));
        if turn % 3 == 0 {
            watched.becomes("same size", &[&first]);
        }
        folder.write("policy.yaml", &policy(&last));
        watched.becomes("same size, twice", &[&last]);
    }
}

/// The half of a policy is often one as well, and would let pass whatever the other half limits.
#[test]
fn a_file_that_is_being_written_is_left_to_be_finished() {
    let folder = Folder::new();
    let whole = |turn: u32| {
        let rule = |name: &str| format!("  - {{ name: {name}, limit: {}/min }}\n", turn + 1);
        ["rules:\n".to_owned() + &rule("first"), rule("last")]
    };
    let path = folder.write("policy.yaml", &whole(0).concat());
    let watched = Watched::new(&path);
    let gate = watched.gate.clone();
    let mut halves = 0;
    for turn in 1..60 {
        let mut file = fs::File::create(&path).unwrap();
        let [first, last] = whole(turn);
        file.write_all(first.as_bytes()).unwrap();
        // A caller that looks now sees the half.
        let written = SystemClock::new().now();
        while SystemClock::new().now().since(written) < Span::from_millis(60) {
            halves += u32::from(gate.rules().rules().len() < 2);
            std::thread::yield_now();
        }
        file.write_all(last.as_bytes()).unwrap();
    }
    assert_eq!(halves, 0, "a half was in force");
    watched.becomes("finished", &["first", "last"]);
}

#[test]
fn a_mounted_config_map() {
    let folder = Folder::new();
    let version = |name: &str, rule: &str| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("policy.yaml"), policy(rule)).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    version("..2024_01_01", "one");
    symlink("..data/policy.yaml", folder.join("policy.yaml")).unwrap();
    let (file, whole) = (Watched::new(&folder.join("policy.yaml")), Watched::new(folder.path()));
    version("..2024_01_02", "two");
    fs::remove_dir_all(folder.join("..2024_01_01")).unwrap();
    file.becomes("symlink swapped", &["two"]);
    whole.becomes("symlink swapped in a folder", &["two"]);
    version("..2024_01_03", "two-and-a-half");
    file.becomes("swapped again", &["two-and-a-half"]);
    whole.becomes("swapped again in a folder", &["two-and-a-half"]);
}

#[test]
fn a_folder_whose_files_come_and_go() {
    let folder = Folder::new();
    folder.write("10.yaml", &policy("ten"));
    let watched = Watched::new(folder.path());
    folder.write("20.yaml", &policy("twenty"));
    watched.becomes("file added", &["ten", "twenty"]);
    folder.write("notes.txt", "nothing");
    folder.write("05.toml", "[[rules]]\nname = \"five\"\nlimit = \"5/min\"\n");
    watched.becomes("file of another kind added", &["five", "ten", "twenty"]);
    fs::remove_file(folder.join("10.yaml")).unwrap();
    watched.becomes("file removed", &["five", "twenty"]);
    fs::rename(folder.join("20.yaml"), folder.join("00.yaml")).unwrap();
    watched.becomes("file renamed", &["twenty", "five"]);
    fs::remove_file(folder.join("00.yaml")).unwrap();
    fs::remove_file(folder.join("05.toml")).unwrap();
    assert!(watched.hears_why().contains("there is no policy in"));
    assert_ne!(watched.names(), [] as [&str; 0], "the one before stays");
}

/// To remove what a link leads to does not take its rules away.
#[test]
fn a_link_of_a_folder_that_leads_nowhere() {
    let (folder, beside) = (Folder::new(), Folder::new());
    folder.write("10.yaml", &policy("ten"));
    let target = beside.write("there.yaml", &policy("twenty"));
    symlink(&target, folder.join("20.yaml")).unwrap();
    let watched = Watched::new(folder.path());
    fs::remove_file(&target).unwrap();
    let why = watched.hears_why();
    assert!(why.contains("20.yaml"), "{why}");
    assert_eq!(watched.names(), ["ten", "twenty"]);
    beside.write("there.yaml", &policy("thirty"));
    watched.becomes("the link leads somewhere again", &["ten", "thirty"]);
}

#[test]
fn a_wrong_or_deleted_file_never_replaces_a_right_one() {
    let folder = Folder::new();
    let path = folder.write("policy.yaml", &policy("one"));
    let watched = Watched::new(&path);
    folder.write("policy.yaml", "rules: [{ name: r, limit: lots }]");
    let why = watched.hears_why();
    assert!(why.contains("lots"), "{why}");
    assert_eq!(watched.names(), ["one"]);
    // Another one goes by several times meanwhile: what is wrong is not told again.
    let beside = Folder::new();
    let other = Watched::new(&beside.write("policy.yaml", &policy("a")));
    for name in ["bb", "ccc", "dddd"] {
        beside.write("policy.yaml", &policy(name));
        other.becomes("beside it", &[name]);
    }
    assert_eq!(watched.told.lock().unwrap().len(), 0);
    folder.write("policy.yaml", &policy("two"));
    watched.becomes("good again", &["two"]);
    fs::remove_file(&path).unwrap();
    let why = watched.hears_why();
    assert!(why.contains("cannot read"), "{why}");
    assert_eq!(watched.names(), ["two"]);
    folder.write("policy.yaml", &policy("three"));
    watched.becomes("there again", &["three"]);
    // What is reported is reported once, however often the file is looked at.
    let told = watched.told.lock().unwrap().clone();
    let done = |it: &&Reloaded| matches!(it, Reloaded::Done { .. });
    assert!(told.iter().filter(done).count() <= 2, "{told:?}");
}

const WITH_KEY: &str = "
jwt: { secret_file: secret.txt }
identify: { client: ['jwt:sub'] }
rules: [{ name: with-key, key: client, limit: 5/min }]
";

#[test]
fn key_files_that_the_policy_refers_to() {
    let folder = Folder::new();
    folder.write("secret.txt", "a secret that is long enough for anybody");
    let path = folder.write("policy.yaml", WITH_KEY);
    let watched = Watched::new(&path);
    let told = |count: usize| {
        until(LONG, "it is told", || watched.told.lock().unwrap().len() == count).unwrap();
    };
    folder.write("secret.txt", "another one that is long enough for anybody");
    told(1);
    assert!(matches!(watched.told.lock().unwrap()[0], Reloaded::Done { .. }));
    folder.write("secret.txt", "");
    watched.hears_why();
    folder.write("secret.txt", "the third one that is long enough for anybody");
    told(1);
    assert!(matches!(watched.told.lock().unwrap()[0], Reloaded::Done { .. }));
}

/// The policy comes first, its key a little later: it is not forgotten meanwhile.
#[test]
fn a_key_file_that_comes_after_the_policy() {
    let folder = Folder::new();
    let path = folder.write("policy.yaml", &policy("one"));
    let watched = Watched::new(&path);
    folder.write("policy.yaml", WITH_KEY);
    assert!(watched.hears_why().contains("secret.txt"));
    folder.write("secret.txt", "a secret that is long enough for anybody");
    watched.becomes("key file came later", &["with-key"]);
}

/// To open it again would be to wait for somebody who writes to it.
#[test]
fn a_pipe_is_not_watched() {
    let folder = Folder::new();
    let (file, pipe) = (folder.write("policy.yaml", &policy("a")), folder.join("pipe"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let gate = Gate::from_file(&file).unwrap();
    let refused = gate.watch(&pipe, |_| ()).unwrap_err().to_string();
    assert_eq!(refused, "it is a pipe or a device, and only a file or a folder can be watched");
    assert_eq!(gate.rules().rules()[0].name(), "a");
}

/// Keys are given out and taken back while it runs; a file of them that is broken, or gone, changes
/// nothing.
#[test]
fn the_file_of_api_keys() {
    const POLICY: &str = "
api_keys: { header: x-api-key, file: keys.yaml }
rules:
  - { name: no-key, match: { not: { api_key: { name: '*' } } }, block: true }
  - { name: a, key: api-key, limit: 1000/min }
";
    let folder = Folder::new();
    let write = |keys: &[&str]| {
        let listed = |key: &&str| {
            let hash = tidegate_config::KeyHash::of(key.as_bytes());
            format!("{{ sha256: {hash} }}")
        };
        let keys: Vec<String> = keys.iter().map(listed).collect();
        folder.write("new.tmp", &format!("names: {{ acme: {{ keys: [{}] }} }}", keys.join(", ")));
        fs::rename(folder.join("new.tmp"), folder.join("keys.yaml")).unwrap();
    };
    write(&["one"]);
    let watched = Watched::new(&folder.write("policy.yaml", POLICY));
    let passes = |key: &str| {
        let request = tidegate_gate::Sample::new("GET /").with_header("x-api-key", key);
        watched.gate.decide(&request).verdict().passes()
    };
    let known = |key: &str| until(LONG, &format!("{key} is known"), || passes(key)).unwrap();
    let unknown = |key: &str| until(LONG, &format!("{key} is not"), || !passes(key)).unwrap();
    assert!(passes("one") && !passes("two"));
    write(&["one", "two"]);
    known("two");
    assert!(passes("one"));
    fs::remove_file(folder.join("keys.yaml")).unwrap();
    assert!(watched.hears_why().contains("cannot read `keys.yaml`"));
    assert!(passes("one") && passes("two") && !passes("three"));
    folder.write("keys.yaml", "names: { acme: { keys: [three] } }");
    assert!(watched.hears_why().contains("keys.yaml:1: a key is a map"));
    assert!(passes("one") && passes("two") && !passes("three"));
    write(&["two"]);
    unknown("one");
    assert!(passes("two"));
}
