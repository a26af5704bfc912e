//! The host of an election in the model: a fixed score and no measurements.

use pole_election::{Assessment, Host, Proposal, Rank, Score, Standing};
use pole_types::{ServerId, Span, Zxid};

/// The fixed answers of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedScore {
    /// Smaller is better. None means too few measurements.
    pub(crate) score: Option<i64>,
    pub(crate) fingerprint: u64,
}

impl FixedScore {
    /// A score of the first oracle.
    pub(crate) const fn of(score: i64) -> Self {
        Self { score: Some(score), fingerprint: 1 }
    }

    /// The proposal of this server for itself.
    pub(crate) fn proposal(self, id: ServerId) -> Proposal {
        let rank = self.score.map_or(Rank::Unknown, |score| Rank::Known(Score::from(score)));
        let fingerprint = if self.score.is_some() { self.fingerprint } else { 0 };
        Proposal { id, rank, version: Zxid::ZERO, fingerprint, standing: Standing::default(), inputs: Vec::new() }
    }
}

impl Host for FixedScore {
    fn assess(&mut self, _: u64) -> Option<Assessment> {
        let rank = Rank::Known(Score::from(self.score?));
        Some(Assessment { rank, version: Zxid::ZERO, fingerprint: self.fingerprint, inputs: Vec::new() })
    }

    fn standing(&self) -> Standing {
        Standing::default()
    }

    fn round_trip(&self, _: ServerId) -> Option<Span> {
        None
    }

    fn ranks_below(&self, _: ServerId, _: &Proposal) -> bool {
        false
    }

    fn validate(&self, _: &Proposal) -> Result<(), String> {
        Ok(())
    }
}
