//! The slowest way to find the rules of a request: asks each rule in turn, by definition.
//!
//! It shares no code with what it is compared to.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::chance::Chance;
use crate::request::Sample;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) host: &'static str,
    pub(super) segments: Vec<String>,
    pub(super) tier: &'static str,
    pub(super) peer: Ipv4Addr,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

/// A match: what is empty is not asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Want {
    pub(super) method: Vec<&'static str>,
    pub(super) host: Vec<&'static str>,
    pub(super) path: Vec<Vec<&'static str>>,
    pub(super) tier: Vec<&'static str>,
    pub(super) ip: Vec<(Ipv4Addr, u8)>,
    pub(super) header: Vec<(&'static str, Vec<&'static str>)>,
    pub(super) not: Vec<Want>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Act {
    Block,
    Limit,
    Unlimited,
}

/// A rule: for what any of its matches wants, or for everything if it has none.
#[derive(Clone, Debug)]
pub(super) struct Ruled {
    pub(super) name: String,
    pub(super) any: Vec<Want>,
    pub(super) act: Act,
    pub(super) last: bool,
    pub(super) priority: u64,
}

const METHODS: [&str; 8] = ["GET", "get", "POST", "Post", "DELETE", "PURGE", "HEAD", "head"];
const METHODS_WANTED: [&str; 9] =
    ["GET", "get", "Post", "DELETE", "P*", "*", "PURGE", "HEAD", "*E*"];
const HOSTS: [&str; 6] =
    ["api.example.com", "API.Example.com", "www.example.com", "example.com", "b.test", ""];
const HOSTS_WANTED: [&str; 6] =
    ["api.example.com", "Api.EXAMPLE.com", "*.example.com", "example.com", "b.*", "*"];
const SEGMENTS: [&str; 7] = ["a", "b", "v1", "xa", "by", "axb", "aab"];
/// Segments that applications read in several ways.
const SEGMENTS_ODD: [&str; 27] = [
    "",
    "\\x",
    "%5C",
    ".",
    "..",
    "a%2Fb",
    "%2fa",
    "b%2F",
    "..%2Fa",
    "v1%2f..",
    "a%2F..%2f..%2Fb",
    "b%252Fa",
    "A",
    "V1",
    "Axb",
    "a;x",
    "..;b",
    ";%2Fb",
    "b%2Fa;x",
    "a\\b",
    "..%5Cb",
    "v1.",
    "a%20",
    "b%00a",
    "a%20;.",
    "..%20",
    "a%2E",
];
const SEGMENTS_WANTED: [&str; 13] =
    ["a", "b", "v1", "a", "b", "*", "{id}", "**", "x*", "a*b", "B", "A*", "V1"];
pub(super) const TIERS: [&str; 3] = ["free", "pro", "max"];
const TIERS_SAID: [&str; 6] = ["free", "pro", "max", "PRO", "unheard-of", ""];
const HEADERS: [&str; 3] = ["x-app", "user-agent", "x-beta"];
const VALUES: [&str; 5] = ["ios", "Ios", "ios-17", "bot/1.0", ""];
const VALUES_WANTED: [&str; 6] = ["ios", "ios*", "*", "*bot*", "bot/1.0", "Ios"];

/// Up to `most` of `items`, often none, and sometimes one twice.
fn some<T: Copy>(chance: &mut Chance, items: &[T], most: u64) -> Vec<T> {
    (0..chance.below(most + 1)).map(|_| *chance.pick(items)).collect()
}

impl Ask {
    pub(super) fn any(chance: &mut Chance) -> Ask {
        let [third, fourth] = [0; 2].map(|_| u8::try_from(chance.below(3)).unwrap());
        let mut headers = Vec::new();
        for name in HEADERS {
            if chance.below(2) == 0 {
                headers.push((name, *chance.pick(&VALUES)));
            }
        }
        Ask {
            method: chance.pick::<&str>(&METHODS),
            host: chance.pick::<&str>(&HOSTS),
            segments: some(chance, &SEGMENTS, 4).into_iter().map(str::to_owned).collect(),
            tier: chance.pick::<&str>(&TIERS_SAID),
            peer: Ipv4Addr::new(10, 0, third, fourth),
            headers,
        }
    }

    /// One with a path that may be read in several ways.
    pub(super) fn odd(chance: &mut Chance) -> Ask {
        let mut ask = Ask::any(chance);
        for segment in &mut ask.segments {
            if chance.below(3) == 0 {
                *segment = (*chance.pick(&SEGMENTS_ODD)).to_owned();
            }
        }
        if chance.below(2) == 0 {
            ask.headers.push((*chance.pick(&HEADERS), *chance.pick(&VALUES)));
        }
        ask
    }

