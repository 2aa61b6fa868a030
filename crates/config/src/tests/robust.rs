//! Policies that were damaged at random: each is refused with a report, or gives rules that plan.
//!
//! `cargo xtask fuzz policy_file` does the same with coverage to guide it; what that keeps as seeds
//! runs here, too.

use std::fs;
use std::path::Path;

use tidegate_core::Tick;

use super::messages::Pretended;
use super::written::FORMATS;
use crate::chance::Chance;
use crate::explain::Does;
use crate::load::read;
use crate::request::Sample;
use crate::rules::Rules;
use crate::source::Format;

const NOW: Tick = Tick::from_micros(1_900_000_000_000_000);

/// What is put where something else was, with a space between.
const WORDS: &str = "identify client trusted_proxies ipv6_prefix jwt secret_env SECRET in tiers \
    header default names from costs cost match method path not rules name key limit burst credits \
    for rate algorithm fixed-window leaky-queue concurrency sliding-log time_zone Europe/Berlin \
    lease max_wait unit MiB counts_when status overrides shadow enforce priority last unlimited \
    block true false null 0 1 -1 4294967295 4294967296 18446744073709551616 1e999 100/min 1/month \
    10MB/s 4000000000/s 366day 1ms 10x 100% {id} /users/{id} /** ** tier ip fingerprint jwt:sub \
    segment:64 segment:65 free pro 0.0.0.0/0 ::/0 [] {} [[]] &a *a ~ \" ' | > - : # [[ ]] = \
    \u{feff} \u{0} \t \r\n \u{2028} \u{e9}";

fn samples() -> Vec<(&'static str, Format)> {
    let messages = include_str!("messages.txt");
    let wrong = messages.split("=== ").skip(1).filter_map(|case| {
        let (_, rest) = case.split_once('\n')?;
        Some(rest.split_once("--- says")?.0)
    });
    let mut samples: Vec<_> = wrong.map(|text| (text, Format::Yaml)).collect();
    for (text, format) in [
        (include_str!("samples/whole.yaml"), Format::Yaml),
        (include_str!("samples/whole.toml"), Format::Toml),
        (include_str!("samples/whole.json"), Format::Json),
    ] {
        assert!(read_as(text.as_bytes(), format), "the sample has to be a good one");
        samples.extend([(text, format); 50]);
    }
    samples
}

fn requests() -> [Sample; 3] {
    let from = |sample: Sample, address: [u8; 4]| sample.from_peer(address.into());
    [
        from(Sample::new("GET /"), [192, 0, 2, 1]),
        from(Sample::new("post /users/7/avatar.png?id=a%20b&id=2"), [10, 0, 0, 1])
            .with_header("host", "API.example.com:443")
            .with_header("x-forwarded-for", "203.0.113.9, 10.0.0.2")
            .with_header("x-api-key", b"\xff\xfe")
            .with_header("x-tier", "pro")
            .with_header("cookie", "session=ada; b=c")
            .with_attribute("user", "ada"),
        Sample::new("DELETE //a/%2e%2e/b").with_header("authorization", "Bearer a.b.c"),
    ]
}

/// Whether a file gives rules; these plan.
fn read_as(text: &[u8], format: Format) -> bool {
    match read(&[("policy".to_owned(), text.to_vec(), format)], &Pretended) {
        Ok(loaded) => {
            assert_eq!(loaded.report.errors(), 0);
            drop(loaded.report.to_string());
            for request in &requests() {
                plan(&loaded.rules, request);
            }
            true
        }
        Err(report) => {
            assert!(0 < report.errors() && !report.to_string().is_empty());
            false
        }
    }
}

fn plan(rules: &Rules, request: &Sample) {
    let facts = rules.facts(request, NOW);
    let planned = rules.plan(&facts);
    for charge in &planned.charges {
        for timed in charge.rule.variants()[charge.variant].policies() {
            assert!(timed.changes_at(NOW).is_none_or(|later| NOW < later));
            drop(format!("{:?}", timed.policy(NOW)));
        }
    }
    let told = rules.explain(&facts);
    let counting = told.iter().filter(|it| matches!(it.does, Does::Counts(_))).count();
    assert_eq!(counting, planned.charges.len());
    for explained in &told {
        drop(explained.to_string());
    }
    drop(rules.identities(&facts));
}

