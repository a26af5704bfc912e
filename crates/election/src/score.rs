//! Scores as they travel: integers, smaller is better, the same order on every server.

use alloc::vec::Vec;

/// How good a leader a server would be: components in order of priority, each smaller is better, compared
/// lexicographically. Integers (microseconds, milli-requests), because floats have no total order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(Vec<i64>);

impl Score {
    /// The most components that a score may have; more is refused as invalid.
    pub const COMPONENTS_MAX: usize = 16;

    /// A score of these components, most important first.
    #[must_use]
    pub fn new(components: Vec<i64>) -> Self {
        Self(components)
    }

    /// The components, most important first.
    #[must_use]
    pub fn components(&self) -> &[i64] {
        &self.0
    }
}

impl From<i64> for Score {
    fn from(component: i64) -> Self {
        Self::new(alloc::vec![component])
    }
}

/// A score, or the word that there is none. Unknown is worst, but it can be elected: an ensemble always comes up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// Scored.
    Known(Score),
    /// Not enough measurements, or an invalid score. After `Known` in the derived order, hence worse.
    Unknown,
}
