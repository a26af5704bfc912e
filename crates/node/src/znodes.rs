//! The tree of znodes as the state machine of a server.
//!
//! Requests are in the encoding of `tree`, and the bodies of entries are transactions as in ZooKeeper's log. Replies
//! consist of a code and a body.
//!
//! Connections read the tree on their own threads, and the simulator reads it between two steps. [`TreeStore`]
//! abstracts from that: its owner decides when changes become visible to readers.
//!
//! The operations are implemented in `tree`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::fmt;
use core::ops::{Deref, DerefMut};
use pole_jute::{ErrorCode, ErrorTxn, EventType, Reader, Record, Txn, TxnEntry, TxnHeader, WatcherEvent, Writer};
use pole_tree::{
    Changes, Operation, Position, Prepared, Refusals, RequestOrigin, Rules, SessionChange, Tree, Watcher, Watches,
    WriteRequest,
};
use pole_types::{Cxid, Membership, SessionId, Span, Zxid};
use pole_zab::{Body, Entry, Image, MembersOf};

use crate::{AttachAnswer, ClientId, Limits, Machine, MayChange, Outcome, ReadResult, Request};

/// Holds the tree while others read it.
pub trait TreeStore {
    /// The latest state, even if others may not read it yet.
    fn tree(&self) -> impl Deref<Target = Tree> + '_;

    /// Mutable access to the tree. The owner of the store makes changes visible to others only after the resulting
    /// watch events are queued, so that no client reads a change before its event.
    fn tree_mut(&mut self) -> &mut Tree;

    fn watches(&self) -> impl DerefMut<Target = Watches> + '_;
}

/// The state machine over the tree in a store.
pub struct Znodes<S> {
    store: S,
    rules: Rules,
    /// The content of `/zookeeper/config` according to the configuration file. It counts until the members are changed.
    config: Bytes,
    /// The largest reply to a read in bytes.
    reply_bytes_max: usize,
    /// The number of reads that would have needed more.
    replies_over_limit: u64,
    prepared: Prepared,
    /// Scratch buffers for one transaction, reused to avoid reallocation.
    changes: Changes,
    /// The ephemeral nodes of sessions that ended; `None` if nobody asks for them.
    ended: Option<Vec<EndedSession>>,
}

/// A session that has ended, and the nodes that were deleted with it.
pub type EndedSession = (SessionId, Vec<Arc<str>>);

impl<S: TreeStore> Znodes<S> {
    /// Creates the state machine over the tree in this store.
    pub fn new(mut store: S, rules: Rules, config: Bytes) -> Self {
        set_config(store.tree_mut(), &config);
        Self {
            store,
            rules,
            config,
            reply_bytes_max: Limits::default().reply_bytes_max,
            replies_over_limit: 0,
            prepared: Prepared::default(),
            changes: Changes::default(),
            ended: None,
        }
    }

    /// Changes the limit on the size of a reply to a read; see [`Limits::reply_bytes_max`].
    #[must_use]
    pub fn with_reply_bytes_max(self, reply_bytes_max: usize) -> Self {
        Self { reply_bytes_max, ..self }
    }

    /// Keeps the ephemeral nodes of sessions that end, for [`Znodes::take_ended`].
    #[must_use]
    pub fn with_ended_sessions(self) -> Self {
        Self { ended: Some(Vec::new()), ..self }
    }

    /// The sessions with ephemeral nodes that have ended since the last call.
    pub fn take_ended(&mut self) -> Vec<EndedSession> {
        self.ended.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// The number of requests that exceeded a limit of the tree.
    pub fn refusals(&self) -> Refusals {
        self.prepared.refusals()
    }

    /// The number of reads refused because their reply would exceed [`Limits::reply_bytes_max`].
    pub fn replies_over_limit(&self) -> u64 {
        self.replies_over_limit
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    /// Replaces the tree by a restored one at this position. Returns the old tree, so that a large one can be dropped
    /// on another thread.
    pub fn replace(&mut self, zxid: Zxid, tree: Tree) -> Tree {
        let mut tree = tree.with_last_zxid(signed(zxid));
        set_config(&mut tree, &self.config);
        self.prepared.clear();
        core::mem::replace(self.store.tree_mut(), tree)
    }

    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }
}

impl<S: TreeStore> Machine for Znodes<S> {
    fn prepare(&mut self, zxid: Zxid, request: &Request, wall_ms: i64, may_change: MayChange<'_>) -> Option<Bytes> {
        let at = Position { zxid: signed(zxid), wall_ms };
        let from = RequestOrigin {
            session: request.origin.session.0,
            cxid: request.origin.cxid.0,
            floor: signed(request.floor),
        };
        self.prepared.prepare(&self.store.tree(), at, from, &request.body, may_change)
    }

