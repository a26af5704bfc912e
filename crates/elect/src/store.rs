//! The [`Store`] trait: what an election needs from the store it runs on.
//!
//! An election uses two plain records and one leased record for each candidate:
//!
//! ```text
//! leader        plain    who leads, with the fencing token; changed by compare-and-swap only
//! succession    plain    the best few live candidates, a hint
//! <lease id>    leased   one candidate: its id and its score; ends when the candidate stops renewing it
//! ```
//!
//! Safety rests on two promises, which every adapter must keep:
//!
//! - **Compare-and-swap**: [`Store::swap`] changes a plain record only if its revision is the expected one. No two swaps
//!   with the same expected revision succeed.
//! - **A lease that is gone never comes back**: once any client was told that a lease is gone, [`Store::renew`] of that
//!   lease answers [`Renewed::Gone`] for ever. A [`LeaseId`] is used for one [`Store::publish`] only.
//!
//! A take-over is a swap of the leader record with the condition that the lease of the previous holder is gone. A store
//! with transactions over several keys checks both in one transaction. A store without them may check the lease first
//! and swap afterwards: the absence of a lease is permanent, and the swap fails if the record no longer names that
//! lease. If clients judge expiry themselves (Kubernetes), the adapter makes the absence permanent before it reports it:
//! it deletes the expired record under the revision that it observed for the whole time-to-live, so that either the
//! deletion or the renewal of the holder fails.
//!
//! What a store cannot promise is said by [`Promises`]. The trait knows nothing of scores, tokens and elections; see
//! `record` for the content of the records and `election` for the algorithm.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use crate::promises::Promises;

/// A boxed future, which keeps the trait usable as `dyn Store` without a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One election in a store, as one client sees it.
///
/// All operations are linearizable: they take effect between call and answer, in one order for all clients. An adapter
/// that cannot promise this for reads says so in [`Promises`]. An operation may be dropped before it has answered; like
/// one that ended with [`Error::Unavailable`], it may or may not have taken effect.
pub trait Store: Send + Sync + 'static {
    /// What this store promises and what it does not.
    fn promises(&self) -> Promises;

    /// Reads a record. A leased record that has expired is absent.
    fn read(&self, target: Target) -> BoxFuture<'_, Result<Option<Entry>, Error>>;

    /// Changes or creates a plain record if all conditions of the [`Swap`] hold, and does nothing otherwise.
    fn swap(&self, swap: Swap) -> BoxFuture<'_, Result<Swapped, Error>>;

    /// Creates a leased record. It ends if it is not renewed within the granted time.
    ///
    /// The granted time may differ from `ttl` (Consul: at least 10 s; ZooKeeper: one session per client). The store
    /// must not end the lease earlier than the granted time after it *received* the request, except by
    /// [`Promises::early`].
    fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> BoxFuture<'_, Result<Granted, Error>>;

    /// Extends a lease by its granted time and, if `record` is given, replaces the content of its record.
    ///
    /// It must reach the store: an adapter whose client library keeps a session alive by itself still makes a request
    /// here, because the caller counts its deadline from the moment at which it called.
    fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> BoxFuture<'_, Result<Renewed, Error>>;

    /// Ends a lease now. It is no error if the lease is gone already.
    fn withdraw(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), Error>>;

    /// All live leased records of the election, in any order, at most [`LIST_MAX`].
    fn list(&self) -> BoxFuture<'_, Result<Vec<Leased>, Error>>;

    /// Begins to watch a record; see [`Watch`].
    fn watch(&self, target: Target) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>>;
}

/// The changes of one record.
///
/// The first [`Watch::next`] answers at once with the present state. Each further one answers when the state differs
/// from the last answer. Intermediate states may be left out, so nothing is queued, but the last state must be
/// reported eventually, *also if it is that the record is gone*, and also after the connection was lost meanwhile.
/// Renewals without new content need not be reported.
///
/// An error ends the watch: the caller drops it, waits, and begins another one. Dropping a watch ends it in the store.
pub trait Watch: Send {
    /// The present state, when it differs from the state of the last call. Only dropped together with the watch.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>>;
}

