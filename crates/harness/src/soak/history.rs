//! The history of a soak: the operations of clients and their outcomes. It is the input of `check`.

use std::collections::BTreeMap;

/// A number that is unique to one write of the run.
pub(super) type Value = u64;

/// Microseconds since the start of the run.
pub(super) type At = u64;

/// One operation of one session. Sessions are numbered. The order of operations in a list is the order of the requests.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) session: usize,
    /// The time of the request. For a read after a sync, the time of the sync request.
    pub(super) asked: At,
    pub(super) kind: Kind,
    pub(super) outcome: Outcome,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Replaces the value of a key.
    Write { key: usize, value: Value },
    /// Reads a key.
    Read {
        key: usize,
        /// Whether a sync preceded the read. It must then see everything that was acknowledged before the sync.
        synced: bool,
    },
    /// Creates a sequential node in the queue of its session.
    Append { value: Value },
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is no reply, or not yet. The operation may have taken effect, or may still do so.
    Unknown,
    /// The server replied with an error.
    Refused(String),
    /// A read saw, or a write produced, this state of a key.
    State {
        /// The time of the reply.
        answered: At,
        state: State,
    },
    /// A node was appended.
    Appended {
        /// The time of the reply.
        answered: At,
        /// The transaction.
        zxid: i64,
        /// The path of the node in the queue.
        path: String,
    },
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// 0 is the initial value.
    pub(super) value: Value,
    /// The number of writes so far.
    pub(super) version: i32,
    /// The transaction of the last write.
    pub(super) zxid: i64,
}

/// The contents of one server at the end, read after a sync.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) server: usize,
    /// The nodes of all queues: path and value.
    pub(super) appended: BTreeMap<String, Value>,
    /// Ephemeral nodes: path, and the transaction that created each.
    pub(super) ephemerals: BTreeMap<String, i64>,
    /// Keys, queues and accounts: data, versions and transactions of each node, as text.
    pub(super) tree: BTreeMap<String, String>,
}

/// An ephemeral node, and whether it must exist at the end.
#[derive(Clone, Debug)]
pub(super) struct Ephemeral {
    pub(super) path: String,
    /// The transaction that created it, if that was acknowledged.
    pub(super) created: Option<i64>,
    /// Whether its session lasts until the end.
    pub(super) lives: bool,
}

/// Everything that was observed in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// In the order of the requests.
    pub(super) ops: Vec<Op>,
    /// The nodes of long and short sessions.
    pub(super) ephemerals: Vec<Ephemeral>,
    /// The contents of every server at the end.
    pub(super) shown: Vec<Shown>,
    /// Sessions that expired although their clients were active.
    pub(super) expired: Vec<usize>,
    /// Sessions that read a change before the event of their watch arrived, and the path.
    pub(super) overtaken: Vec<(usize, String)>,
    /// Sessions whose watch did not fire at the last change.
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

    /// The time of a successful reply.
    pub(super) fn answered(&self) -> Option<At> {
        match self {
            Self::State { answered, .. } | Self::Appended { answered, .. } => Some(*answered),
            Self::Unknown | Self::Refused(_) => None,
        }
    }
}
