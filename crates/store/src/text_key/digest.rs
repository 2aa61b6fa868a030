//! Short names for long things: the same on every node, whatever it was built with.
//!
//! Nobody gains by making two of their own keys share a limit; to hit somebody else's takes a
//! second preimage, which even a shortened SHA-1 does not give away.

use arrayvec::ArrayString;

/// Characters of a whole digest: 132 bits.
pub const DIGEST: usize = 22;

/// Adds the first `length` characters of a digest: six bits each, at most [`DIGEST`].
pub fn push<const N: usize>(text: &mut ArrayString<N>, digest: [u8; 20], length: usize) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bits = 0_u32;
    let mut held = 0;
    let mut letters = 0;
    for byte in digest {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while 6 <= held && letters < length.min(DIGEST) {
            held -= 6;
            // Every caller has room for them.
            let _ = text.try_push(char::from(LETTERS[(bits >> held & 63) as usize]));
            letters += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_standard_in_base64() {
        let mut text = ArrayString::<DIGEST>::new();
        push(&mut text, sha1_smol::Sha1::from("abc").digest().bytes(), DIGEST);
        // a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d
        assert_eq!(&text, "qZk-NkcGgWq6PiVxeFDCbJ");
    }
}
