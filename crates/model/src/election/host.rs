//! The server around an election: a score that is written down, and no measurements.

use pole_election::{Assessment, Host, Proposal, Rank, Score, ServerId, Span, Standing, Zxid};

/// What one server answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    /// Smaller is better. None: not enough measurements.
    pub(crate) score: Option<i64>,
    pub(crate) fingerprint: u64,
}

impl Scored {
    /// A score of the first oracle.
    pub(crate) const fn of(score: i64) -> Self {
        Self { score: Some(score), fingerprint: 1 }
    }

    /// As this server would propose itself.
    pub(crate) fn proposal(self, id: ServerId) -> Proposal {
        let rank = self.score.map_or(Rank::Unknown, |score| Rank::Known(Score::from(score)));
        let fingerprint = if self.score.is_some() { self.fingerprint } else { 0 };
        Proposal { id, rank, version: Zxid::ZERO, fingerprint, standing: Standing::default(), inputs: Vec::new() }
    }
}

impl Host for Scored {
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
