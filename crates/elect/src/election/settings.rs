//! The configuration of a candidate.

use pole_oracle::ResignConfig;
use pole_types::Span;

use crate::record::ID_MAX;
use crate::score::{ORACLE_MAX, OracleTag};
use crate::timing::{InvalidTiming, Timing};

/// The configuration of a candidate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The candidate's id, unique in the election, at most [`ID_MAX`] bytes.
    pub id: String,
    /// What computes the scores.
    pub oracle: OracleTag,
    /// The spans.
    pub timing: Timing,
    /// Who wins.
    pub strategy: Strategy,
    /// When a leader hands over to a better candidate.
    pub resign: ResignConfig,
    /// Takes part, but never leads.
    pub never: bool,
    /// [`Promises::early`](crate::promises::Promises::early) of the store.
    pub early: Span,
    /// A random number for each start of the candidate, which makes its lease ids unique.
    pub incarnation: u64,
    /// The wall clock at time zero, in milliseconds, for display only.
    pub wall_ms: u64,
}

impl Settings {
    /// The settings of a candidate with that id; everything else by default.
    #[must_use]
    pub fn new(id: impl Into<String>, incarnation: u64) -> Self {
        Self {
            id: id.into(),
            oracle: OracleTag { name: "custom".to_owned(), version: 0 },
            timing: Timing::default(),
            strategy: Strategy::BestScore,
            resign: ResignConfig::default(),
            never: false,
            early: Span::ZERO,
            incarnation,
            wall_ms: 0,
        }
    }

    /// Checks the values that a user may set.
    ///
    /// # Errors
    /// The first wrong one.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        self.timing.check()?;
        match () {
            () if self.id.is_empty() || self.id.len() > ID_MAX => Err(InvalidSettings::Id { got: self.id.len() }),
            () if self.oracle.name.len() > ORACLE_MAX => Err(InvalidSettings::Oracle { got: self.oracle.name.len() }),
            () if self.timing.usable(self.timing.ttl, self.early).0 < self.timing.ttl.0 / 2 => {
                Err(InvalidSettings::Early { ttl: self.timing.ttl, early: self.early })
            }
            () => Ok(()),
        }
    }
}

/// Why a candidate cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidSettings {
    #[error(transparent)]
    Timing(#[from] InvalidTiming),
    #[error("the id of a candidate has 1 to {ID_MAX} bytes, got {got}")]
    Id { got: usize },
    #[error("the name of an oracle has at most {ORACLE_MAX} bytes, got {got}")]
    Oracle { got: usize },
    #[error("{store} grants a time-to-live of at least {least}, got {ttl}")]
    Ttl { store: &'static str, ttl: Span, least: Span },
    #[error("a time-to-live of {ttl} is too short for a store that may end a lease {early} early")]
    Early { ttl: Span, early: Span },
}

/// Who wins an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The best score, with a succession list.
    BestScore,
    /// The first candidate that notices the vacancy, as in most libraries. Scores do not matter.
    FirstCome,
}