    /// This request by each way to read its path: cut, as it is, decoded and cut, and decoded with
    /// dots as names; and all of these without a host that it may begin with.
    fn readings(&self) -> Vec<Ask> {
        let mut sent = format!("/{}", self.segments.join("/"));
        for (escape, letter) in
            [("%2f", "%2F"), ("%5C", "\\"), ("%20", " "), ("%00", "\0"), ("%2E", ".")]
        {
            sent = sent.replace(escape, letter);
        }
        let names = |text: &str| -> Vec<String> {
            text.split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let slashes = sent.replace("%2F", "/");
        let ways = |sent: &str, slashes: &str| {
            let (short, long) = (cut(sent), cut(slashes));
            [followed(names(&short)), followed(names(sent)), followed(names(&long)), names(slashes)]
        };
        let all = ways(&sent, &slashes).into_iter();
        let bare = ways(&without_host(&sent), &without_host(&slashes));
        all.chain(bare).map(|segments| Ask { segments, ..self.clone() }).collect()
    }

    /// This request as servers read it, where that has one reading itself: each path in lower case
    /// as well unless case matters, and of each header one line.
    pub(super) fn plain_readings(&self, has_case: bool) -> Vec<Ask> {
        let usual = |ask: &Ask| {
            let is_usual = |letter: char| letter.is_ascii_alphanumeric();
            ask.segments.iter().all(|it| it.chars().all(is_usual))
        };
        let lower = |ask: Ask| {
            let lower = |name: &String| if has_case { name.clone() } else { name.to_lowercase() };
            [Ask { segments: ask.segments.iter().map(lower).collect(), ..ask.clone() }, ask]
        };
        let one_line = |ask: Ask| {
            let [mut first, mut last] = [ask.headers.clone(), ask.headers.clone()];
            last.reverse();
            for lines in [&mut first, &mut last] {
                lines.sort_by_key(|(name, _)| *name);
                lines.dedup_by_key(|(name, _)| *name);
            }
            [first, last].map(|headers| Ask { headers, ..ask.clone() })
        };
        let readings = self.readings().into_iter().filter(usual);
        readings.flat_map(lower).flat_map(one_line).collect()
    }

    /// What it costs by its route, which is what the dearest reading does: of all costs that may be
    /// the first for it.
    pub(super) fn cost(&self, costs: &[(Want, u32)]) -> u32 {
        let by = |ask: &Ask| {
            let sure = costs.iter().position(|(want, _)| want.holds(ask, true));
            let may = costs[..sure.map_or(costs.len(), |at| at + 1)].iter();
            let may = may.filter(|(want, _)| want.holds(ask, false)).map(|it| it.1);
            may.chain(sure.is_none().then_some(1)).max().unwrap()
        };
        self.readings().iter().map(by).max().unwrap()
    }

    pub(super) fn sample(&self) -> Sample {
        let line = format!("{} /{}", self.method, self.segments.join("/"));
        let sample = Sample::new(&line).from_peer(self.peer.into());
        let sample = sample.with_header("Host", self.host).with_header("X-Tier", self.tier);
        self.headers.iter().fold(sample, |sample, (name, value)| sample.with_header(name, value))
    }

    /// What it says is taken only if a tier is called so.
    fn tier_taken(&self) -> &'static str {
        if TIERS.contains(&self.tier) { self.tier } else { TIERS[0] }
    }
}

impl Want {
    /// `depth` is how often there may be a `not` in a `not`.
    pub(super) fn any(chance: &mut Chance, depth: u32) -> Want {
        let mut want = Want::default();
        // Mostly one or two conditions: with many, nothing would ever match.
        for _ in 0..=chance.below(3) {
            match chance.below(if depth == 0 { 7 } else { 8 }) {
                0 => want.method = some(chance, &METHODS_WANTED, 2),
                1 => want.host = some(chance, &HOSTS_WANTED, 2),
                2 | 3 => want.path = (0..=chance.below(3)).map(|_| path(chance)).collect(),
                4 => want.tier = some(chance, &TIERS, 2),
                5 => {
                    let third = u8::try_from(chance.below(3)).unwrap();
                    let network = *chance.pick(&[(third, 24), (0, 23), (0, 8)]);
                    let third = if network.1 == 8 { 0 } else { network.0 };
                    want.ip = vec![(Ipv4Addr::new(10, 0, third, 0), network.1)];
                }
                6 => {
                    let name = *chance.pick(&HEADERS);
                    let mut like = some(chance, &VALUES_WANTED, 1);
                    like.push(*chance.pick(&VALUES_WANTED));
                    want.header = vec![(name, like)];
                }
                _ => {
                    want.not =
                        (0..=chance.below(2)).map(|_| Want::any(chance, depth - 1)).collect();
                }
            }
        }
        if want.says_nothing() {
            want.path = vec![path(chance)];
        }
        want
    }