/// A record of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The plain record that says who leads.
    Leader,
    /// The plain record with the best few candidates.
    Succession,
    /// The leased record of one candidate.
    Lease(LeaseId),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => f.write_str("leader"),
            Self::Succession => f.write_str("succession"),
            Self::Lease(lease) => write!(f, "lease {lease}"),
        }
    }
}

/// One of the two plain records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plain {
    /// See [`Target::Leader`].
    Leader,
    /// See [`Target::Succession`].
    Succession,
}

impl Plain {
    /// The name of the record in a store, below the path of the election.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Succession => "succession",
        }
    }
}

impl From<Plain> for Target {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Leader => Self::Leader,
            Plain::Succession => Self::Succession,
        }
    }
}

/// The name of a lease and of its record, chosen by the candidate and never used twice.
///
/// Displayed as 32 hexadecimal digits, which are valid in the names of every store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({self})")
    }
}

impl FromStr for LeaseId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(Self).ok_or_else(|| Error::damaged(format!("a lease id has 32 hexadecimal digits, got {text:?}")))
    }
}

/// The version of a plain record. Two states of a record have different revisions, also if the record was deleted and
/// created again in between. Only equality is used.
///
/// 128 bits, because ZooKeeper needs the creation zxid beside the version. Text that is not a number (Kubernetes) does
/// not fit: its resource versions are decimal numbers in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u128);

/// The state of a record that exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The content.
    pub value: Bytes,
    /// The version of a plain record. Of no meaning for a leased record.
    pub revision: Revision,
}

/// A leased record in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leased {
    /// The lease.
    pub lease: LeaseId,
    /// The content.
    pub value: Bytes,
}

/// A conditional change of a plain record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// The record.
    pub record: Plain,
    /// The revision that it must have, or None if it must not exist.
    pub expected: Option<Revision>,
    /// The new content, at most [`RECORD_MAX`] bytes.
    pub value: Bytes,
    /// A lease that must be gone: that of the previous holder.
    pub gone: Option<LeaseId>,
    /// A lease that must be alive: that of the client itself. Checked where the store can do so in the same
    /// transaction. Elsewhere it may be ignored: a leader without a lease is replaced, and its own deadline has passed.
    pub alive: Option<LeaseId>,
}

/// The result of [`Store::swap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swapped {
    /// The record has the new content under this revision.
    Done(Revision),
    /// Its revision is another one. If several conditions fail, this is the answer.
    Conflict,
    /// The lease that must be gone is alive.
    StillHeld,
    /// The lease that must be alive is gone.
    LeaseGone,
}

/// The result of [`Store::publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Granted {
    /// The time for which a renewal is good.
    pub ttl: Duration,
}

/// The result of [`Store::renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// The lease is good for the granted time again.
    Extended,
    /// The lease has expired or was withdrawn. It stays gone.
    Gone,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store did not answer, or not in time. The operation may have taken effect. Worth another attempt.
    #[error("{0}")]
    Unavailable(String),
    /// The store refuses: credentials, permissions, a missing database or bucket. An operator must act.
    #[error("{0}")]
    Refused(String),
    /// A record cannot be understood: another program uses the same path, or a newer release wrote it.
    #[error("{0}")]
    Damaged(String),
    /// A record or a list is larger than its limit.
    #[error("{0}")]
    TooLarge(String),
}

impl Error {
    /// Creates [`Error::Unavailable`] from anything with a text, as for `map_err`.
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self::Unavailable(why.to_string())
    }

    /// Creates [`Error::Refused`].
    pub fn refused(why: impl fmt::Display) -> Self {
        Self::Refused(why.to_string())
    }

    /// Creates [`Error::Damaged`].
    pub fn damaged(why: impl fmt::Display) -> Self {
        Self::Damaged(why.to_string())
    }
}

/// The maximum size of a record. Every store takes this much; etcd's default limit is 1.5 MiB, that of Consul 512 KiB.
pub const RECORD_MAX: usize = 16 * 1024;

/// The maximum number of candidates in a list. Further ones are left out, in no particular order.
pub const LIST_MAX: usize = 20_000;
