//! What the leader has decided and not yet applied, as differences from the tree.
//!
//! Holds: after `take_back`, everything is as it was at `begin`; after `applied`, nothing is left of transactions up to
//! there. A path has at most one entry, that of the last transaction that touched it.
//! Not here: reading through it to the tree (`desk`).

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

/// The differences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    nodes: HashTable<Pending>,
    /// The ephemeral ones among them, by session.
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    sessions: BTreeMap<i64, (i64, Option<Session>)>,
    usage: BTreeMap<Arc<str>, Usage>,
    /// What was entered, by zxid: what to take out once it is applied.
    log: VecDeque<(i64, Logged)>,
    /// What stood there before the transaction under construction.
    undo: Vec<(u64, Arc<str>, Option<Pending>)>,
    /// How long the log was before it.
    begun: usize,
    /// A transaction whose differences are too many to enter: nothing can be validated until it is applied.
    barrier: Option<i64>,
}

/// A node as it will be; as much of it as validation looks at.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
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
    /// None: it will be deleted.
    shape: Option<Shape>,
}

#[derive(Clone, Debug)]
enum Logged {
    Node(u64, Arc<str>),
    Session(i64),
    Usage(Arc<str>, Usage),
}

impl From<&Node> for Shape {
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
    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        self.undo.clear();
        self.begun = self.log.len();
    }

    /// The transaction came to nothing.
    pub(crate) fn take_back(&mut self) {
        for (hash, path, before) in core::mem::take(&mut self.undo).into_iter().rev() {
            self.exchange(hash, &path, before);
        }
        while self.log.len() > self.begun {
            if let Some((_, Logged::Usage(top, change))) = self.log.pop_back() {
                self.discount(&top, change);
            }
        }
    }

    /// Everything up to this transaction is in the tree now.
    pub(crate) fn applied(&mut self, zxid: i64) {
        self.barrier = self.barrier.filter(|barrier| *barrier > zxid);
        while self.log.front().is_some_and(|(at, _)| *at <= zxid) {
            match self.log.pop_front() {
                Some((at, Logged::Node(hash, path))) => {
                    let same = |pending: &Pending| pending.zxid == at && pending.path == path;
                    if self.nodes.find(hash, same).is_some() {
                        self.exchange(hash, &path, None);
                    }
                }
                Some((at, Logged::Session(id))) => {
                    if self.sessions.get(&id).is_some_and(|(zxid, _)| *zxid == at) {
                        self.sessions.remove(&id);
                    }
                }
                Some((_, Logged::Usage(top, change))) => self.discount(&top, change),
                None => unreachable!("the front was there"),
            }
        }
    }

    /// Whether nothing will change.
    pub(crate) fn is_empty(&self) -> bool {
        self.barrier.is_none()
            && self.log.is_empty()
            && self.nodes.is_empty()
            && self.sessions.is_empty()
            && self.usage.is_empty()
    }

    /// The transaction's differences are not entered.
    pub(crate) fn wait_for(&mut self, zxid: i64) {
        self.barrier = Some(zxid);
    }

    /// Whether a transaction has to be applied before the next one can be made.
    pub(crate) fn is_waiting(&self) -> bool {
        self.barrier.is_some()
    }

    /// The node as it will be, if anything will change it: deleted is `Some(None)`.
    pub(crate) fn node(&self, hash: u64, path: &str) -> Option<Option<&Shape>> {
        self.nodes.find(hash, |pending| &*pending.path == path).map(|pending| pending.shape.as_ref())
    }

    /// The ephemeral nodes of a session that will change and still be there.
    pub(crate) fn ephemerals(&self, session: i64) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The session as it will be, if anything will change it: closed is `Some(None)`.
    pub(crate) fn session(&self, id: i64) -> Option<Option<Session>> {
        self.sessions.get(&id).map(|(_, session)| *session)
    }

    /// What will be added to a quota.
    pub(crate) fn usage(&self, top: &str) -> Usage {
        self.usage.get(top).copied().unwrap_or_default()
    }

    /// The node will be so.
    pub(crate) fn put(&mut self, zxid: i64, hash: u64, path: Arc<str>, shape: Option<Shape>) {
        self.log.push_back((zxid, Logged::Node(hash, Arc::clone(&path))));
        let before = self.exchange(hash, &path, Some(Pending { zxid, path: Arc::clone(&path), hash, shape }));
        self.undo.push((hash, path, before));
    }

    /// The session will be so.
    pub(crate) fn put_session(&mut self, zxid: i64, id: i64, session: Option<Session>) {
        self.log.push_back((zxid, Logged::Session(id)));
        self.sessions.insert(id, (zxid, session));
    }

    /// So much will be added to a quota.
    pub(crate) fn add_usage(&mut self, zxid: i64, top: &Arc<str>, change: Usage) {
        self.log.push_back((zxid, Logged::Usage(Arc::clone(top), change)));
        let usage = self.usage.entry(Arc::clone(top)).or_default();
        *usage = usage.plus(change);
    }

    fn discount(&mut self, top: &Arc<str>, change: Usage) {
        let Some(usage) = self.usage.get_mut(top) else { return };
        *usage = usage.minus(change);
        if *usage == Usage::default() {
            self.usage.remove(top);
        }
    }

    fn exchange(&mut self, hash: u64, path: &Arc<str>, now: Option<Pending>) -> Option<Pending> {
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
        match self.shape.as_ref()?.owner {
            Owner::Session(session) => Some(session),
            Owner::Nobody | Owner::Container | Owner::Ttl(_) => None,
        }
    }
}