    const MEMBERS_OF: MembersOf = MembersOf(pole_tree::members_of);

    fn members(&self) -> Option<(Bytes, Zxid)> {
        let tree = self.store.tree();
        let (_, version) = tree.members().filter(|(_, version)| *version > 0)?;
        Some((Bytes::copy_from_slice(tree.data(MEMBERS_PATH)??), Zxid(version.cast_unsigned())))
    }

    fn parse_members(description: &Bytes) -> Option<Membership> {
        pole_tree::parse_membership(description)
    }

    fn nothing(&self, zxid: Zxid, wall_ms: i64) -> Bytes {
        let txn = Txn::Error(ErrorTxn::from(ErrorCode::Ok));
        let header = TxnHeader {
            client_id: SessionId::default().0,
            cxid: Cxid::OWN.0,
            zxid: signed(zxid),
            time: wall_ms,
            op: txn.op().number(),
        };
        let mut writer = Writer::new();
        TxnEntry { header, txn, digest: None }.write(&mut writer);
        writer.into_bytes()
    }

    fn is_waiting(&self) -> bool {
        self.prepared.is_waiting()
    }

    fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    fn apply(&mut self, entry: &Entry, answer: bool) -> Result<Outcome, String> {
        let txn = decode(entry)?;
        self.changes.clear();
        let applied = self.store.tree_mut().apply(&txn, answer, &mut self.changes);
        self.prepared.applied(txn.header.zxid);
        let mut events = Vec::new();
        self.store.watches().fire(&self.changes, |event, watchers| {
            let event = encode(&event);
            events.extend(watchers.into_iter().map(|watcher| (ClientId(watcher.0), event.clone())));
        });
        let (opened, attached, ended) = match applied.session {
            None => (None, None, None),
            Some(SessionChange::Attached { id, timeout_ms }) => {
                (Some((SessionId(id), timeout(timeout_ms))), Some(AttachAnswer::Opened { timeout_ms }), None)
            }
            Some(SessionChange::Closed { id }) => (None, None, Some(SessionId(id))),
        };
        if let (Some(list), Some(session)) = (&mut self.ended, ended) {
            let deleted = self.changes.iter().filter(|change| change.kind == EventType::NodeDeleted);
            let paths: Vec<_> = deleted.map(|change| Arc::clone(&change.path)).collect();
            list.extend((!paths.is_empty()).then_some((session, paths)));
        }
        let reply = applied.reply.map_or(Bytes::new(), |(code, body)| reply(code, &body));
        let members = matches!(txn.txn, Txn::Reconfig(_));
        Ok(Outcome { reply, attached, events, opened, ended, oracle: applied.settings_changed, members })
    }

    fn read(&mut self, client: ClientId, session: SessionId, body: &Bytes) -> ReadResult {
        let mut answer = Writer::with_buffer(BytesMut::new()).limited(4 + self.reply_bytes_max);
        answer.int(0);
        let mut events = Vec::new();
        let code = match WriteRequest::decode(body) {
            Ok(WriteRequest { caller, operation: Operation::Request(request) }) => {
                let watcher = Watcher(client.0);
                let tree = self.store.tree();
                let watches = || self.store.watches();
                pole_tree::read(&tree, watches, watcher, session.0, &caller, &request, &mut answer, &mut events)
            }
            Ok(WriteRequest {
                operation: Operation::Attach { .. } | Operation::CloseSession | Operation::DeleteContainer(_),
                ..
            })
            | Err(_) => ErrorCode::MarshallingError,
        };
        self.replies_over_limit += u64::from(answer.is_over_limit());
        let code = if answer.is_over_limit() { ErrorCode::MarshallingError } else { code };
        let body = if code == ErrorCode::Ok { answer.into_bytes().slice(4..) } else { Bytes::new() };
        ReadResult { events: events.iter().map(encode).collect(), reply: reply(code, &body) }
    }

    fn forget(&mut self, client: ClientId) {
        self.store.watches().forget(Watcher(client.0));
    }

    fn sessions(&self) -> Vec<(SessionId, Span)> {
        let tree = self.store.tree();
        // Sessions that have ended but left nodes behind, which may occur in Apache's snapshots, are closed at the
        // first check.
        let dead = tree.dead_sessions().into_iter().map(|id| (id, 0));
        tree.sessions().chain(dead).map(|(id, ms)| (SessionId(id), timeout(ms))).collect()
    }

