//! Planted bugs: the harness, not the machine, takes one protection away, and the checker must notice.
//!
//! In: what a machine puts out. Out: the same, or what a machine with that bug would have put out.

use pole_zab::{DiskOp, Epoch, Hello, Message};

/// A protection taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sabotage {
    /// None.
    #[default]
    None,
    /// Every write is reported as durable when it begins.
    ReportsEarly,
    /// Truncations never reach the disk.
    SkipsTruncation,
    /// A follower does not say what it has promised, and an answer that repeats a promise counts as a new one. (Either
    /// alone does no harm within these bounds: a candidate goes above what it hears of, and counts no repeated answer.)
    HidesPromises,
    /// The promise is told but not kept on disk.
    ForgetsPromises,
    /// An answer claims the epoch of the question as the epoch taken over.
    ClaimsNewerHistory,
}

impl Sabotage {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::ReportsEarly,
        Self::SkipsTruncation,
        Self::HidesPromises,
        Self::ForgetsPromises,
        Self::ClaimsNewerHistory,
    ];

    /// What is sent instead.
    pub(crate) fn sent(self, message: Message) -> Message {
        match (self, message) {
            (Self::HidesPromises, Message::Hello(hello)) => {
                Message::Hello(Hello { accepted_epoch: Epoch::default(), ..hello })
            }
            (Self::HidesPromises, Message::AckEpoch(mut promise)) => {
                promise.fresh = true;
                Message::AckEpoch(promise)
            }
            (Self::ClaimsNewerHistory, Message::AckEpoch(mut promise)) => {
                promise.current_epoch = promise.epoch;
                Message::AckEpoch(promise)
            }
            (_, message) => message,
        }
    }

    /// What reaches the disk instead.
    pub(crate) fn written(self, op: DiskOp) -> Option<DiskOp> {
        match (self, op) {
            (Self::SkipsTruncation, DiskOp::Truncate { .. }) => None,
            (_, op) => Some(op),
        }
    }

    pub(crate) fn reports_early(self) -> bool {
        self == Self::ReportsEarly
    }

    /// Whether an epoch file is lost in a crash.
    pub(crate) fn forgets_promises(self) -> bool {
        self == Self::ForgetsPromises
    }
}
