//! Random policies and requests, and how a request is said at each door.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tidegate_core::{Decision, Verdict};
use tidegate_gate::{Admission, Reason, Sample, Unit};
use tidegate_server::rls::proto::{Entry, RateLimitDescriptor, RateLimitRequest};
use tidegate_server::verdict_name;
use tidegate_sim::rng::Rng;
use tidegate_testbed::Reply;

const ALGORITHMS: [&str; 8] = [
    "token-bucket",
    "gcra",
    "leaky-bucket",
    "leaky-queue",
    "fixed-window",
    "sliding-window",
    "sliding-log",
    "concurrency",
];
const KEYS: [&str; 7] = [
    "client",
    "ip",
    "header:x-user",
    "attribute:plan",
    "path",
    "[client, path]",
    "[ip, attribute:plan, method]",
];

/// One of these.
pub(crate) fn pick<'i, T: ?Sized>(rng: &mut Rng, items: &[&'i T]) -> &'i T {
    items[usize::try_from(rng.below(items.len() as u64)).expect("a place in a list")]
}

/// A policy of two to five rules.
pub(crate) fn policy(rng: &mut Rng) -> String {
    let mut text = "identify: { client: [header:x-api-key, ip] }\n\
                    tiers: { from: [header:x-tier], default: free, names: [free, pro] }\n\
                    rules:\n"
        .to_owned();
    for number in 0..2 + rng.below(4) {
        let _ = writeln!(text, "  - {{ {} }}", rule(rng, number));
    }
    text
}

fn rule(rng: &mut Rng, number: u64) -> String {
    let algorithm = pick(rng, &ALGORITHMS);
    let mut fields = format!("name: r{number}, algorithm: {algorithm}");
    let limit = |rng: &mut Rng| match algorithm {
        "concurrency" => format!("{} in flight", 1 + rng.below(4)),
        _ => format!("{}/{}", 1 + rng.below(12), pick(rng, &["s", "3s", "min", "7min", "h"])),
    };
    let _ = match rng.below(3) {
        0 => write!(fields, ", limit: {{ free: {}, pro: {} }}", limit(rng), limit(rng)),
        _ => write!(fields, ", limit: {}", limit(rng)),
    };
    if !rng.one_in(5) {
        let _ = write!(fields, ", key: {}", pick(rng, &KEYS));
    }
    if rng.one_in(3) {
        let _ = write!(fields, ", match: {{ path: {} }}", pick(rng, &["/a", "/b/**", "/users/*"]));
    }
    if rng.one_in(4) {
        let _ = write!(fields, ", cost: {}", rng.below(4));
    }
    if rng.one_in(4) {
        fields.push_str(", shadow: true");
    }
    fields
}

/// A request that can be said at every door.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    method: &'static str,
    target: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    ip: Option<&'static str>,
    plan: Option<&'static str>,
    cost: Option<u32>,
}

impl Asked {
    pub(crate) fn any(rng: &mut Rng) -> Asked {
        let mut headers = Vec::new();
        for (name, values) in [
            ("x-api-key", ["k1", "k2", "k3"]),
            ("x-user", ["ada", "bob", "gr\u{fc}n"]),
            ("x-tier", ["free", "pro", "gold"]),
        ] {
            if rng.one_in(2) {
                headers.push((name, pick(rng, &values)));
            }
        }
        Asked {
            method: pick(rng, &["GET", "POST", "PURGE"]),
            target: pick(rng, &["/a", "/b/c?d=e", "/users/7", "/users/8?", "/", "//a/../b/x"]),
            headers,
            ip: (!rng.one_in(4)).then(|| pick(rng, &["192.0.2.1", "192.0.2.2", "2001:db8::1"])),
            plan: rng.one_in(2).then(|| pick(rng, &["small", "large"])),
            cost: rng.one_in(3).then(|| rng.below_u32(5)),
        }
    }

    /// To the library.
    pub(crate) fn sample(&self) -> Sample {
        let mut sample = Sample::new(&format!("{} {}", self.method, self.target));
        for (name, value) in &self.headers {
            sample = sample.with_header(name, value);
        }
        if let Some(ip) = self.ip {
            sample = sample.from_peer(ip.parse().expect("an address"));
        }
        if let Some(plan) = self.plan {
            sample = sample.with_attribute("plan", plan);
        }
        match self.cost {
            Some(cost) => sample.with_cost(cost),
            None => sample,
        }
    }

