//! Known API keys: no client chooses what it counts as, or which tier it has.

use std::sync::Arc;

use tidegate_config::{KeyFile, KeyHash, KeyOwner, ListedKey};
use tidegate_core::{Span, Tick, Verdict};
use tidegate_gate::{Field, Gate, Reason, Request, Sample};
use tidegate_store::{Clock, ManualClock};

use crate::stand::{Folder, START, clock, counts, passed, passes};

const POLICY: &str = "
api_keys: { header: x-api-key, file: keys.yaml }
identify: { client: [api-key, ip] }
tiers: { default: free }
rules:
  - { name: ceiling, key: ip, limit: 2000/min }
  - { name: per-client, key: client, limit: { free: 100/min, pro: 1000/min } }
";

/// `pro-key` is of `acme`, and so is `old-key` for a minute.
fn keys() -> String {
    let key = |key: &str, expires| ListedKey { hash: KeyHash::of(key.as_bytes()), expires };
    let minute = Tick::from_micros((START + 60) * 1_000_000);
    let keys = vec![key("pro-key", None), key("old-key", Some(minute))];
    let acme = KeyOwner { tier: Some("pro".to_owned()), keys, ..KeyOwner::default() };
    KeyFile { owners: [("acme".to_owned(), acme)].into() }.text()
}

fn gate(policy: &str) -> (Gate, Arc<ManualClock>) {
    let folder = Folder::new();
    folder.write("keys.yaml", &keys());
    let path = folder.write("policy.yaml", policy);
    let clock = clock();
    let gate = Gate::builder().file(path).clock(Arc::clone(&clock) as Arc<dyn Clock>).open();
    (gate.expect("a policy with its keys"), clock)
}

fn refusing() -> (Gate, Arc<ManualClock>) {
    gate(&POLICY.replace("keys.yaml }", "keys.yaml, unknown: refuse }"))
}

fn from(address: u8) -> Sample {
    Sample::new("GET /").from_peer([192, 0, 2, address].into())
}

fn with(key: &str) -> Sample {
    from(1).with_header("x-api-key", key)
}

#[test]
fn keys_that_are_made_up_are_one_client() {
    let (gate, _) = gate(POLICY);
    let made_up = |number: usize| {
        let request = with(&format!("made-up-{number}")).with_header("x-tier", "pro");
        usize::from(passes(&gate, &request))
    };
    assert_eq!((0..300).map(made_up).sum::<usize>(), 100);
    // It is the address that is at its limit, and neither another one nor a key that is known.
    assert!(!passes(&gate, &from(1)) && passes(&gate, &from(2)));
    assert_eq!(passed(&gate, &with("pro-key"), 1_200), 1_000);
}

#[test]
fn a_key_and_the_one_that_replaces_it_are_one_client() {
    let (gate, clock) = gate(POLICY);
    assert_eq!(passed(&gate, &with("old-key"), 600), 600);
    assert_eq!(passed(&gate, &with("pro-key"), 600), 400);
    clock.advance(Span::from_micros(59_999_999));
    assert_eq!(passed(&gate, &with("old-key"), 500), 500);
    clock.advance(Span::from_micros(1));
    // It has expired: what is left to its owner is not for it.
    assert_eq!(passed(&gate, &with("old-key"), 500), 100);
    assert_eq!(passed(&gate, &with("pro-key"), 500), 500);
}

#[test]
fn an_unknown_key_is_refused_and_charged_nothing() {
    let (gate, _) = refusing();
    for odd in [with("made-up"), with("pro-key").with_header("x-api-key", "old-key")] {
        for request in [&odd, &odd] {
            let refused = gate.decide(request);
            assert_eq!((refused.verdict(), refused.status()), (Verdict::Never, 401));
            assert_eq!((refused.reason(), refused.stopped_by()), (Reason::UnknownKey, None));
            let mut fields = Vec::new();
            refused.fields(|field, value| fields.push((field, value.to_owned())));
            let challenge = "ApiKey header=\"x-api-key\"".to_owned();
            assert_eq!(fields, [(Field::Authenticate, challenge)]);
            let problem = refused.problem();
            assert!(problem.contains("\"error\":\"unknown_api_key\""), "{problem}");
        }
    }
    assert_eq!(counts(&gate, "ceiling"), (0, 0, 0));
    assert_eq!(passed(&gate, &from(1), 200), 100);
    assert_eq!(passed(&gate, &with("pro-key"), 5), 5);
}

/// One that is refused is no way for the others to pass.
#[test]
fn of_several_requests_one_with_an_unknown_key_refuses_all() {
    let (gate, _) = refusing();
    let (good, bad) = (with("pro-key"), with("made-up"));
    let asked: [&dyn Request; 2] = [&good, &bad];
    let together = gate.admit_jointly(&asked).ready();
    let Ok(together) = together else { panic!("it is decided in this process") };
    assert_eq!(together.verdict, Verdict::Never);
    let reasons: Vec<Reason> = together.each.iter().map(tidegate_gate::Admission::reason).collect();
    assert_eq!(reasons, [Reason::Judged, Reason::UnknownKey]);
    assert_eq!(passed(&gate, &with("pro-key"), 1_200), 1_000);
}

#[test]
fn a_file_of_keys_may_stand_in_the_folder_of_the_policy() {
    let folder = Folder::new();
    folder.write("keys.yaml", &keys());
    folder.write("policy.yaml", POLICY);
    let gate = Gate::from_file(folder.path()).unwrap();
    assert_eq!(gate.rules().rules().len(), 2);
    // One that nobody names is a policy, and a wrong one.
    folder.write("other.yaml", &keys());
    let error = Gate::from_file(folder.path()).unwrap_err().to_string();
    assert!(error.contains("unknown field `names`"), "{error}");
}

#[test]
fn without_its_keys_a_policy_is_wrong_from_the_start() {
    let folder = Folder::new();
    let path = folder.write("policy.yaml", POLICY);
    let error = Gate::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("cannot read `keys.yaml`"), "{error}");
    folder.write("keys.yaml", "names: { acme: { keys: [pro-key] } }");
    let error = Gate::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("keys.yaml:1: ") && !error.contains("pro-key"), "{error}");
}

/// What people begin with.
#[test]
fn with_the_policies_that_we_show_made_up_keys_are_one_client() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("it is there");
    let readme = read("README.md");
    let (_, policy) = readme.split_once("```yaml\n").expect("a policy");
    let (policy, _) = policy.split_once("```").expect("its end");
    for (policy, known) in
        [(policy, keys()), (&*read("examples/policy.yaml"), read("examples/keys.yaml"))]
    {
        let folder = Folder::new();
        folder.write("keys.yaml", &known);
        let loaded = tidegate_config::Rules::from_path(&folder.write("policy.yaml", policy));
        let loaded = loaded.expect("a good policy");
        assert_eq!(loaded.report.warnings(), 0, "{}", loaded.report);
        let gate = Gate::builder().rules(loaded.rules).clock(clock()).open();
        let gate = gate.expect("a gate");
        let made_up = |number: usize| {
            let request = with(&format!("made-up-{number}")).with_header("x-tier", "enterprise");
            usize::from(passes(&gate, &request))
        };
        let passed: usize = (0..300).map(made_up).sum();
        assert!((50..=100).contains(&passed), "{passed} of 300");
        assert!(passes(&gate, &with("pro-key")) || passes(&gate, &with("demo-shop")));
    }
}
