//! Base64, decoded strictly, but for signatures: one spelling for one text, so that a key or a
//! claim cannot be varied.

/// Which letters stand for 62 and 63.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alphabet {
    /// `+` and `/`, padded with `=`: PEM.
    Standard,
    /// `-` and `_`, without padding: JSON Web Tokens.
    Url,
}

/// The bytes of `text`, if it is base64 to the last bit.
pub(super) fn decode(text: &[u8], alphabet: Alphabet) -> Option<Vec<u8>> {
    let text = match alphabet {
        Alphabet::Standard if text.len().is_multiple_of(4) => {
            text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text)
        }
        Alphabet::Standard => return None,
        Alphabet::Url => text,
    };
    let mut bytes = Vec::with_capacity(text.len().saturating_mul(3) / 4);
    for group in text.chunks(4) {
        let mut word = 0_u32;
        for letter in group {
            word = (word << 6) | sextet(*letter, alphabet)?;
        }
        // A group of two letters has one byte and four bits to spare; of three, two and two.
        let (count, spare) = match group.len() {
            4 => (3, 0),
            3 => (2, 2),
            2 => (1, 4),
            _ => return None,
        };
        if word & ((1 << spare) - 1) != 0 {
            return None;
        }
        let [_, decoded @ ..] = (word >> spare).to_be_bytes();
        bytes.extend_from_slice(decoded.get(3_usize.saturating_sub(count)..)?);
    }
    Some(bytes)
}

/// The bytes of a token's signature, in any spelling of them. Only these bytes say whether it is
/// genuine, and some applications read them with padding, with letters of either alphabet, and with
/// anything between them: a spelling that only we refuse would be a way to be nobody.
pub(super) fn decode_signature(text: &[u8]) -> Option<Vec<u8>> {
    let sextets = text.iter().filter_map(|letter| {
        sextet(*letter, Alphabet::Url).or_else(|| sextet(*letter, Alphabet::Standard))
    });
    let (mut bytes, mut word, mut bits) = (Vec::with_capacity(text.len()), 0_u32, 0_u32);
    for sextet in sextets {
        (word, bits) = (word << 6 | sextet, bits + 6);
        if 8 <= bits {
            bits -= 8;
            bytes.push(u8::try_from(word >> bits & 0xFF).ok()?);
            word &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

fn sextet(letter: u8, alphabet: Alphabet) -> Option<u32> {
    let value = match (letter, alphabet) {
        (b'A'..=b'Z', _) => letter.checked_sub(b'A'),
        (b'a'..=b'z', _) => letter.checked_sub(b'a').and_then(|nth| nth.checked_add(26)),
        (b'0'..=b'9', _) => letter.checked_sub(b'0').and_then(|nth| nth.checked_add(52)),
        (b'+', Alphabet::Standard) | (b'-', Alphabet::Url) => Some(62),
        (b'/', Alphabet::Standard) | (b'_', Alphabet::Url) => Some(63),
        _ => None,
    };
    value.map(u32::from)
}

/// Writes what [`decode`] reads, for tokens made in tests.
#[cfg(test)]
pub(crate) fn encode(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for nth in 0..=group.len() {
            text.push(char::from(letters[(word >> (18 - 6 * nth) & 0x3F) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, alphabet: Alphabet, expected: Option<&[u8]>) {
        assert_eq!(decode(text.as_bytes(), alphabet).as_deref(), expected, "{text}");
    }

    #[test]
    fn texts_decode_by_their_alphabet() {
        check("", Alphabet::Url, Some(b""));
        check("Zg", Alphabet::Url, Some(b"f"));
        check("Zm8", Alphabet::Url, Some(b"fo"));
        check("Zm9v", Alphabet::Url, Some(b"foo"));
        check("Zm9vYg==", Alphabet::Standard, Some(b"foob"));
        check("Zm9vYmE=", Alphabet::Standard, Some(b"fooba"));
        check("-_-_", Alphabet::Url, Some(&[0xFB, 0xFF, 0xBF]));
        check("+/+/", Alphabet::Standard, Some(&[0xFB, 0xFF, 0xBF]));
    }

    #[test]
    fn a_second_spelling_is_refused() {
        for text in ["Z", "Zg==", "Zh", "Zm9", "Zm9vY", "+/+/", "Zm 9v", "Zm\n9v", "é", "===="] {
            check(text, Alphabet::Url, None);
        }
        for text in ["Zg", "Zh==", "Zg=", "Z===", "====", "-_-_", "Zg==Zg=="] {
            check(text, Alphabet::Standard, None);
        }
    }

    #[test]
    fn a_signature_is_read_in_any_spelling() {
        for text in ["-_8", "-_8=", "+/8", "-_9", "- _\n8", "-_8*", "é-_8=="] {
            let decoded = decode_signature(text.as_bytes());
            assert_eq!(decoded.as_deref(), Some(&[0xFB, 0xFF][..]), "{text}");
        }
        assert_eq!(decode_signature(b""), Some(Vec::new()));
    }

    #[test]
    fn what_is_encoded_decodes() {
        for length in 0..70_u8 {
            let bytes: Vec<u8> = (0..length).map(|nth| nth.wrapping_mul(37)).collect();
            check(&encode(&bytes), Alphabet::Url, Some(&bytes));
        }
    }
}
