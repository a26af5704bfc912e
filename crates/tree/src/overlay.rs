//! The effects of prepared transactions that are not yet applied, as differences from the tree.
//!
//! Invariants: `roll_back` restores the state at `begin`; after `applied`, nothing is left of transactions up to that
//! zxid. A path has at most one entry, that of the last transaction that changed it.
//!
//! Lookups that fall through to the tree are in `validation`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::acls::AclHandle;
use crate::node::Node;
use crate::owner::Owner;
use crate::quota::Usage;
use crate::tree::Session;

/// The pending changes of all transactions in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    nodes: HashTable<Pending>,
    /// Paths of the pending nodes that are ephemeral, by session.
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    sessions: BTreeMap<i64, (i64, Option<Session>)>,
    usage: BTreeMap<Arc<str>, Usage>,
    /// All entries by zxid, for removal once their transaction is applied.
    log: VecDeque<(i64, Logged)>,
    /// Previous entries that the transaction under construction replaced.
    undo: Vec<(u64, Arc<str>, Option<Pending>)>,
    /// The length of `log` before the transaction under construction.
    log_len_at_begin: usize,
    /// The zxid of a transaction with too many changes to record. Nothing can be validated until it is applied.
    barrier: Option<i64>,
}

/// The future state of a node, reduced to the fields that validation needs.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) path: Arc<str>,
    pub(crate) hash: u64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) mtime: i64,
    pub(crate) owner: Owner,
    pub(crate) acl: AclHandle,
    pub(crate) children: usize,
    pub(crate) data_length: usize,
}

#[derive(Clone, Debug)]
struct Pending {
    zxid: i64,
    path: Arc<str>,
    hash: u64,
    /// None if the node will be deleted.
    view: Option<NodeView>,
}

#[derive(Clone, Debug)]
enum Logged {
    Node(u64, Arc<str>),
    Session(i64),
    Usage(Arc<str>, Usage),
}

impl From<&Node> for NodeView {
    fn from(node: &Node) -> Self {
        Self {
            path: Arc::clone(&node.path),
            hash: node.path_hash,
            version: node.stat.version,
            cversion: node.stat.cversion,
            aversion: node.stat.aversion,
            mtime: node.stat.mtime,
            owner: node.owner(),
            acl: node.acl.clone(),
            children: node.children.len(),
            data_length: node.data_length(),
        }
    }
}

impl Overlay {
    /// Starts a transaction.
    pub(crate) fn begin(&mut self) {
        self.undo.clear();
        self.log_len_at_begin = self.log.len();
    }

    /// Discards the changes of the transaction under construction.
    pub(crate) fn roll_back(&mut self) {
        for (hash, path, before) in core::mem::take(&mut self.undo).into_iter().rev() {
            self.replace_entry(hash, &path, before);
        }
        while self.log.len() > self.log_len_at_begin {
            if let Some((_, Logged::Usage(top, change))) = self.log.pop_back() {
                self.subtract_usage(&top, change);
            }
        }
    }

    /// Removes the entries of all transactions up to this one, because the tree now contains them.
    pub(crate) fn applied(&mut self, zxid: i64) {
        self.barrier = self.barrier.filter(|barrier| *barrier > zxid);
        while self.log.front().is_some_and(|(at, _)| *at <= zxid) {
            match self.log.pop_front() {
                Some((at, Logged::Node(hash, path))) => {
                    let same = |pending: &Pending| pending.zxid == at && pending.path == path;
                    if self.nodes.find(hash, same).is_some() {
                        self.replace_entry(hash, &path, None);
                    }
                }
                Some((at, Logged::Session(id))) => {
                    if self.sessions.get(&id).is_some_and(|(zxid, _)| *zxid == at) {
                        self.sessions.remove(&id);
                    }
                }
                Some((_, Logged::Usage(top, change))) => self.subtract_usage(&top, change),
                None => unreachable!("the front was there"),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.barrier.is_none()
            && self.log.is_empty()
            && self.nodes.is_empty()
            && self.sessions.is_empty()
            && self.usage.is_empty()
    }

    /// Blocks validation until this transaction is applied, because its changes are not recorded here.
    pub(crate) fn set_barrier(&mut self, zxid: i64) {
        self.barrier = Some(zxid);
    }

    /// Whether a transaction has to be applied before the next one can be validated.
    pub(crate) fn is_waiting(&self) -> bool {
        self.barrier.is_some()
    }

    /// The future state of the node, if it will change; `Some(None)` if it will be deleted.
    pub(crate) fn node(&self, hash: u64, path: &str) -> Option<Option<&NodeView>> {
        self.nodes.find(hash, |pending| &*pending.path == path).map(|pending| pending.view.as_ref())
    }

    /// The changed ephemeral nodes of a session that will exist.
    pub(crate) fn ephemerals(&self, session: i64) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The future state of the session, if it will change; `Some(None)` if it will be closed.
    pub(crate) fn session(&self, id: i64) -> Option<Option<Session>> {
        self.sessions.get(&id).map(|(_, session)| *session)
    }

    /// The pending change of the usage under a quota.
    pub(crate) fn usage(&self, top: &str) -> Usage {
        self.usage.get(top).copied().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, zxid: i64, hash: u64, path: Arc<str>, view: Option<NodeView>) {
        self.log.push_back((zxid, Logged::Node(hash, Arc::clone(&path))));
        let before = self.replace_entry(hash, &path, Some(Pending { zxid, path: Arc::clone(&path), hash, view }));
        self.undo.push((hash, path, before));
    }

    pub(crate) fn put_session(&mut self, zxid: i64, id: i64, session: Option<Session>) {
        self.log.push_back((zxid, Logged::Session(id)));
        self.sessions.insert(id, (zxid, session));
    }

    pub(crate) fn add_usage(&mut self, zxid: i64, top: &Arc<str>, change: Usage) {
        self.log.push_back((zxid, Logged::Usage(Arc::clone(top), change)));
        let usage = self.usage.entry(Arc::clone(top)).or_default();
        *usage = usage.plus(change);
    }

    fn subtract_usage(&mut self, top: &Arc<str>, change: Usage) {
        let Some(usage) = self.usage.get_mut(top) else { return };
        *usage = usage.minus(change);
        if *usage == Usage::default() {
            self.usage.remove(top);
        }
    }

    fn replace_entry(&mut self, hash: u64, path: &Arc<str>, now: Option<Pending>) -> Option<Pending> {
        let owner = now.as_ref().and_then(Pending::session);
        let before = match (self.nodes.entry(hash, |pending| pending.path == *path, |pending| pending.hash), now) {
            (Entry::Occupied(mut entry), Some(now)) => Some(core::mem::replace(entry.get_mut(), now)),
            (Entry::Occupied(entry), None) => Some(entry.remove().0),
            (Entry::Vacant(entry), Some(now)) => {
                entry.insert(now);
                None
            }
            (Entry::Vacant(_), None) => None,
        };
        if let Some(session) = before.as_ref().and_then(Pending::session)
            && let Some(paths) = self.ephemerals.get_mut(&session)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&session);
            }
        }
        if let Some(session) = owner {
            self.ephemerals.entry(session).or_default().insert(Arc::clone(path));
        }
        before
    }
}

impl Pending {
    /// The session that the node will belong to.
    fn session(&self) -> Option<i64> {
        match self.view.as_ref()?.owner {
            Owner::Session(session) => Some(session),
            Owner::Nobody | Owner::Container | Owner::Ttl(_) => None,
        }
    }
}
