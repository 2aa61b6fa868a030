//! `tidegate check` and `tidegate schema` as their users meet them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

const POLICY: &str = "\
rules:
  - { name: per-client, key: client, limit: 2/s }
  - { name: logins, match: { path: /login }, limit: 5/min, counts_when: { status: 401 } }
";

const ENVOY: &str = "\
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 100 }
";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> PathBuf {
    static NTH: AtomicUsize = AtomicUsize::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{nth}"));
    let _ = fs::remove_dir_all(&folder);
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().expect("a file is in a folder");
        fs::create_dir_all(parent).expect("the tests' own folder can be written");
        fs::write(path, text).expect("the tests' own folder can be written");
    }
    folder
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(folder).args(args).output().expect("the command can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints UTF-8")
}

/// Everything that is printed, and the exit code.
#[track_caller]
fn check(files: &[(&str, &str)], args: &[&str], code: i32, out: &str, err: &str) {
    let output = run(&folder(files), args);
    assert_eq!(text(&output.stderr), err);
    assert_eq!(text(&output.stdout), out);
    assert_eq!(output.status.code(), Some(code));
}

/// The lines of `--json`, each with its type.
fn json(files: &[(&str, &str)], args: &[&str]) -> Vec<Value> {
    let output = run(&folder(files), args);
    assert_eq!(text(&output.stderr), "");
    let lines = text(&output.stdout).lines();
    lines.map(|line| serde_json::from_str(line).expect("valid JSON")).collect()
}

#[test]
fn a_good_file_is_one_line() {
    let out = "policy.yaml: 2 rules, no problems\n";
    check(&[("policy.yaml", POLICY)], &["check", "policy.yaml"], 0, out, "");
    let toml = "[[rules]]\nname = \"a\"\nlimit = \"5/s\"\n";
    check(&[("a.toml", toml)], &["check", "a.toml"], 0, "a.toml: 1 rule, no problems\n", "");
    let json = r#"{ "$schema": "x", "rules": [{ "name": "a", "limit": "5/s" }] }"#;
    check(&[("a.json", json)], &["check", "a.json"], 0, "a.json: 1 rule, no problems\n", "");
}

#[test]
fn a_folder_is_one_policy_without_its_tests() {
    let more = "rules: [{ name: more, limit: 1/s }]";
    let files = [("p/a.yaml", POLICY), ("p/b.yml", more), ("p/a.tests.yaml", "tests: 1")];
    check(&files, &["check", "p"], 0, "p: 3 rules in 2 files, no problems\n", "");
    let out = "p/a.yaml: 2 rules, no problems\np/b.yml: 1 rule, no problems\n";
    check(&files, &["check", "p/a.yaml", "p/b.yml"], 0, out, "");
    let err = "error: there is no policy in `e`: add a file that ends in .yaml, .toml or .json\n";
    check(&[("e/a.txt", "")], &["check", "e"], 1, "", err);
}

