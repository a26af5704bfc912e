//! What goes into an [`Election`](super::Election) and what comes out: two closed lists.

use bytes::Bytes;
use pole_types::{Span, Time};

use crate::record::Leader;
use crate::score::Value;
use crate::store::{Entry, Error, Granted, LeaseId, Leased, Renewed, Swap, Swapped, Target};
use crate::token::Token;

/// An input.
#[derive(Clone, Debug)]
pub enum Event {
    /// The time of [`Election::wake_at`](super::Election::wake_at) has come. Harmless at any other time.
    Timer,
    /// The answer to a store operation. Every operation gets exactly one; if the store does not answer within
    /// [`Timing::operation`](crate::Timing), the driver answers [`Error::Unavailable`].
    Answer(OpId, Answer),
    /// The state of a watched record.
    Watched(Target, Option<Entry>),
    /// A watch ended. The election asks for another one.
    WatchFailed(Target),
    /// A new score of this candidate, None if it is unknown, and how long it is good for.
    Score {
        /// The score.
        value: Option<Value>,
        /// When it becomes unknown unless it is renewed.
        ttl: Option<Span>,
        /// The wall clock, for display.
        computed_ms: u64,
    },
    /// A new priority, and how long it holds before it is 0 again.
    Priority {
        /// The priority.
        value: i32,
        /// How long it holds; None for ever.
        ttl: Option<Span>,
    },
    /// Whether we want to lead. Until the first one, and after `false`, we only take part as an observer.
    Eligible(bool),
    /// Give up leadership, if we lead, in favour of a candidate or of the best one.
    Resign {
        /// The successor.
        to: Option<String>,
    },
    /// The application has stopped what it did under this token. Until then we take no new term and write no hand-over.
    Released(Token),
    /// Leave the election for good.
    Leave,
}

/// An output, in the order in which the driver must carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send an operation to the store. The driver does not wait for its answer.
    Store(OpId, Op),
    /// Begin to watch a record and report its states until [`Effect::Unwatch`].
    Watch(Target),
    /// End a watch.
    Unwatch(Target),
    /// We lead under this token until the deadline.
    Lead {
        /// The token.
        token: Token,
        /// From this time on the guard must be false.
        deadline: Time,
    },
    /// The lease was renewed: the guard is valid until the new deadline, unless the old one has passed.
    Extend {
        /// The new deadline.
        deadline: Time,
    },
    /// The guard is false from now on. The application must stop, and the driver report [`Event::Released`].
    Yield {
        /// The token of the term that ends.
        token: Token,
        /// Why it ends.
        reason: YieldReason,
    },
    /// The leader record has changed.
    Leader(Option<Leader>),
    /// The store or one of its records cannot be used; an operator should know.
    Trouble(Error),
    /// The end of [`Event::Leave`].
    Left,
}

/// Why a term ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YieldReason {
    /// The lease was not renewed in time.
    DeadlinePassed,
    /// The store says that the lease is gone.
    LeaseLost,
    /// Another leader is in the record, or none: an operator changed it, or the store went back.
    Superseded,
    /// A better candidate is to lead.
    HandOver {
        /// The successor.
        to: String,
    },
    /// The application, or an operator, asked for it.
    Resigned,
}

impl std::fmt::Display for YieldReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DeadlinePassed => f.write_str("the lease could not be renewed in time"),
            Self::LeaseLost => f.write_str("the store has ended the lease"),
            Self::Superseded => f.write_str("the leader record was replaced"),
            Self::HandOver { to } => write!(f, "handing over to {to}, which is better"),
            Self::Resigned => f.write_str("asked to resign"),
        }
    }
}

/// A store operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the methods of `Store` say it")]
pub enum Op {
    Read(Target),
    Swap(Swap),
    Publish { lease: LeaseId, record: Bytes, ttl: Span },
    Renew { lease: LeaseId, record: Option<Bytes> },
    Withdraw(LeaseId),
    List,
}

#[cfg(feature = "sim")]
impl Op {
    /// The answer of the kind that this operation needs, when the store gave none.
    pub(crate) fn unanswered(&self, error: Error) -> Answer {
        match self {
            Self::Read(_) => Answer::Read(Err(error)),
            Self::Swap(_) => Answer::Swap(Err(error)),
            Self::Publish { .. } => Answer::Publish(Err(error)),
            Self::Renew { .. } => Answer::Renew(Err(error)),
            Self::Withdraw(_) => Answer::Withdraw(Err(error)),
            Self::List => Answer::List(Err(error)),
        }
    }
}

/// The answer to an operation of the same name.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the methods of `Store` say it")]
pub enum Answer {
    Read(Result<Option<Entry>, Error>),
    Swap(Result<Swapped, Error>),
    Publish(Result<Granted, Error>),
    Renew(Result<Renewed, Error>),
    Withdraw(Result<(), Error>),
    List(Result<Vec<Leased>, Error>),
}

/// The number of an operation. An answer that comes when nobody waits for it any more is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    pub(super) slot: Slot,
    pub(super) number: u64,
}

/// What an operation is for. At most one operation of each kind is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Slot {
    /// Publish or renew the own lease.
    Lease,
    /// Read or swap the leader record.
    Leader,
    /// Read or swap the succession list.
    Succession,
    /// Read all candidates.
    List,
    /// Read the lease of the leader.
    Holder,
    /// Withdraw a lease; the answer does not matter.
    Withdraw,
}
