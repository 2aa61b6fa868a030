//! The reader against a slow one that is written from the words of the protocol, whole and in
//! pieces.

use std::path::Path;

use tidegate_sim::rng::Rng;

use super::*;

/// The arguments of a command, or why there were too many or too long ones.
type Got = Result<Vec<Vec<u8>>, Excess>;

/// What a reader made of some input: the commands, and why it stopped before the end.
type Outcome = (Vec<Got>, Option<Misframed>);

/// Reads input that arrives in pieces, each as long as `piece` says.
fn read(input: &[u8], mut piece: impl FnMut() -> usize) -> Outcome {
    let (mut frames, mut commands) = (Frames::default(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match frames.next(&input[start..end]) {
            Ok(Some(frame)) => {
                assert_ne!(frame.used, 0);
                match frame.found {
                    Found::Command(it) => {
                        commands.push(Ok(it.iter().map(|it| it.to_vec()).collect()));
                    }
                    Found::Part => assert!(frames.is_passing()),
                    Found::TooLong(excess) => commands.push(Err(excess)),
                }
                start += frame.used;
            }
            Ok(None) if end == input.len() => return (commands, None),
            Ok(None) => end = (end + piece()).min(input.len()),
            Err(misframed) => return (commands, Some(misframed)),
        }
    }
}

/// Reads the commands slowly: by lines, in numbers of the standard library.
fn read_slowly(mut input: &[u8]) -> Outcome {
    let mut commands = Vec::new();
    loop {
        match one_slowly(input) {
            Ok(Some((command, rest))) => {
                commands.push(command);
                input = rest;
            }
            Ok(None) => return (commands, None),
            Err(misframed) => return (commands, Some(misframed)),
        }
    }
}

type Slowly<'a, T> = Result<Option<(T, &'a [u8])>, Misframed>;

fn one_slowly(input: &[u8]) -> Slowly<'_, Got> {
    match input.first() {
        None => Ok(None),
        Some(b'*') => array_slowly(input),
        Some(byte) if !b"\"' \t\r\n\x0c".contains(byte) && !byte.is_ascii_alphabetic() => {
            Err(Misframed::Start(*byte))
        }
        Some(_) => {
            let Some(end) = input.iter().take(RESP_INLINE_BYTES_MAX).position(|it| *it == b'\n')
            else {
                let is_long = RESP_INLINE_BYTES_MAX <= input.len();
                return if is_long { Err(Misframed::InlineLength) } else { Ok(None) };
            };
            let line = &input[..end];
            let line = if line.ends_with(b"\r") { &line[..end - 1] } else { line };
            let words = inline::words(line)?;
            Ok(Some((Ok(words.iter().map(|word| word.to_vec()).collect()), &input[end + 1..])))
        }
    }
}

fn array_slowly(input: &[u8]) -> Slowly<'_, Got> {
    let (is_negative, digits) = match input[1..].strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, &input[1..]),
    };
    let Some((count, mut rest)) = number_slowly(digits, 1 << 20, Misframed::Arguments)? else {
        return Ok(None);
    };
    let is_many = !is_negative && RESP_ARGUMENTS_MAX < count;
    let (mut arguments, mut excess) = (Vec::new(), is_many.then_some(Excess::Arguments));
    for _ in 0..if is_negative { 0 } else { count } {
        match rest.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(Misframed::ArgumentType(*other)),
        }
        let length = number_slowly(&rest[1..], 512 << 20, Misframed::ArgumentLength)?;
        let Some((length, after)) = length else { return Ok(None) };
        let is_long = RESP_COMMAND_BYTES_MAX < input.len() - after.len() + length + 2;
        let own = (RESP_ARGUMENT_BYTES_MAX < length).then_some(Excess::Argument);
        excess = excess.or(own).or(is_long.then_some(Excess::Command));
        let end: Vec<u8> = after.iter().copied().skip(length).take(2).collect();
        if !b"\r\n".starts_with(&end) {
            return Err(Misframed::BulkEnd);
        }
        if end.len() < 2 {
            return Ok(None);
        }
        arguments.push(after[..length].to_vec());
        rest = &after[length + 2..];
    }
    Ok(Some((excess.map_or(Ok(arguments), Err), rest)))
}

