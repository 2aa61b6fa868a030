//! Any bytes as commands of the Redis protocol, whole and in pieces: the same commands come out.
//!
//! The first byte says how long the pieces are; `crates/server` runs the seeds of the corpus in the
//! same way, beside a slow reader.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_server::resp::{Excess, Found, Frames, Misframed};

fuzz_target!(|input: &[u8]| {
    let piece = usize::from(input.first().copied().unwrap_or(1)).max(1);
    assert_eq!(read(input, input.len().max(1)), read(input, piece), "in pieces of {piece}");
    assert_eq!(read(input, input.len().max(1)), read(input, 1), "byte by byte");
});

fn read(input: &[u8], piece: usize) -> (Vec<Result<Vec<Vec<u8>>, Excess>>, Option<Misframed>) {
    let (mut frames, mut commands) = (Frames::default(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match frames.next(&input[start..end]) {
            Ok(Some(frame)) => {
                assert!(0 < frame.used, "a command of nothing");
                match frame.found {
                    Found::Command(it) => {
                        commands.push(Ok(it.iter().map(|it| it.to_vec()).collect()));
                    }
                    Found::Part => {}
                    Found::TooLong(excess) => commands.push(Err(excess)),
                }
                start += frame.used;
            }
            Ok(None) if end == input.len() => return (commands, None),
            Ok(None) => end = (end + piece).min(input.len()),
            Err(misframed) => return (commands, Some(misframed)),
        }
    }
}