/// A place from 0 to `length`, which is included.
fn place(chance: &mut Chance, length: usize) -> usize {
    usize::try_from(chance.below(length as u64 + 1)).unwrap()
}

/// The text with something done to it.
fn damaged(chance: &mut Chance, text: &str) -> Vec<u8> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    match chance.below(6) {
        0 => return flipped(chance, text.as_bytes().to_vec()),
        1 if !lines.is_empty() => {
            let [one, other] = [0; 2].map(|_| place(chance, lines.len() - 1));
            lines.swap(one, other);
        }
        2 => {
            let from = place(chance, lines.len());
            let to = (from + place(chance, 4)).min(lines.len());
            if chance.below(2) == 0 {
                lines.drain(from..to);
            } else {
                let (at, again) = (place(chance, lines.len()), lines[from..to].to_vec());
                lines.splice(at..at, again);
            }
        }
        3 => return text.as_bytes()[..place(chance, text.len())].to_vec(),
        _ => return reworded(chance, text).into_bytes(),
    }
    lines.concat().into_bytes()
}

fn flipped(chance: &mut Chance, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=chance.below(3) {
        let at = place(chance, bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << chance.below(8);
        }
    }
    bytes
}

/// With some words replaced by others: its own, or those that mean something.
fn reworded(chance: &mut Chance, text: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || "_-/.:%".contains(letter);
    let words: Vec<&str> = WORDS.split(' ').collect();
    let mut tokens: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|it| is_word(it) != is_word(first)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    for _ in 0..=chance.below(2) {
        let from = if tokens.is_empty() || 0 < chance.below(4) { &words } else { &tokens };
        let word = *chance.pick(from);
        let at = place(chance, tokens.len().saturating_sub(1));
        if let Some(token) = tokens.get_mut(at) {
            *token = word;
        }
    }
    tokens.concat()
}

#[test]
fn no_damage_makes_a_policy_panic() {
    let samples = samples();
    let mut accepted = 0;
    for seed in 0..40_000 {
        let mut chance = Chance::of(seed);
        let (text, format) = *chance.pick(&samples);
        let mut bytes = damaged(&mut chance, text);
        if let (0, Ok(again)) = (chance.below(6), str::from_utf8(&bytes)) {
            bytes = damaged(&mut chance, again);
        }
        let format = if chance.below(50) == 0 { *chance.pick(&FORMATS) } else { format };
        accepted += usize::from(read_as(&bytes, format));
    }
    assert!(2_000 < accepted, "only {accepted} were accepted: too much damage to find anything");
}

/// As the fuzzer does: what starts with `{` is JSON, what starts with `[` or has ` = ` in its first
/// line is TOML.
#[test]
fn every_seed_of_the_fuzzer_is_answered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/policy_file");
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).unwrap() {
        let text = fs::read(seed.unwrap().path()).unwrap();
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let format = match text.first() {
            Some(b'{') => Format::Json,
            Some(b'[') => Format::Toml,
            _ if first.windows(3).any(|it| it == b" = ") => Format::Toml,
            _ => Format::Yaml,
        };
        read_as(&text, format);
        seeds += 1;
    }
    assert!(20 < seeds, "{seeds} seeds in {}", folder.display());
}

/// Each is made of the one before twice: code that followed all of that would never be done.
#[test]
fn identities_that_multiply_are_refused_at_once() {
    let levels = (1..=50).map(|level| format!("  a{level}: [a{0}, a{0}]\n", level - 1));
    let levels: String = levels.collect();
    let text = format!(
        "identify:\n  a0: [header:x, ip]\n{levels}rules: [{{ name: r, key: a50, limit: 1/s }}]\n"
    );
    let refused = Rules::from_text(&text).unwrap_err().to_string();
    assert!(refused.contains("is made of too much"), "{refused}");
}
