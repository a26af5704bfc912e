//! Rare branches by name, so that a summary can report which of them a run has hit.

use std::fmt;

macro_rules! marks {
    ($($name:ident => $text:literal,)*) => {
        /// A branch that random faults should hit now and then.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $(#[doc = $text] $name,)*
        }

        impl Mark {
            /// All marks.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl fmt::Display for Mark {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

marks! {
    Truncated => "truncate",
    SnapshotSync => "snapshot sync",
    SnapshotPull => "snapshot pull",
    Pull => "pull",
    Reopened => "reopen",
    CounterEnd => "counter end",
    HandedOver => "handover",
    HandoverAborted => "handover aborted",
    Unreached => "handover for a server out of reach",
    AlreadyPromised => "already promised",
    Refused => "refused",
    Declined => "declined",
    Blank => "blank",
    Wiped => "wiped",
    TornTail => "torn tail",
    UnsyncedLost => "unsynced lost",
    IntentRolledForward => "intent rolled forward",
    DiskFailed => "disk failed",
    DiskHung => "disk hangs",
    QuorumLost => "quorum lost",
    MembersChanged => "members changed",
    HalfOpen => "half-open connection",
    FinLost => "end of a connection not heard",
    Superseded => "session moved",
    ClosedByPatience => "clients closed without a leader",
    Ambushed => "ambushed",
    MajorityDown => "majority down",
}

/// How often each mark was hit.
#[derive(Clone, Debug)]
pub struct Marks(Vec<u64>);

impl Marks {
    /// All counts are zero.
    #[must_use]
    pub fn new() -> Self {
        Self(vec![0; Mark::ALL.len()])
    }

    /// Counts one hit.
    pub fn hit(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// How often the mark was hit.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(ours, theirs)| *ours += theirs);
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}