fn number_slowly(input: &[u8], max: usize, wrong: Misframed) -> Slowly<'_, usize> {
    let digits = input.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = str::from_utf8(&input[..digits]).unwrap();
    let is_too_large = text.parse::<u128>().is_ok_and(|value| (max as u128) < value);
    if is_too_large || 20 < text.len() || (text.starts_with('0') && text != "0") {
        return Err(wrong);
    }
    match &input[digits..] {
        [] => Ok(None),
        [b'\r'] if !text.is_empty() => Ok(None),
        [b'\r', b'\n', rest @ ..] if !text.is_empty() => Ok(Some((text.parse().unwrap(), rest))),
        _ => Err(wrong),
    }
}

fn any_command(rng: &mut Rng, input: &mut Vec<u8>) {
    if rng.one_in(5) {
        let lines =
            ["PING\r\n", "\n", " echo 'a b'  c\n", "post /\n", "x \"\\n\"\n", "*0\r\n", "*-1\r\n"];
        return input.extend_from_slice(lines[index(rng, lines.len())].as_bytes());
    }
    let count = if rng.one_in(300) { 510 + rng.below(5) } else { rng.below(6) };
    input.extend_from_slice(format!("*{count}\r\n").as_bytes());
    for _ in 0..count {
        let length = if 500 < count {
            1
        } else if rng.one_in(20) {
            rng.below(17 << 10)
        } else {
            rng.below(12)
        };
        input.extend_from_slice(format!("${length}\r\n").as_bytes());
        input.extend((0..length).map(|_| b"$*1\r\nab\xff"[index(rng, 8)]));
        input.extend_from_slice(b"\r\n");
    }
}

fn index(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap()
}

/// Some commands; mostly something about them is wrong.
fn any_input(rng: &mut Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..=rng.below(4) {
        any_command(rng, &mut input);
    }
    for _ in 0..rng.below(3) {
        let at = index(rng, input.len());
        match rng.below(3) {
            0 => input[at] = b"*$-0129\r\n %~>:\"'a\x16"[index(rng, 18)],
            1 => drop(input.remove(at)),
            _ => input.insert(at, b"*$-0129\r\n"[index(rng, 9)]),
        }
        if input.is_empty() {
            break;
        }
    }
    input
}

#[test]
fn the_reader_agrees_with_a_slow_one_however_the_bytes_come() {
    let (mut rng, mut wrong) = (Rng::new(5), 0);
    for _ in 0..20_000 {
        let input = any_input(&mut rng);
        let expected = read_slowly(&input);
        wrong += u32::from(expected.1.is_some());
        assert_eq!(read(&input, || input.len()), expected, "{}", input.escape_ascii());
        assert_eq!(read(&input, || 1), expected, "by bytes: {}", input.escape_ascii());
        let mut pieces = Rng::new(rng.next_u64());
        let pieces = read(&input, || 1 + index(&mut pieces, 40));
        assert_eq!(pieces, expected, "in pieces: {}", input.escape_ascii());
    }
    assert!((2_000..18_000).contains(&wrong), "{wrong} of 20,000 were wrong");
}

/// `fuzz/fuzz_targets/resp_frame.rs` does the same with whatever it comes upon.
#[test]
fn every_seed_is_read_alike_in_whatever_pieces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp_frame");
    let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(10 < seeds.len(), "only {} seeds", seeds.len());
    for seed in seeds {
        let input = std::fs::read(seed.unwrap().path()).unwrap();
        let expected = read_slowly(&input);
        for piece in [1, 2, 7, input.len().max(1)] {
            assert_eq!(read(&input, || piece), expected, "{}", input.escape_ascii());
        }
    }
}

