//! The kinds of requests of a load, and how often each is sent.

use std::fmt;
use std::str::FromStr;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads the data of the client's node.
    Read,
    /// Replaces it.
    Write,
    /// Creates a node, or deletes the one created last.
    Create,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Create];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
        }
    }
}

/// How often each kind is sent: `read=80,write=20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    /// In the order of [`Kind::ALL`]; not all 0.
    shares: [u32; 3],
}

impl Mix {
    /// The kind of request number `number`. Kinds are spread evenly, and the same for every run.
    pub(crate) fn kind(&self, number: u64) -> Kind {
        let total: u64 = self.shares.iter().map(|share| u64::from(*share)).sum();
        // A step that has no factor in common with the total visits every residue once.
        let step = (total * 618 / 1000..).find(|step| gcd(*step, total) == 1).unwrap_or(1);
        let mut at = number.wrapping_mul(step.max(1)) % total;
        for (kind, share) in Kind::ALL.into_iter().zip(self.shares) {
            match at.checked_sub(u64::from(share)) {
                None => return kind,
                Some(rest) => at = rest,
            }
        }
        Kind::Write
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut shares = [0; 3];
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or(FORM)?;
            let kind = Kind::ALL.iter().position(|kind| kind.name() == name.trim()).ok_or(FORM)?;
            shares[kind] = share.trim().parse().ok().filter(|share| *share <= SHARE_MAX).ok_or(FORM)?;
        }
        if shares.iter().sum::<u32>() == 0 { Err(FORM.to_owned()) } else { Ok(Self { shares }) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Kind::ALL.iter().zip(self.shares).filter(|(_, share)| *share > 0);
        let parts: Vec<String> = parts.map(|(kind, share)| format!("{}={share}", kind.name())).collect();
        f.write_str(&parts.join(","))
    }
}

const FORM: &str = "expected shares of read, write and create, such as read=80,write=20";
const SHARE_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_shares_and_are_spread() {
        let mix: Mix = "read=80,write=15,create=5".parse().unwrap();
        let kinds: Vec<Kind> = (0..1_000).map(|number| mix.kind(number)).collect();
        let count = |kind| kinds.iter().filter(|other| **other == kind).count();
        assert_eq!((count(Kind::Read), count(Kind::Write), count(Kind::Create)), (800, 150, 50));
        let longest = kinds.chunk_by(|a, b| a == b).filter(|run| run[0] == Kind::Write).map(<[Kind]>::len).max();
        assert!(longest.unwrap() <= 3, "{longest:?} writes in a row");
    }

    #[test]
    fn one_kind_is_enough() {
        for text in ["write=1", "read=100", "create=7"] {
            let mix: Mix = text.parse().unwrap();
            assert!((0..100).all(|number| mix.kind(number).name() == text.split('=').next().unwrap()));
            assert_eq!(mix.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in ["", "read", "read=", "read=-1", "read=0", "delete=5", "read=99999", "read=80 write=20"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
