//! Planted bugs: the harness, not the state machine, disables one protection, and the checker must notice.
//!
//! Each method maps an output of the correct state machine to what a machine with that bug would have produced.

use pole_types::{Epoch, Membership, ServerId};
use pole_zab::{DiskOp, Hello, Message, Zab};

use super::members;

/// A disabled protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sabotage {
    /// No bug.
    #[default]
    None,
    /// Every write is reported as durable when it begins.
    ReportsEarly,
    /// Truncations never reach the disk.
    SkipsTruncation,
    /// A follower does not report what it has promised, and an answer that repeats a promise counts as a new one.
    /// (Either alone does no harm within these bounds: a candidate goes above the promises it knows, and does not
    /// count a repeated answer.)
    HidesPromises,
    /// The promise is sent but not kept on disk.
    ForgetsPromises,
    /// An answer claims the epoch of the question as its current epoch.
    ClaimsNewerHistory,
    /// A change of the members counts from the moment at which it is logged, and the members before it count no more.
    CountsNewMembersAtOnce,
    /// A follower that counts acknowledgements takes a proposal for the leader's own.
    CountsProposals,
}

impl Sabotage {
    /// All planted bugs.
    pub(crate) const ALL: [Self; 7] = [
        Self::ReportsEarly,
        Self::SkipsTruncation,
        Self::HidesPromises,
        Self::ForgetsPromises,
        Self::ClaimsNewerHistory,
        Self::CountsNewMembersAtOnce,
        Self::CountsProposals,
    ];

    /// The message that is sent instead.
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

    /// The message that the receiver takes to have arrived as well.
    pub(crate) fn also_received(self, from: ServerId, message: &Message) -> Option<Message> {
        let Message::Propose { epoch, entries, .. } = message else { return None };
        let ack = Message::Ack { epoch: *epoch, zxid: entries.last()?.zxid, server: from };
        (self == Self::CountsProposals).then_some(ack)
    }

    /// The operation that reaches the disk instead.
    pub(crate) fn written(self, op: DiskOp) -> Option<DiskOp> {
        match (self, op) {
            (Self::SkipsTruncation, DiskOp::Truncate { .. }) => None,
            (_, op) => Some(op),
        }
    }

    /// The members that count instead of these.
    pub(crate) fn counted(self, members: &Membership, zab: &Zab) -> Option<Membership> {
        let is_open = self == Self::CountsNewMembersAtOnce && members.voters().is_joint();
        let change = zab.log().between(zab.committed(), zab.log().last()).last().filter(|_| is_open)?;
        members::changed_by(&change.body)
    }

    pub(crate) fn reports_early(self) -> bool {
        self == Self::ReportsEarly
    }

    /// Whether the epoch file is lost in a crash.
    pub(crate) fn forgets_promises(self) -> bool {
        self == Self::ForgetsPromises
    }
}