#[track_caller]
fn refused(input: &[u8], expected: Misframed) {
    assert_eq!(read(input, || 1).1, Some(expected), "{}", input.escape_ascii());
}

#[test]
fn what_is_too_large_is_refused_before_it_comes() {
    refused(b"*1000000000", Misframed::Arguments);
    refused(b"*1048577", Misframed::Arguments);
    refused(b"*99999999999999999999999999", Misframed::Arguments);
    refused(b"*1\r\n$99999999999", Misframed::ArgumentLength);
    refused(b"*1\r\n$536870913", Misframed::ArgumentLength);
    refused(&b"a".repeat(RESP_INLINE_BYTES_MAX), Misframed::InlineLength);
}

fn array(arguments: &[usize]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", arguments.len()).into_bytes();
    for length in arguments {
        command.extend_from_slice(format!("${length}\r\n").as_bytes());
        command.extend(b"x".repeat(*length));
        command.extend_from_slice(b"\r\n");
    }
    command
}

#[test]
fn a_command_that_is_too_long_is_passed_over_and_the_next_is_read() {
    for (arguments, excess) in [
        (&[16_385][..], Excess::Argument),
        (&[4, 16_385, 0, 3], Excess::Argument),
        (&[4, 3, 3_000_000], Excess::Argument),
        (&[16_384; 4], Excess::Command),
        (&[1; 513], Excess::Arguments),
    ] {
        let long = array(arguments);
        let input = [&b"PING\r\n"[..], &long, b"*1\r\n$4\r\nPING\r\n", &long, b"PING\r\n"].concat();
        let ping = || Ok(vec![b"PING".to_vec()]);
        for piece in [1 << 24, 16 << 10, 7] {
            let expected = vec![ping(), Err(excess), ping(), Err(excess), ping()];
            assert_eq!(read(&input, || piece), (expected, None), "{excess:?} in {piece}");
        }
    }
    assert_eq!(read(&array(&[16_384; 3]), || 1_000).0.len(), 1);
    let torn = [&array(&[20_000])[..20_012], b"xx"].concat();
    assert_eq!(read(&torn, || 9).1, Some(Misframed::BulkEnd));
}

#[test]
fn only_arrays_of_bulk_strings_are_commands() {
    refused(b"%1\r\n$1\r\na\r\n$1\r\nb\r\n", Misframed::Start(b'%'));
    refused(b"\x16\x03\x01\x02", Misframed::Start(0x16));
    refused(b"*1\r\n*1\r\n$4\r\nPING\r\n", Misframed::ArgumentType(b'*'));
    refused(b"*1\r\n:1\r\n", Misframed::ArgumentType(b':'));
    refused(b"*1\r\n$-1\r\n", Misframed::ArgumentLength);
    refused(b"*1\r\n$4\r\nPINGED\r\n", Misframed::BulkEnd);
    refused(b"*01\r\n", Misframed::Arguments);
    refused(b"*+1\r\n", Misframed::Arguments);
    refused(b"*\r\n", Misframed::Arguments);
}

#[test]
fn messages_are_those_of_redis() {
    let told = |misframed: Misframed| misframed.to_string();
    assert_eq!(told(Misframed::Arguments), "Protocol error: invalid multibulk length");
    assert_eq!(told(Misframed::ArgumentLength), "Protocol error: invalid bulk length");
    assert_eq!(told(Misframed::ArgumentType(b':')), "Protocol error: expected '$', got ':'");
    assert_eq!(told(Misframed::ArgumentType(b'\r')), "Protocol error: expected '$', got '\\r'");
    assert_eq!(told(Misframed::Quotes), "Protocol error: unbalanced quotes in request");
    assert_eq!(told(Misframed::InlineLength), "Protocol error: too big inline request");
}