    /// To `POST /v1/check`.
    pub(crate) fn json(&self) -> String {
        let mut body = json!({ "method": self.method, "path": self.target });
        let headers: Map<String, Value> =
            self.headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        body["headers"] = headers.into();
        if let Some(ip) = self.ip {
            body["ip"] = ip.into();
        }
        if let Some(plan) = self.plan {
            body["attributes"] = json!({ "plan": plan });
        }
        if let Some(cost) = self.cost {
            body["cost"] = cost.into();
        }
        body.to_string()
    }

    /// To `TIDEGATE.CHECK`.
    pub(crate) fn command(&self) -> Vec<String> {
        let mut words = vec!["TIDEGATE.CHECK", "METHOD", self.method, "PATH", self.target];
        for (name, value) in &self.headers {
            words.extend(["HEADER", name, value]);
        }
        words.extend(self.ip.into_iter().flat_map(|ip| ["IP", ip]));
        words.extend(self.plan.into_iter().flat_map(|plan| ["ATTRIBUTE", "plan", plan]));
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if let Some(cost) = self.cost {
            words.extend(["COST".to_owned(), cost.to_string()]);
        }
        words
    }

    /// To `ShouldRateLimit`.
    pub(crate) fn descriptor(&self) -> RateLimitRequest {
        let mut pairs =
            vec![(":method".to_owned(), self.method), (":path".to_owned(), self.target)];
        pairs.extend(self.headers.iter().map(|(name, value)| (format!("header:{name}"), *value)));
        pairs.extend(self.ip.map(|ip| ("remote_address".to_owned(), ip)));
        pairs.extend(self.plan.map(|plan| ("plan".to_owned(), plan)));
        let entry = |(key, value): (String, &str)| Entry { key: key.into(), value: value.into() };
        let descriptor = RateLimitDescriptor {
            entries: pairs.into_iter().map(entry).collect(),
            hits_addend: self.cost.map(u64::from),
            ..RateLimitDescriptor::default()
        };
        let domain = "test".to_owned();
        RateLimitRequest { domain, descriptors: vec![descriptor], hits_addend: 0 }
    }
}

/// All that the doors say of an admission, written down once more from the library's own numbers.
pub(crate) fn expected(admission: &Admission) -> Value {
    let has_limits = admission.each().any(|limit| !limit.is_shadow);
    let decision = admission.decision();
    let mut said = numbers(&decision);
    if !has_limits {
        for name in ["limit", "remaining", "reset_after_us"] {
            said.insert(name.to_owned(), Value::Null);
        }
    }
    let reason = match admission.reason() {
        Reason::Judged => "judged",
        Reason::Blocked => "blocked",
        other => panic!("these policies know no {other:?}"),
    };
    said.insert("reason".to_owned(), reason.into());
    said.insert("by".to_owned(), "store".into());
    said.insert("stopped_by".to_owned(), admission.stopped_by().into());
    let rules = admission.each().map(|limit| {
        let mut said = Map::new();
        said.insert("name".to_owned(), limit.name().into());
        said.extend(numbers(&limit.decision));
        said.insert("cost".to_owned(), limit.cost.into());
        said.insert("window_us".to_owned(), limit.window.get().into());
        said.insert("credits".to_owned(), limit.credits.into());
        let unit = if *limit.unit == Unit::InFlight { "in-flight" } else { "requests" };
        said.insert("unit".to_owned(), unit.into());
        said.insert("shadow".to_owned(), limit.is_shadow.into());
        Value::Object(said)
    });
    let rules: Vec<Value> = rules.collect();
    said.insert("rules".to_owned(), rules.into());
    said.into()
}

fn numbers(decision: &Decision) -> Map<String, Value> {
    let (retry, delay) = match decision.verdict {
        Verdict::Deny { retry_after } => (Some(retry_after.get()), None),
        Verdict::Delay { by } => (None, Some(by.get())),
        Verdict::Allow | Verdict::Never => (None, None),
    };
    let fields = [
        ("verdict", verdict_name(decision.verdict).into()),
        ("limit", decision.limit.into()),
        ("remaining", decision.remaining.into()),
        ("reset_after_us", decision.reset_after.get().into()),
        ("retry_after_us", retry.into()),
        ("delay_us", delay.into()),
    ];
    fields.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect()
}

/// A reply of names and values as an object.
pub(crate) fn object(reply: &Reply) -> Value {
    let mut fields = Map::new();
    for pair in reply.items().chunks(2) {
        let (name, value) = (pair[0].text(), &pair[1]);
        let value = match value {
            Reply::Int(flag) if name == "shadow" => (*flag == 1).into(),
            Reply::Int(number) => (*number).into(),
            Reply::Nil => Value::Null,
            Reply::Array(rules) => rules.iter().map(object).collect(),
            other => other.text().into(),
        };
        fields.insert(name, value);
    }
    fields.into()
}