    fn says_nothing(&self) -> bool {
        let texts = [&self.method, &self.host, &self.tier];
        texts.iter().all(|it| it.is_empty())
            && self.path.is_empty()
            && self.ip.is_empty()
            && self.header.is_empty()
            && self.not.is_empty()
    }

    /// Whether it surely does, or otherwise whether it may.
    pub(super) fn holds(&self, ask: &Ask, sure: bool) -> bool {
        let lower = |text: &str| text.to_ascii_lowercase();
        let like = |wanted: &[&str], value: &str, fold: bool| {
            let fits = |it: &&str| {
                if fold {
                    glob(lower(it).as_bytes(), lower(value).as_bytes())
                } else {
                    glob(it.as_bytes(), value.as_bytes())
                }
            };
            // Nothing is not a value, not even of `*`.
            !value.is_empty() && wanted.iter().any(fits)
        };
        let inside = |(network, bits): &(Ipv4Addr, u8)| {
            let shift = 32 - u32::from(*bits);
            network.to_bits() >> shift == ask.peer.to_bits() >> shift
        };
        let has = |(name, wanted): &(&str, Vec<&str>)| {
            let values = ask.headers.iter().filter(|(other, _)| other == name);
            let fits: Vec<bool> = values.map(|(_, value)| like(wanted, value, false)).collect();
            fits.contains(&true) && !(sure && fits.contains(&false))
        };
        let is_path = |wanted: &Vec<&str>| {
            let fold = |text: &str| if sure { text.to_owned() } else { lower(text) };
            let [wanted, path]: [Vec<String>; 2] = [
                wanted.iter().map(|it| fold(it)).collect(),
                ask.segments.iter().map(|it| fold(it)).collect(),
            ];
            walk(&wanted, &path)
        };
        let is_head = lower(ask.method) == "head";
        (self.method.is_empty()
            || like(&self.method, ask.method, true)
            || is_head && like(&self.method, "GET", true))
            && (self.host.is_empty() || like(&self.host, ask.host, true))
            && (self.path.is_empty() || self.path.iter().any(is_path))
            && (self.tier.is_empty() || self.tier.contains(&ask.tier_taken()))
            && (self.ip.is_empty() || self.ip.iter().any(inside))
            && self.header.iter().all(has)
            && !self.not.iter().any(|want| want.holds(ask, !sure))
    }

    pub(super) fn json(&self) -> Value {
        let mut fields = Map::new();
        let path = |path: &Vec<&str>| format!("/{}", path.join("/"));
        let paths: Vec<String> = self.path.iter().map(path).collect();
        let networks = self.ip.iter().map(|(network, bits)| format!("{network}/{bits}"));
        let networks: Vec<String> = networks.collect();
        let nots: Vec<Value> = self.not.iter().map(Want::json).collect();
        let header: Map<String, Value> =
            self.header.iter().map(|(name, like)| ((*name).to_owned(), json!(like))).collect();
        for (name, value, is_said) in [
            ("method", json!(self.method), !self.method.is_empty()),
            ("host", json!(self.host), !self.host.is_empty()),
            ("path", json!(paths), !paths.is_empty()),
            ("tier", json!(self.tier), !self.tier.is_empty()),
            ("ip", json!(networks), !networks.is_empty()),
            ("header", json!(header), !header.is_empty()),
            ("not", json!(nots), !nots.is_empty()),
        ] {
            if is_said {
                fields.insert(name.to_owned(), value);
            }
        }
        Value::Object(fields)
    }
}

impl Ruled {
    pub(super) fn any(chance: &mut Chance, number: usize) -> Ruled {
        let any = (0..chance.below(4)).map(|_| Want::any(chance, 2)).collect();
        let act = match chance.below(12) {
            0 => Act::Block,
            1 => Act::Unlimited,
            _ => Act::Limit,
        };
        let last = act == Act::Limit && chance.below(8) == 0;
        let priority = if chance.below(5) == 0 { chance.below(3) } else { 0 };
        Ruled { name: format!("r{number}"), any, act, last, priority }
    }