/// A rule that is not read is a limit that is not there.
#[cfg(unix)]
#[test]
fn no_file_of_a_folder_is_passed_over() {
    use std::os::unix::fs::symlink;
    type Make = fn(&Path);
    let made: [(Make, &str); 4] = [
        (|path| symlink("nowhere", path).unwrap(), "No such file or directory (os error 2)"),
        (|path| symlink("30.yaml", path).unwrap(), "Too many levels of symbolic links"),
        (make_pipe, "it is no regular file"),
        (|path| fs::create_dir(path).unwrap(), "it is no regular file"),
    ];
    for (make, why) in made {
        let folder = folder(&[("p/10.yaml", POLICY)]);
        make(&folder.join("p/30.yaml"));
        let output = run(&folder, &["check", "p"]);
        let said = text(&output.stderr);
        assert!(said.starts_with(&format!("error: cannot read `p/30.yaml`: {why}")), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
    let files = [("p/10.yaml", POLICY), ("p/30.YAML", "rules: [{ name: more, limit: 1/s }]")];
    check(&files, &["check", "p"], 0, "p: 3 rules in 2 files, no problems\n", "");
    let files = [("p/10.yaml", POLICY), ("p/10.TESTS.Yaml", "tests: 1")];
    check(&files, &["check", "p"], 0, "p: 2 rules in 1 file, no problems\n", "");
}

#[cfg(unix)]
fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

#[cfg(unix)]
#[test]
fn a_policy_refers_to_no_pipe() {
    for field in ["secret_file", "key_file", "jwks_file"] {
        let policy = format!("jwt: {{ {field}: pipe }}\n{POLICY}");
        let folder = folder(&[("policy.yaml", &policy)]);
        make_pipe(&folder.join("pipe"));
        let output = run(&folder, &["check", "policy.yaml"]);
        let said = text(&output.stderr);
        assert!(said.contains("cannot read `pipe`: it is no regular file"), "{said}");
    }
}

/// What is written to a pipe is there once.
#[cfg(unix)]
#[test]
fn a_policy_from_a_pipe_is_read_once_for_all_tests() {
    let test = "{ name: a, send: /, steps: [{ expect: allow }] }";
    let tests = format!("tests: [{test}, {test}]");
    let folder = folder(&[("a.tests.yaml", &tests), ("b.tests.yaml", &tests), ("p", POLICY)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["check", "/dev/stdin", "--tests", "a.tests.yaml", "b.tests.yaml"]);
    let mut writes = Command::new("cat")
        .arg(folder.join("p"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = command.current_dir(folder).stdin(writes.stdout.take().unwrap()).output().unwrap();
    writes.wait().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(text(&output.stdout).ends_with("\n4 passed, 0 failed\n"), "{output:?}");
}

#[test]
fn a_mistake_is_shown_with_its_line() {
    let err = "\
error: unknown field `limt` in a rule
 --> a.yaml:1:20
  |
1 | rules: [{ name: a, limt: 5/s }]
  |                    ^^^^ did you mean `limit`?

";
    let out = "a.yaml: 2 errors\n";
    let output =
        run(&folder(&[("a.yaml", "rules: [{ name: a, limt: 5/s }]")]), &["check", "a.yaml"]);
    assert!(text(&output.stderr).ends_with(err), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout), output.status.code()), (out, Some(1)));
    let err = "\
error: `fast` does not start with a number
 --> a.toml:3:9
  |
3 | limit = \"fast/s\"
  |         ^^^^^^^^ write so many per period, as in `100/min`, `30/10s` or `1 per 2h`, or \
               `20 in flight`, `unlimited` or `block`

";
    let toml = "[[rules]]\nname = \"a\"\nlimit = \"fast/s\"\n";
    check(&[("a.toml", toml)], &["check", "a.toml"], 1, "a.toml: 1 error\n", err);
}

#[test]
fn what_is_no_file_of_ours_is_said() {
    let output = run(&folder(&[("a.yaml", "rules: [")]), &["check", "a.yaml"]);
    assert!(text(&output.stderr).contains("the file is not valid YAML"));
    assert_eq!((text(&output.stdout), output.status.code()), ("a.yaml: 1 error\n", Some(1)));
    let output = run(&folder(&[("a.json", "{")]), &["check", "a.json"]);
    assert!(text(&output.stderr).contains("the file is not valid JSON"));
    let output = run(&folder(&[("a.yaml", "")]), &["check", "missing.yaml", "a.yaml"]);
    let err = text(&output.stderr);
    assert!(err.starts_with("error: cannot read `missing.yaml`: "), "{err}");
    assert_eq!((text(&output.stdout), output.status.code()), ("a.yaml: 1 error\n", Some(1)));
    let giant = " ".repeat((16 << 20) + 1);
    let output = run(&folder(&[("a.yaml", &giant)]), &["check", "a.yaml"]);
    let err = "error: the file has `16777217` bytes, but at most `16777216` are read\n";
    assert!(text(&output.stderr).starts_with(err), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

const DOUBTFUL: &str = "\
rules:
  - { name: all, unlimited: true }
  - { name: never, limit: 5/s }
";

#[test]
fn a_warning_fails_only_those_who_are_strict() {
    let files = [("a.yaml", DOUBTFUL)];
    let err = "\
warning[unreachable-rule]: rule `never` never applies: `all` above ends the list
 --> a.yaml:3:13
  |
3 |   - { name: never, limit: 5/s }
  |             ^^^^^ move it above `all`, or give it a higher `priority`

";
    check(&files, &["check", "a.yaml"], 0, "a.yaml: 2 rules, 1 warning\n", err);
    check(&files, &["check", "a.yaml", "--strict"], 1, "a.yaml: 2 rules, 1 warning\n", err);
}

#[test]
fn findings_can_be_lines_of_json() {
    let found = json(&[("a.yaml", DOUBTFUL)], &["check", "--json", "a.yaml", "b.yaml"]);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0]["lint"], "unreachable-rule");
    let place = |line: &Value| (line["line"].as_u64(), line["column"].as_u64());
    assert_eq!((&found[0]["type"], &found[0]["level"]), (&"finding".into(), &"warning".into()));
    assert_eq!(place(&found[0]), (Some(3), Some(13)));
    let wanted = r#"{"type":"policy","path":"a.yaml","rules":2,"errors":0,"warnings":1}"#;
    assert_eq!(found[1].to_string(), wanted);
    assert_eq!((&found[2]["file"], &found[2]["level"]), (&"b.yaml".into(), &"error".into()));
}

#[test]
fn a_request_is_explained() {
    let args = ["check", "examples/policy.yaml", "--at", "2026-03-29T00:30:00+01:00"];
    let request = ["--request", "GET /search/books?q=x", "--from", "10.0.0.1"];
    let headers = ["--header", "X-Forwarded-For: 203.0.113.7", "--header", "x-api-key: demo-ada"];
    let args: Vec<&str> = args.into_iter().chain(request).chain(headers).collect();
    let output = run(&root(), &args);
    let wanted = "\
request   GET /search/books?q=x
address   203.0.113.7, by x-forwarded-for past 10.0.0.1
client    api-key = ada
tier      free

rule               cost  limit                    algorithm           key
health             is not for it: it wants path like /healthz, but there is /search/books
ceiling               1  20000/min                gcra                ip = 203.0.113.7
per-client            1  100/min, burst 50        token-bucket, free  api-key = ada
search                1  100/min                  sliding-window      api-key = ada + \
                  path = /search/books
failed-logins      is not for it: it wants method `post`, but there is GET
daily                 1  5000/day, Europe/Berlin  fixed-window        api-key = ada
everyone              1  10000/s                  gcra                everybody together
stricter-some-day     1  20/s                     gcra                api-key = ada (in shadow)

verdict   allow, if nothing has been used
headers   ratelimit-policy: \"per-client\";q=50;w=30, \"search\";q=100;w=60, \
                  \"daily\";q=5000;w=86400, \"everyone\";q=10000;w=1
          ratelimit: \"per-client\";r=49;t=1, \"search\";r=99;t=61, \"daily\";r=4999;t=81000, \
                  \"everyone\";r=9999;t=1
          x-ratelimit-limit: 50
          x-ratelimit-remaining: 49
          x-ratelimit-reset: 1774740601
";
    assert_eq!(text(&output.stdout), wanted);
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)));
}

