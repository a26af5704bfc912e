//! Scores: lists of integers, smaller is better, in the same order on every server.

use alloc::vec::Vec;

/// How good a leader a server would be: components in order of priority, compared lexicographically, smaller is
/// better. They are integers (microseconds, milli-requests), because floats have no total order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(Vec<i64>);

impl Score {
    /// The maximum number of components. A score with more is invalid.
    pub const COMPONENTS_MAX: usize = 16;

    /// Creates a score from its components, most important first.
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

/// A score, or the fact that there is none. Unknown ranks last but can be elected, so that an ensemble always comes
/// up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A score.
    Known(Score),
    /// Too few measurements, or an invalid score. It comes after `Known` in the derived order, so it is worse.
    Unknown,
}