    fn closing(&self) -> Bytes {
        WriteRequest::close()
    }

    fn chores(&self, wall_ms: i64, from: u32) -> (Vec<Bytes>, Option<u32>) {
        let (due, next) = self.store.tree().due_from(wall_ms, from, NODES_PER_SCAN_MAX);
        (due.iter().map(|path| WriteRequest::delete_container(path)).collect(), next)
    }

    fn oracle(&self) -> Option<(Bytes, Zxid)> {
        let tree = self.store.tree();
        let data = Bytes::copy_from_slice(tree.data(ORACLE_PATH)?.unwrap_or_default());
        Some((data, Zxid(tree.stat(ORACLE_PATH)?.mzxid.cast_unsigned())))
    }

    fn snapshot(&self) -> Body {
        Body::Image(Arc::new(Frozen(self.store.tree().freeze())))
    }

    fn restore(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), String> {
        let tree = Tree::restore(self.rules, body).map_err(|error| error.to_string())?;
        self.replace(zxid, tree);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.store.tree().size_bytes()
    }

    fn digest(&self) -> u64 {
        self.store.tree().digest()
    }
}

/// A reply of the state machine: the code, then the body, which is empty unless the code is `Ok`.
fn reply(code: ErrorCode, body: &[u8]) -> Bytes {
    let mut writer = Writer::with_buffer(BytesMut::with_capacity(4 + body.len()));
    writer.int(code.number());
    writer.raw(body);
    writer.into_bytes()
}

/// Sets the ensemble configuration of a tree. A standalone server has none, and its node keeps the initial content.
fn set_config(tree: &mut Tree, config: &Bytes) {
    if !config.is_empty() {
        tree.set_config(config);
    }
}

/// Decodes the transaction of an entry. The leader proposes only what it prepared, and data from disk has a checksum,
/// but the sender or the writer may be of another version or damaged.
fn decode(entry: &Entry) -> Result<TxnEntry, String> {
    let txn = TxnEntry::read(&mut Reader::new(entry.body.clone())).map_err(|error| error.to_string())?;
    let at = (signed(entry.zxid), entry.origin.session.0, entry.origin.cxid.0);
    let header = (txn.header.zxid, txn.header.client_id, txn.header.cxid);
    if header != at {
        return Err(format!("its header names zxid {:#x}, session {:#x}, cxid {}", header.0, header.1, header.2));
    }
    Ok(txn)
}

fn encode(event: &WatcherEvent) -> Bytes {
    let mut writer = Writer::new();
    event.write(&mut writer);
    writer.into_bytes()
}

fn signed(zxid: Zxid) -> i64 {
    zxid.0.cast_signed()
}

fn timeout(ms: i32) -> Span {
    Span::from_ms(u64::from(ms.unsigned_abs()))
}

/// An immutable image of the tree, to be written later.
struct Frozen(pole_tree::Frozen);

impl Image for Frozen {
    fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        self.0.write(sink);
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an image of about {} bytes", self.0.size_bytes())
    }
}

/// The maximum number of containers and nodes with a time to live that are checked in one scan: about a millisecond.
const NODES_PER_SCAN_MAX: usize = 10_000;

/// The znode that holds the members of the ensemble.
const MEMBERS_PATH: &str = "/zookeeper/config";

/// The znode that holds the ensemble's choice of the oracle.
pub const ORACLE_PATH: &str = "/zookeeper/pole";

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::Epoch;
    use pole_zab::Origin;

    #[test]
    fn an_entry_that_is_no_transaction_or_another_one_is_refused() {
        let entry = |zxid, body| Entry { zxid, origin: Origin { session: SessionId(7), cxid: Cxid(3) }, body };
        let (here, elsewhere) = (Zxid::new(Epoch(1), 2), Zxid::new(Epoch(1), 3));
        let mut writer = Writer::new();
        let header = TxnHeader { client_id: 7, cxid: 3, zxid: signed(here), time: 0, op: -11 };
        TxnEntry { header, txn: Txn::CloseSession(None), digest: None }.write(&mut writer);
        let body = writer.into_bytes();
        assert!(decode(&entry(here, body.clone())).is_ok());
        let error = decode(&entry(elsewhere, body.clone())).expect_err("another zxid");
        assert_eq!(error, "its header names zxid 0x100000002, session 0x7, cxid 3");
        (0..body.len()).for_each(|length| drop(decode(&entry(here, body.slice(..length))).expect_err("cut short")));
    }
}