    pub(super) fn matches(&self, ask: &Ask) -> bool {
        self.any.is_empty() || self.any.iter().any(|want| want.holds(ask, false))
    }

    /// Whether it is for a request by every way to read it.
    pub(super) fn is_sure_of(&self, ask: &Ask) -> bool {
        let is_sure = |ask: &Ask| self.any.iter().any(|want| want.holds(ask, true));
        self.any.is_empty() || ask.readings().iter().all(is_sure)
    }

    pub(super) fn json(&self) -> Value {
        let mut fields = json!({ "name": self.name, "priority": self.priority });
        if !self.any.is_empty() {
            fields["match"] = self.any.iter().map(Want::json).collect();
        }
        match self.act {
            Act::Block => fields["block"] = json!(true),
            Act::Unlimited => fields["unlimited"] = json!(true),
            Act::Limit => {
                fields["limit"] = json!("100/min");
                fields["last"] = json!(self.last);
            }
        }
        fields
    }
}

/// The rules that judge a request, and the one that ends the list without judging.
pub(super) fn judges<'r>(rules: &'r [Ruled], ask: &Ask) -> (Vec<&'r str>, Option<&'r str>) {
    let mut order: Vec<&Ruled> = rules.iter().collect();
    order.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    let mut judging = Vec::new();
    let readings = ask.readings();
    let is_for = |rule: &&Ruled| readings.iter().any(|ask| rule.matches(ask));
    for rule in order.into_iter().filter(is_for) {
        match rule.act {
            Act::Unlimited if !rule.is_sure_of(ask) => continue,
            Act::Block | Act::Unlimited => return (judging, Some(&rule.name)),
            Act::Limit => judging.push(&*rule.name),
        }
        if rule.last && rule.is_sure_of(ask) {
            break;
        }
    }
    (judging, None)
}

/// A pattern of up to four segments, with no more than two `**`.
fn path(chance: &mut Chance) -> Vec<&'static str> {
    let mut named = false;
    let mut path = some(chance, &SEGMENTS_WANTED, 4);
    let mut many = 0;
    path.retain(|segment| {
        let twice = *segment == "{id}" && std::mem::replace(&mut named, true);
        many += usize::from(*segment == "**");
        !(twice || *segment == "**" && 2 < many)
    });
    path
}

/// A path without dots: each leads to where it says.
fn followed(path: Vec<String>) -> Vec<String> {
    let mut reached = Vec::new();
    for segment in path {
        match &*segment {
            "." => {}
            ".." => drop(reached.pop()),
            _ => reached.push(segment),
        }
    }
    reached
}

/// What some applications leave of a path that begins with two slashes.
fn without_host(path: &str) -> String {
    let is_slash = |letter: &char| matches!(letter, '/' | '\\');
    let slashes = path.chars().take_while(is_slash).count();
    let names: String = path.chars().skip(slashes).collect();
    if slashes < 2 || names.is_empty() {
        return path.to_owned();
    }
    names.chars().skip_while(|letter| !is_slash(letter)).collect()
}

/// What some servers leave of a path.
fn cut(path: &str) -> String {
    let path = path.split('\0').next().unwrap().replace('\\', "/");
    let name = |name: &str| {
        let name = name.split(';').next().unwrap().trim_end();
        let is_dots = name.chars().all(|letter| ". ".contains(letter));
        let bare = name.trim_end_matches(['.', ' ']);
        if is_dots { name.to_owned() } else { bare.to_owned() }
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

/// `*` is any run of bytes.
fn glob(wanted: &[u8], value: &[u8]) -> bool {
    match (wanted.split_first(), value.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) if glob(rest, value) => true,
        (Some((b'*', _)), Some((_, value))) => glob(wanted, value),
        (Some((a, wanted)), Some((b, value))) => a == b && glob(wanted, value),
        _ => false,
    }
}

/// `**` is any number of segments, `{id}` any one.
fn walk(pattern: &[String], path: &[String]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "**" && walk(rest, path) => true,
        (Some((any, _)), Some((_, path))) if any == "**" => walk(pattern, path),
        (Some((one, rest)), Some((_, path))) if one == "{id}" => walk(rest, path),
        (Some((one, rest)), Some((part, path))) => {
            glob(one.as_bytes(), part.as_bytes()) && walk(rest, path)
        }
        _ => false,
    }
}
