//! What fuzzing and the tests of its seeds do with any bytes.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use prost::Message as _;
use tidegate_config::EnvoyRules;
use tidegate_gate::Gate;
use tidegate_store::ManualClock;

use super::proto::RateLimitRequest;
use super::{EnvoyConfig, RateLimits, RlsSettings};

const POLICY: &str = "
rules:
  - { name: per-address, key: ip, limit: 3/min, if_missing: skip }
  - { name: per-plan, key: 'attribute:plan', limit: 5/hour, algorithm: sliding-window }
  - { name: everybody, limit: 1000/day, algorithm: gcra }
";

const FILES: &str = "
domain: web
descriptors:
- { key: path, rate_limit: { unit: minute, requests_per_unit: 3, name: per-path } }
- { key: path, value: files/*, share_threshold: true, shadow_mode: true,
    rate_limit: { unit: day, requests_per_unit: 2, replaces: [{ name: per-path }] } }
- { key: plan, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
- { key: plan, value: free, descriptors: [{ key: user, quota_mode: true,
    rate_limit: { unit: year, requests_per_unit: 1 } }] }
- { key: user, value: root, rate_limit: { unlimited: true } }
- { key: user, value: nobody, rate_limit: { unit: second, requests_per_unit: 0 } }
";

/// One by a policy, one by files.
static SERVICES: LazyLock<[RateLimits; 2]> = LazyLock::new(|| {
    let clock = Arc::new(ManualClock::new());
    let gate = Gate::builder().text(POLICY).clock(clock).open().expect("the policy is right");
    let files = EnvoyRules::from_bytes("web.yaml", FILES.as_bytes()).expect("the file is right");
    let config = EnvoyConfig::of(&gate, files).expect("there is room for a few limits");
    let settings = RlsSettings { dynamic_metadata: true, ..RlsSettings::default() };
    [None, Some(config)]
        .map(|files| RateLimits::new(gate.clone(), files, settings).expect("there is room"))
});

/// Asks both about what the bytes are, as a message and as JSON.
///
/// # Panics
///
/// If an answer is not one.
pub fn request(bytes: &[u8]) {
    let request = RateLimitRequest::decode(bytes);
    for service in &*SERVICES {
        if let Ok(request) = &request
            && let Ok(response) = at_once(service.decide(request))
        {
            assert_eq!(response.statuses.len(), request.descriptors.len(), "{request:?}");
            let is_known = (1..=2).contains(&response.overall_code);
            assert!(is_known, "neither passed nor refused: {response:?}");
        }
        let (status, body) = at_once(service.json(bytes));
        assert!([200, 400, 429, 503].contains(&status.as_u16()), "{status}");
        drop(serde_json::from_slice::<serde_json::Value>(&body).expect("JSON"));
    }
}

/// In this process everything is decided at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the store is in this process"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::rls::proto::{Entry, RateLimitDescriptor, RateLimitOverride};

    fn corpus() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rls_descriptor")
    }

    #[test]
    fn every_seed_is_answered() {
        let mut seeds = 0;
        for entry in fs::read_dir(corpus()).unwrap() {
            request(&fs::read(entry.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(5 < seeds);
    }

    fn some(entries: &[(&str, &str)]) -> RateLimitDescriptor {
        let entry =
            |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
        let entries = entries.iter().map(entry).collect();
        RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
    }

    /// The seeds that are messages; others are JSON. `UPDATE=1` writes them.
    fn seeds() -> Vec<(&'static str, RateLimitRequest)> {
        let web = |descriptors| RateLimitRequest {
            domain: "web".to_owned(),
            descriptors,
            hits_addend: 0,
        };
        let limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 3 });
        let own = RateLimitDescriptor { limit, hits_addend: Some(0), ..some(&[("path", "/")]) };
        vec![
            ("a-path", web(vec![some(&[("path", "/")])])),
            ("a-limit-that-comes-along", web(vec![own])),
            ("quotas", web(vec![some(&[("plan", "x")]), some(&[("plan", "free"), ("user", "a")])])),
            ("replaced-in-shadow", web(vec![some(&[("path", "/")]), some(&[("path", "files/a")])])),
            ("an-address", web(vec![some(&[("remote_address", "192.0.2.1"), (":path", "/a?b")])])),
            ("blocked", web(vec![some(&[("user", "nobody")]), some(&[("user", "root")])])),
            ("nothing", RateLimitRequest::default()),
        ]
    }

    #[test]
    fn the_corpus_has_every_kind_of_request() {
        for (name, request) in seeds() {
            let path = corpus().join(name);
            if std::env::var_os("UPDATE").is_some() {
                fs::write(&path, request.encode_to_vec()).unwrap();
            }
            let kept = fs::read(&path).unwrap_or_default();
            assert_eq!(RateLimitRequest::decode(&*kept).unwrap(), request, "{name}");
        }
    }
}
