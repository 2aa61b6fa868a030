//! The command as its users meet it: what it prints, writes and refuses.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// The command, in an empty folder of its own.
fn tidegate(folder: &str) -> (Command, PathBuf) {
    static NTH: AtomicUsize = AtomicUsize::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{folder}-{nth}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the tests' own folder can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(&path);
    (command, path)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints UTF-8")
}

fn run(folder: &str, args: &[&str]) -> Output {
    tidegate(folder).0.args(args).output().expect("the command can be started")
}

/// What `args` and `--json` print.
fn json(folder: &str, args: &[&str]) -> Value {
    let args: Vec<&str> =
        ["simulate", "--json", "--no-picture"].iter().chain(args).copied().collect();
    let output = run(folder, &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("valid JSON")
}

/// Refused with code 2, and with exactly this said.
#[track_caller]
fn refuses(args: &[&str], said: &str) {
    let output = run("refusals", args);
    assert_eq!(text(&output.stderr), said);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
}

const DEFAULT: &str = "\
boundary-burst: the whole quota just before a window's edge, and again just after it.
400 requests in 4 min of virtual time, against a quota of 100 per minute.

algorithm       offered  admitted  worst minute  excess  ratio  smoothness  memory/key
fixed-window        400       400    200 of 100    +100  2.00x          5%        16 B
sliding-window      400       204    102 of 100      +2  1.02x         10%        16 B
sliding-log         400       200    100 of 100    none  1.00x         10%       912 B
token-bucket        400       206    103 of 100      +3  1.03x         10%         8 B
leaky-queue         400       206    100 of 100    none  1.00x        100%         8 B

  worst minute: the most cells that started within any span of one minute, wherever it begins
  smoothness: an even tenth of the quota, divided by the busiest tenth of a period;
    100% is even, 10% is a whole quota in a rush
  leaky-queue: 204 of its 206 had to wait, 59.4 s at most; they are counted when they start
  token-bucket: within its law, which is one burst and one period's cells: up to 200
  gcra and leaky-bucket admit exactly what token-bucket admits: they are the same line

The picture is in ./simulation.svg and ./simulation.png.

Go on with `tidegate simulate --help` for other traffic, and `tidegate explain` for what each
algorithm is for.
";

#[test]
fn simulate_without_options_shows_the_burst_at_the_edge() {
    let (mut command, folder) = tidegate("default");
    let output = command.arg("simulate").output().unwrap();
    assert_eq!(text(&output.stdout), DEFAULT);
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    let svg = fs::read_to_string(folder.join("simulation.svg")).unwrap();
    assert!(svg.contains("worst minute: 200 of 100 (2.00× the quota)"));
    let png = fs::read(folder.join("simulation.png")).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
}

#[test]
fn without_arguments_it_serves_and_says_what_to_try() {
    let (mut command, _) = tidegate("serves");
    for door in ["TIDEGATE_HTTP", "TIDEGATE_GRPC", "TIDEGATE_RESP"] {
        command.env(door, "127.0.0.1:0");
    }
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    let tries = said.by_ref().map(Result::unwrap).skip_while(|line| line != "Try:");
    let tries: Vec<String> = tries.skip(1).take(3).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(first, "tidegate is ready: policy sample, states in this process");
    for (line, program) in tries.iter().zip(["curl", "redis-cli", "grpcurl"]) {
        assert!(line.trim_start().starts_with(program), "{line}");
    }
}

#[test]
fn only_the_fixed_window_lets_twice_the_quota_through() {
    let value = json("twice", &["--algorithms", "all"]);
    let algorithms = value["algorithms"].as_array().unwrap();
    assert_eq!(algorithms.len(), 8);
    for algorithm in algorithms {
        let cells = algorithm["worst"]["cells"].as_u64().unwrap();
        match algorithm["name"].as_str().unwrap() {
            "fixed-window" => assert_eq!(cells, 200),
            "sliding-log" | "leaky-queue" | "concurrency" => assert_eq!(cells, 100),
            name => assert!((100..=105).contains(&cells), "{name}: {cells}"),
        }
    }
}

#[test]
fn three_algorithms_are_one_line() {
    for shape in ["poisson", "flash-crowd", "noisy-tenant", "on-off"] {
        let args =
            ["--shape", shape, "--algorithms", "token-bucket,gcra,leaky-bucket", "--burst", "7"];
        let value = json("line", &args);
        let admitted = |index: usize| value["algorithms"][index]["admitted"].clone();
        assert_eq!((admitted(0), admitted(0)), (admitted(1), admitted(2)));
    }
}

#[test]
fn json_says_what_was_asked_and_what_happened() {
    let value = json("json", &["--quota", "20/10s", "--cost", "5", "--seed", "9"]);
    let expected = r#"{"cells":20,"per_us":10000000,"burst":null}"#;
    assert_eq!(value["quota"].to_string(), expected);
    assert_eq!(value["offered"].to_string(), r#"{"requests":16,"cells":80}"#);
    assert_eq!((&value["seed"], &value["cost"]), (&9.into(), &5.into()));
    assert_eq!(value["pictures"], Value::Array(Vec::new()));
    let fixed = &value["algorithms"][0];
    assert_eq!(fixed["worst"]["standing"], "over");
    assert_eq!(fixed["worst"]["ratio"], 2.0);
}

#[test]
fn quiet_tenants_do_not_suffer_from_a_noisy_one() {
    let value =
        json("quiet", &["--shape", "noisy-tenant", "--tenants", "5", "--algorithms", "all"]);
    assert_eq!(value["tenants"], 5);
    for algorithm in value["algorithms"].as_array().unwrap() {
        assert_eq!(algorithm["quiet"]["refused"], 0, "{}", algorithm["name"]);
        assert!(0 < algorithm["quiet"]["requests"].as_u64().unwrap());
    }
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let draw = |folder| {
        let (mut command, path) = tidegate(folder);
        let args =
            ["simulate", "--shape", "flash-crowd", "--algorithms", "all", "--out", "crowd.svg"];
        let output = command.args(args).output().unwrap();
        assert!(!path.join("crowd.png").exists());
        (output.stdout, fs::read(path.join("crowd.svg")).unwrap())
    };
    assert_eq!(draw("once"), draw("again"));
}

#[test]
fn simulate_adaptive_shows_what_a_loss_of_capacity_does() {
    let (mut command, folder) = tidegate("adaptive");
    let output = command.args(["simulate", "adaptive"]).output().unwrap();
    let shown = text(&output.stdout);
    let numbers = |name: &str| {
        let line = shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        let words = line.split_whitespace().map(|word| word.trim_end_matches("/s"));
        words.filter_map(|word| word.parse().ok()).collect::<Vec<f64>>()
    };
    // Latency meanwhile, served in a second meanwhile, latency afterwards.
    let (none, envoy, ours) = (numbers("none"), numbers("envoy"), numbers("tidegate"));
    assert!(1_000.0 < none[0] && 1_000.0 < none[2], "{shown}");
    assert!(ours[0] <= 11.0 && ours[0] < envoy[0] && ours[2] <= 11.0, "{shown}");
    assert!(4_850.0 <= ours[1], "{shown}");
    assert!(output.status.success());
    assert!(
        fs::read_to_string(folder.join("adaptive.svg")).unwrap().contains("half of its workers")
    );
    assert!(folder.join("adaptive.png").exists());

    let output = run("adaptive-json", &["simulate", "adaptive", "--json", "--no-picture"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["guards"][2]["guard"], "tidegate");
    assert_eq!(json["pictures"], Value::Array(Vec::new()));
}

#[test]
fn simulate_fair_shows_who_is_served() {
    let (mut command, folder) = tidegate("fair");
    let output = command.args(["simulate", "fair"]).output().unwrap();
    let shown = text(&output.stdout);
    let line = |name: &str| shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    let percents = |name| {
        let words = line(name).split_whitespace();
        words.filter_map(|word| word.strip_suffix('%')?.parse().ok()).collect::<Vec<u32>>()
    };
    assert_eq!(percents("nothing"), [21, 100]);
    assert_eq!(percents("plain limits"), [99, 65]);
    assert_eq!(percents("fair queue"), [100, 100]);
    assert!(output.status.success());
    assert!(fs::read_to_string(folder.join("sharing.svg")).unwrap().contains("who is served?"));
    assert!(folder.join("sharing.png").exists());
}

#[test]
fn bad_usage_says_what_to_do() {
    let help = "For more information, try '--help'.\n";
    let more = "For more information, try 'tidegate simulate --help'.\n";
    refuses(
        &["simulate", "--quota", "100/fortnight"],
        &format!(
            "error: invalid value '100/fortnight' for '--quota <CELLS/PERIOD>': write \
             CELLS/UNIT or \
             CELLS/SPAN, such as 100/min, 5/s, 1000/h or 20/10s; units are ms, s, min, h and d\n\n\
             {help}"
        ),
    );
    refuses(
        &["simulate", "--shape", "wave"],
        &format!(
            "error: invalid value 'wave' for '--shape <SHAPE>': there is no such shape: choose one \
             of steady, boundary-burst, idle-then-burst, on-off, poisson, flash-crowd, \
             noisy-tenant\n\n{help}"
        ),
    );
    refuses(
        &["simulate", "--algorithms", "gcra,magic"],
        &format!(
            "error: invalid value 'gcra,magic' for '--algorithms <NAMES>': `magic`: no such \
             algorithm: choose one of token-bucket, gcra, leaky-bucket, leaky-queue, fixed-window, \
             sliding-window, sliding-log, concurrency, or all\n\n{help}"
        ),
    );
    refuses(
        &["simulate", "--tenants", "5"],
        &format!(
            "error: --tenants is for --shape noisy-tenant, and `boundary-burst` has one tenant: \
             leave it out\n\n{more}"
        ),
    );
    refuses(
        &["simulate", "--algorithms", "sliding-log", "--burst", "5"],
        &format!(
            "error: --burst is for buckets (token-bucket, gcra, leaky-bucket, leaky-queue): choose \
             one of them, or leave it out\n\n{more}"
        ),
    );
    refuses(
        &["simulate", "--cost", "101"],
        &format!(
            "error: fixed-window never lets 101 cells pass at once, as its limit is 100: lower \
             --cost, or raise --quota or --burst\n\n{more}"
        ),
    );
    refuses(
        &["simulate", "--quota", "4294967295/s"],
        &format!(
            "error: the traffic would hold more than 5000000 requests: lower the quota, the \
             duration \
             or the number of tenants, or raise the cost\n\n{more}"
        ),
    );
    refuses(
        &["simulate", "--duration", "59s"],
        &format!(
            "error: the duration is shorter than one period of the quota: lengthen it\n\n{more}"
        ),
    );
}

#[test]
fn a_picture_that_cannot_be_written_is_not_bad_usage() {
    let output = run("nowhere", &["simulate", "--out", "missing/picture"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "error: cannot write `missing/picture.svg`: choose another place with --out: ";
    assert!(text(&output.stderr).starts_with(said), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    for args in [&["explain", "gcra"][..], &["simulate", "--no-picture"], &["simulate", "--help"]] {
        let (mut command, _) = tidegate("pipe");
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        assert!(output.status.success());
    }
}

#[test]
fn explain_lists_what_there_is() {
    let expected = "\
Algorithms:

  token-bucket    Lets a burst through at once, and after it the quota's own pace.
  gcra            The token bucket, kept as a single moment in time.
  leaky-bucket    A bucket that leaks at the quota's rate, and refuses what would overflow it.
  leaky-queue     Passes everything at an even pace: what comes too fast waits for its turn.
  fixed-window    Counts per window of the clock or the calendar, and starts again at every edge.
  sliding-window  Two counts, the older one fading out: close to exact, in two words.
  sliding-log     Remembers every request of the last period: exact over every span.
  concurrency     Limits how much is under way at the same time, not how often it comes.

Warnings of `tidegate check`:

  almost-client       An identity has nearly the name `client`, which stays the address.
";
    let output = run("explain", &["explain"]);
    assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
}

#[test]
fn explain_prints_the_page_for_a_terminal() {
    let output = run("page", &["explain", "fixed-window"]);
    let page = text(&output.stdout);
    assert!(page.starts_with("FIXED-WINDOW\n\nCounts per window of the clock"), "{page}");
    assert!(page.contains("    rules:\n      - { name: per-client, key: ip, algorithm: fixed-"));
    refuses(
        &["explain", "magic"],
        "error: invalid value 'magic' for '[NAME]': `tidegate explain` lists all algorithms and \
         warnings\n\nFor more information, try '--help'.\n",
    );
    refuses(
        &["explain", "token_buckets"],
        "error: invalid value 'token_buckets' for '[NAME]': did you mean `token-bucket`?\n\n\
         For more information, try '--help'.\n",
    );
}

#[test]
fn explain_tells_of_a_warning_and_how_to_allow_it() {
    let output = run("warning", &["explain", "weak-secret"]);
    let page = text(&output.stdout);
    assert!(page.starts_with("WEAK-SECRET\n\nThe secret of tokens is so short"), "{page}");
    assert!(page.contains("write `allow: weak-secret` in the rule"), "{page}");
}

#[test]
fn simulate_shows_the_rules_of_a_policy() {
    let (mut command, folder) = tidegate("policy");
    let policy = "\
tiers: { from: attribute:plan, default: free }
rules:
  - { name: api, key: ip, limit: { free: 100/min, pro: unlimited }, burst: { free: 5 } }
  - { name: uploads, key: ip, unit: kB, limit: 10MB/min, cost: { from: content-length } }
  - { name: monthly, key: ip, algorithm: fixed-window, limit: 1000/month, allow: needs-response }
";
    fs::write(folder.join("policy.yaml"), policy).unwrap();
    let output = command.args(["simulate", "--policy", "policy.yaml"]).output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for head in [
        "api, tier free: 100/min, burst 5 (token-bucket)\n",
        "uploads: 10MB/min (token-bucket; a request costs 10)\n",
        "monthly: 1000/month (fixed-window)\n",
    ] {
        assert!(shown.contains(head), "no `{head}` in\n{shown}");
    }
    for shape in ["steady", "boundary-burst", "noisy-tenant"] {
        assert_eq!(shown.matches(&format!("\n{shape} ")).count(), 3, "{shape} in\n{shown}");
    }
    let line = shown.lines().find(|line| line.starts_with("boundary-burst")).unwrap();
    assert!(line.contains(" 8 of 100 "), "a burst of 5, and what one second earns: {line}");
    let (mut command, folder) = tidegate("policy-json");
    fs::write(folder.join("policy.yaml"), policy).unwrap();
    let output = command.args(["simulate", "--policy", "policy.yaml", "--json"]).output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["limits"][0]["shapes"].as_array().unwrap().len(), 7);
}

#[test]
fn completions_and_manuals_are_printed() {
    let output = run("completions", &["completions", "bash"]);
    assert!(text(&output.stdout).contains("complete -F _tidegate"));
    let output = run("man", &["man", "serve"]);
    assert!(text(&output.stdout).contains(".TH tidegate-serve 1"), "{}", text(&output.stdout));
    refuses(
        &["completions", "tcsh"],
        "error: invalid value 'tcsh' for '<SHELL>': write one of bash, elvish, fish, powershell, \
         zsh\n\nFor more information, try '--help'.\n",
    );
}
