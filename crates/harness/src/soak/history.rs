//! What clients did and what they were told: the material of the check.

use std::collections::BTreeMap;

/// A number that no other write of the run has.
pub(super) type Value = u64;

/// Microseconds since the start of the run.
pub(super) type At = u64;

/// One operation of one session. Sessions are numbered; the order in the list is the order of asking.
#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Who asked.
    pub(super) session: usize,
    /// When. Of a read after a sync: when the sync was asked for.
    pub(super) asked: At,
    /// What.
    pub(super) kind: Kind,
    /// What came of it.
    pub(super) outcome: Outcome,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Replaces the value of a key.
    Write {
        /// Which.
        key: usize,
        /// By what.
        value: Value,
    },
    /// Reads a key.
    Read {
        /// Which.
        key: usize,
        /// Whether a sync went before it: then it must see all that was acknowledged before.
        synced: bool,
    },
    /// Creates a sequential node in the queue of its session.
    Append {
        /// Its data.
        value: Value,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No answer, or not yet: it may have happened, or may yet.
    Unknown,
    /// The server said no.
    Refused(String),
    /// A key had or got this state.
    State {
        /// When the answer came.
        answered: At,
        /// Of the key.
        state: State,
    },
    /// A node was appended.
    Appended {
        /// When the answer came.
        answered: At,
        /// Its transaction.
        zxid: i64,
        /// Its place in the queue.
        path: String,
    },
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// 0 is the value at creation.
    pub(super) value: Value,
    /// How often it was replaced.
    pub(super) version: i32,
    /// The transaction that did it last.
    pub(super) zxid: i64,
}

/// What one server showed in the end, after a sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// Its number.
    pub(super) server: usize,
    /// All queues: path and value.
    pub(super) appended: BTreeMap<String, Value>,
    /// Ephemeral nodes: path, and the transaction that created each.
    pub(super) ephemerals: BTreeMap<String, i64>,
    /// Keys, queues and accounts: data, versions and transactions of each node, as text.
    pub(super) tree: BTreeMap<String, String>,
}

/// An ephemeral node and what must have become of it.
#[derive(Clone, Debug)]
pub(super) struct Ephemeral {
    /// Where.
    pub(super) path: String,
    /// The transaction that created it, if that was acknowledged.
    pub(super) created: Option<i64>,
    /// Whether its session lives to the end.
    pub(super) lives: bool,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// In the order of asking.
    pub(super) ops: Vec<Op>,
    /// Of long and short sessions.
    pub(super) ephemerals: Vec<Ephemeral>,
    /// Every server at the end.
    pub(super) shown: Vec<Shown>,
    /// Sessions that were told that they are over though they never stopped talking.
    pub(super) expired: Vec<usize>,
    /// Sessions that read a change before their watch told of it, and where.
    pub(super) overtaken: Vec<(usize, String)>,
    /// Sessions whose watch did not tell them of the last change.
    pub(super) unwatched: Vec<usize>,
}

impl Outcome {
    /// The transaction of a write or an append that was acknowledged.
    pub(super) fn zxid(&self) -> Option<i64> {
        match self {
            Self::State { state, .. } => Some(state.zxid),
            Self::Appended { zxid, .. } => Some(*zxid),
            Self::Unknown | Self::Refused(_) => None,
        }
    }

    /// When an answer came that says yes.
    pub(super) fn answered(&self) -> Option<At> {
        match self {
            Self::State { answered, .. } | Self::Appended { answered, .. } => Some(*answered),
            Self::Unknown | Self::Refused(_) => None,
        }
    }
}