#[test]
fn a_request_that_is_refused_is_explained_too() {
    let policy = "\
identify: { trusted_proxies: 10.0.0.0/8 }
rules:
  - { name: bad, match: { header: { x-bot: '*' } }, block: true }
  - { name: users, key: user, if_missing: skip, limit: 1/s, counts_when: { status: 401 } }
  - { name: big, cost: 5, limit: 2/s }
";
    let run = |more: &[&str]| {
        let args = ["check", "a.yaml", "--request", "/", "--from", "192.0.2.1"];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        let output = run(&folder(&[("a.yaml", policy)]), &args);
        assert!(output.status.success());
        text(&output.stdout).to_owned()
    };
    let shown = run(&["--header", "x-forwarded-for: 198.51.100.1"]);
    let lines = [
        "address   192.0.2.1; x-forwarded-for says nothing that is trusted\n",
        "bad       is not for it: it wants any header:x-bot, but there is none\n",
        "users     is skipped: the request has no user\n",
        "big          5  2/s    token-bucket  everybody together\n",
        "verdict   never, with status 429, if nothing has been used\n",
    ];
    for line in lines {
        assert!(shown.contains(line), "{line}{shown}");
    }
    let shown = run(&["--attribute", "user=ada"]);
    let line = "users        1* 1/s    token-bucket  user = ada\n";
    assert!(shown.contains(line) && shown.contains("* until the response says"), "{shown}");
    let shown = run(&["--header", "x-bot: yes"]);
    let lines = ["bad       refuses it\n", "verdict   block, with status 403\n", "body      {"];
    for line in lines.into_iter().chain(["users     is out of reach: `bad` ends the list\n"]) {
        assert!(shown.contains(line), "{line}{shown}");
    }
}

