//! Fencing tokens: numbers that strictly increase with every leader of an election.
//!
//! A token has an epoch in front of a counter. The counter increases with every take-over. The epoch increases only when
//! the store may have lost take-overs: a candidate that remembers a higher token than the store raises it, and an
//! operator can do so after a restore (`pole-elect STORE raise-epoch`).
//!
//! A resource that remembers the highest token it has seen and refuses lower ones is safe from a leader that does not
//! yet know that it was replaced:
//!
//! ```
//! use pole_elect::{Fence, Token};
//!
//! let mut fence = Fence::default();
//! assert!(fence.admit(Token::new(0, 7)));
//! assert!(fence.admit(Token::new(0, 7)), "the same leader again");
//! assert!(fence.admit(Token::new(1, 1)), "a new epoch comes after every counter of the old one");
//! assert!(!fence.admit(Token::new(0, 8)), "a leader of the lost past");
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fencing token. As a number it fits into a signed 64-bit column and is compared like any other number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// No leader yet.
    pub const ZERO: Self = Self(0);

    /// Creates a token; both parts are cut off at their limits.
    #[must_use]
    pub fn new(epoch: u32, counter: u64) -> Self {
        Self((u64::from(epoch).min(EPOCH_MAX) << COUNTER_BITS) | counter.min(COUNTER_MAX))
    }

    /// The token with that number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number.min(i64::MAX as u64))
    }

    /// The number to hand to resources.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The part that increases when a store has gone back.
    #[must_use]
    pub fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    /// The number of take-overs in this epoch.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 & COUNTER_MAX
    }

    /// The token of the next leader: the one after `self`, which the store has, unless `highest`, which this candidate
    /// has seen, or `epoch_floor`, which an operator has set, demand a higher epoch.
    #[must_use]
    pub fn successor(self, highest: Self, epoch_floor: u32) -> Self {
        // A full counter carries over into the epoch, because the parts are adjacent.
        let next = Self::from_number(self.0 + 1).max(Self::new(epoch_floor, 1));
        if next > highest { next } else { Self::new(highest.epoch() + 1, 1) }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The memory of a resource: refuses tokens lower than the highest it has admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    highest: Token,
}

impl Fence {
    /// Restores the memory, which must be as durable as the resource itself.
    #[must_use]
    pub fn remembering(highest: Token) -> Self {
        Self { highest }
    }

    /// Whether a request with this token may be carried out.
    pub fn admit(&mut self, token: Token) -> bool {
        let admitted = token >= self.highest;
        self.highest = self.highest.max(token);
        admitted
    }

    /// The highest token so far, to be stored.
    #[must_use]
    pub fn highest(&self) -> Token {
        self.highest
    }
}

/// A trillion take-overs; one a second lasts 34,000 years.
const COUNTER_BITS: u32 = 40;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
/// 23 bits, so that a token is never negative as a signed number.
const EPOCH_MAX: u64 = (1 << 23) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_again_and_the_epoch_counts_more() {
        let token = Token::new(3, 9);
        assert_eq!((token.epoch(), token.counter()), (3, 9));
        assert!(Token::new(1, 1) > Token::new(0, COUNTER_MAX));
        assert!(i64::try_from(Token::new(u32::MAX, u64::MAX).number()).is_ok());
    }

    #[test]
    fn the_next_token_is_higher_than_all_that_is_known() {
        let stored = Token::new(0, 5);
        assert_eq!(stored.successor(stored, 0), Token::new(0, 6));
        assert_eq!(stored.successor(Token::new(0, 5), 2), Token::new(2, 1));
        // The store went back from 9 to 5: not 6, which was given out before.
        assert_eq!(stored.successor(Token::new(0, 9), 0), Token::new(1, 1));
        assert_eq!(Token::new(0, COUNTER_MAX).successor(Token::ZERO, 0), Token::new(1, 0));
    }
}
