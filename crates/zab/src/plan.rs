//! Chooses how to bring another server to our history: with a difference, after a truncation if necessary, or a
//! snapshot.
//!
//! The plan is made from our log and the shape of the other history. A leader uses it for its followers, and the source
//! of a pull uses it for its leader.

use pole_types::Zxid;

use crate::{Epochs, Log};

/// What to send to the other server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The entries after `after`, preceded by a truncation if its log goes beyond `after`.
    Difference { truncate: bool, after: Zxid },
    /// A snapshot: our log in memory does not reach back to the last common position.
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
