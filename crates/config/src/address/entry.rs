//! The entries of the headers that proxies write, from the right.
//!
//! A line is cut from its right end, quotation marks and all: whatever a client wrote to the left
//! cannot change how the entry is read that a proxy added after it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Believes;
use crate::attribute::is_token;

/// The most bytes of an address with its port: more than the longest has.
const NODE_MAX: usize = 128;

/// The entries of `line`, the last one first.
pub(super) fn from_the_right(line: &[u8], believes: Believes) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let comma = match believes {
            Believes::XForwardedFor => line.iter().rposition(|byte| *byte == b','),
            Believes::Forwarded => last_outside_quotes(line, b','),
        };
        let (before, entry) = match comma.and_then(|at| line.split_at_checked(at)) {
            Some((before, entry)) => (Some(before), entry.get(1..).unwrap_or(&[])),
            None => (None, line),
        };
        rest = before;
        Some(entry.trim_ascii())
    })
}

/// The address that `entry` names, unwrapped. None if it hides or cannot be read.
pub(super) fn address(entry: &[u8], believes: Believes) -> Option<IpAddr> {
    let address = match believes {
        Believes::XForwardedFor => node(entry),
        Believes::Forwarded => node(&forwarded_for(entry)?),
    };
    address.map(|address| address.to_canonical())
}

/// Where the last `separator` is that no quotation marks surround.
fn last_outside_quotes(line: &[u8], separator: u8) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        if *byte == b'"' && !is_escaped(line, at) {
            quoted = !quoted;
        } else if *byte == separator && !quoted {
            return Some(at);
        }
    }
    None
}

/// Whether an odd number of backslashes stands before `at`.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.get(..at).unwrap_or(&[]);
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The value of `for` in `for=192.0.2.60;proto=http;by=203.0.113.43`. Any fault spoils all of it.
fn forwarded_for(entry: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let mut rest = Some(entry);
    while let Some(pairs) = rest {
        let (before, pair) = match last_outside_quotes(pairs, b';') {
            Some(at) => (pairs.get(..at), pairs.get(at.checked_add(1)?..)?),
            None => (None, pairs),
        };
        rest = before;
        if pair.trim_ascii().is_empty() && !entry.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let name = pair.get(..equals)?.trim_ascii();
        let value = unquoted(pair.get(equals.checked_add(1)?..)?.trim_ascii())?;
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return None;
        }
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// A value without its quotation marks.
fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let Some(inside) = value.strip_prefix(b"\"") else {
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\,;".contains(byte);
        return (!value.is_empty() && value.iter().all(plain)).then(|| value.to_vec());
    };
    let mut inside = inside.strip_suffix(b"\"")?.iter();
    let mut text = Vec::with_capacity(inside.len());
    while let Some(byte) = inside.next() {
        match byte {
            b'\\' => text.push(*inside.next()?),
            b'"' => return None,
            _ => text.push(*byte),
        }
    }
    Some(text)
}

/// An address, with or without a port: `1.2.3.4`, `1.2.3.4:55`, `::1`, `[::1]`, `[::1]:55`.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok().filter(|text| text.len() <= NODE_MAX)?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let fine = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| fine).map(IpAddr::V6);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let (address, port) = text.split_once(':')?;
    address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::V4)
}

/// A port's number, or a name that hides it (`_x`), as RFC 7239 allows.
fn is_port(port: &str) -> bool {
    let hides = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match port.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(hides),
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}
