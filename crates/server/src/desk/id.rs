//! Names of what is held: 128 random bits, so that nobody guesses another's.

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Names something that is held for a caller.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Id(u128);

impl Id {
    /// Names nothing, and is given where nothing has to be held. Nobody draws it.
    pub(crate) const NOTHING: Id = Id(0);

    /// Another one.
    pub(crate) fn random() -> Id {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
        Id(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Id {
    /// Leaves most of it out: who knows it can use it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({:04x}…)", self.0 >> 112)
    }
}

/// A text that names nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NoId;

impl FromStr for Id {
    type Err = NoId;

    fn from_str(text: &str) -> Result<Id, NoId> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if text.len() != 32 || !is_hex {
            return Err(NoId);
        }
        u128::from_str_radix(text, 16).map(Id).map_err(|_| NoId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_written_and_read() {
        let id = Id::random();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, Id::random());
        for wrong in ["", "+0000000000000000000000000000001", &id.to_string()[1..]] {
            assert_eq!(wrong.parse::<Id>(), Err(NoId), "{wrong}");
        }
    }
}