#[test]
fn a_request_can_be_explained_in_json() {
    let args = ["check", "a.yaml", "--json", "--request", "GET /", "--from", "192.0.2.1"];
    let found = json(&[("a.yaml", POLICY)], &args);
    let [found] = &found[..] else { panic!("one line") };
    assert_eq!(found["verdict"], "allow");
    assert_eq!(found["headers"]["x-ratelimit-remaining"], "1");
    let wanted = r#"{"name":"per-client","does":"counts","cost":1,"limit":2,"window_us":1000000,"#;
    assert!(found["rules"][0].to_string().starts_with(wanted), "{found}");
    assert_eq!(found["rules"][0]["quota"], "2/s");
    assert_eq!(found["rules"][1]["does"], "is-not-for-it");
}

#[test]
fn the_share_of_a_request_is_told() {
    let share = "share: [{ name: backend, capacity: 5 in flight, by: [header:x-org, ip], \
        weight: 3, class: { low: { path: /export } }, wait: 2s }]\n";
    let policy = format!("{POLICY}{share}");
    let files = [("policy.yaml", &*policy)];
    let request = ["check", "policy.yaml", "--request", "GET /export", "--from", "192.0.2.7"];
    let args = [&request[..], &["--header", "x-org: acme"]].concat();
    let output = run(&folder(&files), &args);
    let told = "share     backend, by header:x-org = acme, then ip = 192.0.2.7, weight 3, \
        class low, cost 1, for at most 2 s\n";
    assert!(text(&output.stdout).contains(told), "{}", text(&output.stdout));
    let told = json(&files, &[&args[..], &["--json"]].concat());
    let told = told.iter().find(|it| it["type"] == "request").expect("a request");
    let by = &told["share"]["by"];
    assert_eq!((&by[0], &by[1]), (&"header:x-org = acme".into(), &"ip = 192.0.2.7".into()));
    assert_eq!((&told["share"]["weight"], &told["share"]["class"]), (&3.into(), &"low".into()));
}

const TESTS: &str = "\
policy: policy.yaml
tests:
  - name: two at once
    send: GET /
    from: 192.0.2.1
    steps:
      - { times: 2, expect: allow }
      - { expect: deny, retry_after: 500ms }
  - name: three at once
    steps:
      - { send: GET /, from: 192.0.2.1, times: 3, expect: allow }
";

