//! How one server brings another level: a plan made from the shapes of two histories.
//!
//! In: our log and the history of the other. Out: truncate, difference or snapshot. Used by a leader for its
//! followers and by the source of a pull for its leader: one mechanism for both directions.

use pole_election::Zxid;

use crate::{Epochs, Log};

/// What the other server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The entries after `after`; before that, if its log goes on beyond it, a truncation.
    Difference { truncate: bool, after: Zxid },
    /// It is too far behind for our window.
    Snapshot,
}

impl Plan {
    pub(crate) fn make(ours: &Log, theirs: &Epochs) -> Self {
        match ours.epochs().common(theirs) {
            Some(common) if ours.reaches(common) => {
                Self::Difference { truncate: theirs.last().unwrap_or(Zxid::ZERO) > common, after: common }
            }
            _ => Self::Snapshot,
        }
    }
}