#[test]
fn a_test_that_fails_shows_where() {
    let files = [("p/policy.yaml", POLICY), ("p/a.tests.yaml", TESTS)];
    let out = "\
p/a.tests.yaml: 2 tests
ok      two at once
FAILED  three at once

        error: expected `allow`, but it was `deny` by `per-client`, retry after 500ms
          --> p/a.tests.yaml:11:59
           |
        11 |       - { send: GET /, from: 192.0.2.1, times: 3, expect: allow }
           |                                                           ^^^^^ request 3 of 3, \
               at the start


1 passed, 1 failed
";
    check(&files, &["check", "--tests", "p/a.tests.yaml"], 1, out, "");
    check(&files, &["check", "p/policy.yaml", "--tests", "p/a.tests.yaml"], 1, out, "");
    let found = json(&files, &["check", "--json", "--tests", "p/a.tests.yaml"]);
    assert_eq!((&found[0]["passed"], &found[1]["passed"]), (&true.into(), &false.into()));
    assert_eq!(found[1]["unmet"][0]["line"], 11);
    assert_eq!(found[2].to_string(), r#"{"type":"tests","passed":1,"failed":1}"#);
}

#[test]
fn a_file_of_tests_that_is_wrong_is_not_run() {
    let tests = "tests: [{ name: a, steps: [{ sned: GET /, expect: allow }] }]";
    let files = [("policy.yaml", POLICY), ("a.tests.yaml", tests)];
    let output = run(&folder(&files), &["check", "policy.yaml", "--tests", "a.tests.yaml"]);
    assert!(text(&output.stderr).contains("^^^^ did you mean `send`?"), "{output:?}");
    assert_eq!((text(&output.stdout), output.status.code()), ("a.tests.yaml: 2 errors\n", Some(1)));
    let tests = "tests: [{ name: a, steps: [{ send: /, expect: deny, by: per-clint }] }]";
    let files = [("policy.yaml", POLICY), ("a.tests.yaml", tests)];
    let output = run(&folder(&files), &["check", "policy.yaml", "--tests", "a.tests.yaml"]);
    assert!(text(&output.stderr).contains("did you mean `per-client`?"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    let output = run(&folder(&files), &["check", "--tests", "a.tests.yaml"]);
    let err = "error: nothing says which policy `a.tests.yaml` tests: name it before --tests, or \
               in the file as `policy: policy.yaml`\n\n\
               For more information, try 'tidegate check --help'.\n";
    assert_eq!((text(&output.stderr), output.status.code()), (err, Some(2)));
}

#[test]
fn misuse_is_told_from_mistakes() {
    let folder = folder(&[("a.yaml", POLICY), ("b.yaml", POLICY)]);
    for args in [
        &["check"][..],
        &["check", "a.yaml", "--header", "a: b"],
        &["check", "a.yaml", "--request", "search"],
        &["check", "a.yaml", "--request", "/", "--from", "localhost"],
        &["check", "a.yaml", "--request", "/", "--at", "noon"],
        &["check", "a.yaml", "b.yaml", "--request", "/"],
    ] {
        let output = run(&folder, args);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{args:?}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_examples_hold() {
    let output = run(&root(), &["check", "--strict", "examples/policy.yaml"]);
    assert_eq!(text(&output.stdout), "examples/policy.yaml: 8 rules, no problems\n");
    assert_eq!(output.status.code(), Some(0));
    let output = run(&root(), &["check", "--tests", "examples/policy.tests.yaml"]);
    assert!(text(&output.stdout).ends_with("\n12 passed, 0 failed\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_schemas_in_the_docs_are_those_of_the_code() {
    for (name, args) in [("policy", &["schema"][..]), ("policy-tests", &["schema", "--tests"])] {
        let path = format!("docs/{name}.schema.json");
        let kept = fs::read_to_string(root().join(&path)).unwrap_or_default();
        let printed = run(&root(), args).stdout;
        let renew = format!("renew it: cargo run -p tidegate-cli -- {} > {path}", args.join(" "));
        assert!(kept == text(&printed), "{path} differs from the code; {renew}");
    }
}

#[test]
fn files_of_envoy_are_checked_and_known() {
    let files = [("config/edge.yaml", ENVOY)];
    let out = "config: 1 limit in the domain edge, no problems\n";
    check(&files, &["check", "--envoy-config", "config"], 0, out, "");
    let err = "error: `config` is configuration of envoyproxy/ratelimit\n  check it with \
               `tidegate check --envoy-config config`, and serve it with `tidegate serve \
               --envoy-config config`\n";
    check(&files, &["check", "config"], 1, "", err);
    let wrong = [("config/edge.yaml", &*ENVOY.replace("minute", "minuet"))];
    let output = run(&folder(&wrong), &["check", "--envoy-config", "config"]);
    let said = text(&output.stderr);
    assert!(said.contains("there is no unit `minuet`"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let lines = json(&files, &["check", "--json", "--envoy-config", "config"]);
    assert_eq!(lines[0]["domains"], serde_json::json!(["edge"]));
}

#[test]
fn a_limit_is_shown_as_it_is_written() {
    let policy = "\
rules:
  - { name: api, limit: 100/min, burst: 5 }
  - { name: monthly, algorithm: fixed-window, limit: 100k/month, time_zone: America/New_York }
  - { name: bursty, limit: 10/s, credits: { for: 30s, rate: 10x } }
  - { name: slots, algorithm: concurrency, limit: 20 in flight }
";
    let args = ["check", "policy.yaml", "--request", "/"];
    let output = run(&folder(&[("policy.yaml", policy)]), &args);
    let shown = text(&output.stdout);
    let wanted = [
        "100/min, burst 5",
        "100k/month, America/New_York",
        "10/s, saves up to 310",
        "100 per second, burst 10",
        "20 in flight",
    ];
    for limit in wanted {
        assert!(shown.contains(limit), "no `{limit}` in\n{shown}");
    }
    assert!(!shown.contains("30 d"), "{shown}");
}
