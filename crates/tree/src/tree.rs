//! The committed state: nodes, sessions, and what follows from them.
//!
//! In: transactions, in order. Out: replies and changes for whoever asked; the state, to be read at any time.
//! Why here and nowhere else: whatever changes a node changes its session, its ACL's count, its quota and the digest with
//! it. The operations (`op`) say what happens; these few methods keep the rest true.
//! Holds: two trees that applied the same transactions have the same digest, also if one of them was written to a
//! snapshot and read back in between. Applying cannot fail.
//! Not here: validation (`prepared` and `op`), watches (`watches`), where transactions come from.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{Acl, ErrorCode, Id, Perms, Stat, StatPersisted};

use crate::Rules;
use crate::acls::{AclHandle, Acls};
use crate::node::{Node, NodeId, hash_of_words};
use crate::nodes::Nodes;
use crate::owner::Owner;
use crate::path::{CONFIG, QUOTA, ROOT, ZOOKEEPER};
use crate::quota::Quotas;

/// The replicated state of a server.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) rules: Rules,
    pub(crate) nodes: Nodes,
    pub(crate) acls: Acls,
    pub(crate) sessions: BTreeMap<i64, Session>,
    /// The sum over all sessions.
    sessions_digest: u64,
    /// By session, also of sessions that are no more: Apache's snapshots may hold such nodes.
    ephemerals: BTreeMap<i64, BTreeSet<NodeId>>,
    ephemerals_count: usize,
    /// Containers, and nodes with a time to live.
    perishable: BTreeSet<NodeId>,
    pub(crate) quotas: Quotas,
    last_zxid: i64,
}

/// An open session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) timeout_ms: i32,
    /// The zxid of the last attachment; 0 if an Apache server opened it, which has none.
    pub(crate) attached: i64,
}

/// What a transaction did, beside changing the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The answer to whoever asked, if it was wanted: how it went, and the body of the reply. A multi that failed went
    /// `Ok`, as in Apache: its body tells.
    pub reply: Option<(ErrorCode, Bytes)>,
    /// What happened to a session.
    pub session: Option<SessionChange>,
    /// Whether `/zookeeper/pole` was created, set or deleted.
    pub settings: bool,
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It has a new connection; or it is new altogether.
    Attached {
        /// The session.
        id: i64,
        /// In milliseconds.
        timeout_ms: i32,
    },
    /// It is over.
    Closed {
        /// The session.
        id: i64,
    },
}

impl Tree {
    /// As a server begins: the root and the service's own nodes.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let mut tree = Self::with_root(rules, fresh(ROOT, AclHandle::default(), StatPersisted::default()));
        tree.add_reserved();
        tree
    }

    /// With a root and nothing else.
    pub(crate) fn with_root(rules: Rules, root: Node) -> Self {
        Self {
            rules,
            nodes: Nodes::new(root),
            acls: Acls::default(),
            sessions: BTreeMap::new(),
            sessions_digest: 0,
            ephemerals: BTreeMap::new(),
            ephemerals_count: 0,
            perishable: BTreeSet::new(),
            quotas: Quotas::default(),
            last_zxid: 0,
        }
    }

    /// Adds the service's own nodes that are not there: all of them at first, one that is younger than a snapshot later.
    pub(crate) fn add_reserved(&mut self) {
        for path in [ZOOKEEPER, QUOTA, CONFIG] {
            if self.nodes.find(path).is_some() {
                continue;
            }
            let parent = self.nodes.find(if path == ZOOKEEPER { ROOT } else { ZOOKEEPER });
            let parent = parent.expect("the root is there, and /zookeeper comes first");
            // Apache gives the configuration an ACL, and by the way it does so the version -1.
            let (acl, aversion) =
                if path == CONFIG { (self.acls.intern(&read_only()), -1) } else { Default::default() };
            self.nodes.insert(parent, fresh(path, acl, StatPersisted { aversion, ..StatPersisted::default() }));
        }
    }

    /// The content of `/zookeeper/config`: this server's own knowledge of its ensemble, in no digest. A restored tree
    /// wants to be told again.
    pub fn set_config(&mut self, data: &[u8]) {
        if let Some(id) = self.nodes.find(CONFIG) {
            self.nodes.change(id, |node| {
                node.set_data(Some(data.into()));
                node.stat.version = -1;
            });
        }
    }

    /// The last transaction that was applied.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// The same tree, known to hold all up to this transaction: what the name of a snapshot says.
    #[must_use]
    pub fn at(mut self, zxid: i64) -> Self {
        self.last_zxid = zxid;
        self
    }

    pub(crate) fn reached(&mut self, zxid: i64) {
        self.last_zxid = self.last_zxid.max(zxid);
    }

    /// The timeout of an open session, in milliseconds.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<i32> {
        self.sessions.get(&id).map(|session| session.timeout_ms)
    }

    /// All open sessions with their timeouts in milliseconds, by id.
    pub fn sessions(&self) -> impl Iterator<Item = (i64, i32)> {
        self.sessions.iter().map(|(id, session)| (*id, session.timeout_ms))
    }

    /// The ephemeral nodes of a session, sorted.
    #[must_use]
    pub fn ephemerals(&self, session: i64) -> Vec<Arc<str>> {
        let ids = self.ephemerals.get(&session).into_iter().flatten();
        let mut paths: Vec<_> = ids.map(|id| Arc::clone(&self.nodes.get(*id).path)).collect();
        paths.sort_unstable();
        paths
    }

    /// How many ephemeral nodes a session has.
    pub(crate) fn ephemerals_of(&self, session: i64) -> usize {
        self.ephemerals.get(&session).map_or(0, |ids| ids.len())
    }

    /// The ephemeral nodes of a session, in no order that means anything.
    pub(crate) fn ephemeral_paths(&self, session: i64) -> impl Iterator<Item = &str> {
        let ids = self.ephemerals.get(&session).into_iter().flatten();
        ids.map(|id| &*self.nodes.get(*id).path)
    }

    /// All sessions that have ephemeral nodes, with them: for dump.
    pub fn sessions_with_ephemerals(&self) -> impl Iterator<Item = (i64, Vec<Arc<str>>)> {
        self.ephemerals.keys().map(|session| (*session, self.ephemerals(*session)))
    }

    /// Sessions that are no more and still have ephemeral nodes. Only snapshots of Apache, which are taken while writes
    /// go on, can leave such; a leader closes them when it begins.
    #[must_use]
    pub fn dead_sessions(&self) -> Vec<i64> {
        self.ephemerals.keys().filter(|session| !self.sessions.contains_key(session)).copied().collect()
    }

    /// How many nodes there are, the root included.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many of them are ephemeral.
    #[must_use]
    pub fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    /// Paths and data in bytes, as mntr counts.
    #[must_use]
    pub fn approximate_data_bytes(&self) -> u64 {
        self.nodes.content_bytes()
    }

    /// About how long a snapshot is.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.nodes.content_bytes() + SNAPSHOT_BYTES_A_NODE * self.nodes.len() as u64
    }

    /// The stat of a node, as clients see it.
    #[must_use]
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.nodes.find(path).map(|id| self.nodes.get(id).shown())
    }

    /// The data of a node; null is not empty.
    #[must_use]
    pub fn data(&self, path: &str) -> Option<Option<&[u8]>> {
        self.nodes.find(path).map(|id| self.nodes.get(id).data.as_deref())
    }

    /// A number that is the same for the same nodes, sessions and ephemerals.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.nodes.digest().wrapping_add(self.sessions_digest)
    }

    /// Nodes that nobody needs any more at this wall-clock time: containers that were emptied, and childless nodes whose
    /// time to live is over. The leader asks for their end, one by one.
    #[must_use]
    pub fn due(&self, wall_ms: i64) -> Vec<String> {
        self.due_from(wall_ms, 0, usize::MAX).0
    }

    /// As [`Tree::due`], of at most `look_max` nodes from the place `from` on; and where to go on, if there are more. A
    /// tree may hold millions of such nodes, and nobody is to wait while they are looked at.
    #[must_use]
    pub fn due_from(&self, wall_ms: i64, from: u32, look_max: usize) -> (Vec<String>, Option<u32>) {
        let mut places = self.perishable.range(NodeId(from)..);
        let nodes = places.by_ref().take(look_max).map(|id| self.nodes.get(*id));
        let due = nodes.filter(|node| {
            node.children.is_empty() && is_due(node.owner(), node.stat.cversion, node.stat.mtime, wall_ms)
        });
        let due = due.map(|node| node.path.to_string()).collect();
        (due, places.next().map(|id| id.0))
    }

    /// Puts a node into the tree, with all that depends on it.
    pub(crate) fn graft(&mut self, parent: NodeId, node: Node) -> NodeId {
        let (owner, path, bytes) = (node.owner(), Arc::clone(&node.path), node.data_length());
        let id = self.nodes.insert(parent, node);
        self.own(owner, id);
        self.count_created(&path, bytes);
        id
    }

    /// Enters a node into the list of its owner.
    pub(crate) fn own(&mut self, owner: Owner, id: NodeId) {
        match owner {
            Owner::Nobody => (),
            Owner::Container | Owner::Ttl(_) => drop(self.perishable.insert(id)),
            Owner::Session(session) => {
                self.ephemerals.entry(session).or_default().insert(id);
                self.ephemerals_count += 1;
            }
        }
    }

    /// Takes a node without children out of the tree.
    pub(crate) fn prune(&mut self, id: NodeId) -> Arc<Node> {
        let node = self.nodes.remove(id);
        self.acls.release(&node.acl);
        match node.owner() {
            Owner::Nobody => (),
            Owner::Container | Owner::Ttl(_) => drop(self.perishable.remove(&id)),
            Owner::Session(session) => {
                let left = self.ephemerals.get_mut(&session).expect("an ephemeral node is listed under its session");
                left.remove(&id);
                if left.is_empty() {
                    self.ephemerals.remove(&session);
                }
                self.ephemerals_count -= 1;
            }
        }
        self.count_deleted(&node.path, node.data_length());
        node
    }

    /// Replaces the data of a node, and what else `stamp` changes in its stat.
    pub(crate) fn write(&mut self, id: NodeId, data: Option<Arc<[u8]>>, stamp: impl FnOnce(&mut StatPersisted)) {
        let after = data.as_ref().map_or(0, |data| data.len());
        let (path, before) = self.nodes.change(id, |node| {
            let before = node.data_length();
            node.set_data(data);
            stamp(&mut node.stat);
            (Arc::clone(&node.path), before)
        });
        self.count_written(&path, before, after);
    }

    /// Opens a session, or gives it a new connection.
    pub(crate) fn open_session(&mut self, id: i64, session: Session) {
        let before = self.sessions.insert(id, session);
        let before = before.map_or(0, |before| digest_of_session(id, before.timeout_ms));
        self.sessions_digest =
            self.sessions_digest.wrapping_sub(before).wrapping_add(digest_of_session(id, session.timeout_ms));
    }

    /// Ends a session; its nodes are somebody else's business.
    pub(crate) fn end_session(&mut self, id: i64) {
        if let Some(session) = self.sessions.remove(&id) {
            self.sessions_digest = self.sessions_digest.wrapping_sub(digest_of_session(id, session.timeout_ms));
        }
    }
}

/// Whether the leader may end a childless node. A container that never had children stays.
pub(crate) fn is_due(owner: Owner, cversion: i32, mtime: i64, wall_ms: i64) -> bool {
    match owner {
        Owner::Container => cversion != 0,
        Owner::Ttl(ms) => ms != 0 && wall_ms.saturating_sub(mtime) > ms,
        Owner::Nobody | Owner::Session(_) => false,
    }
}

/// Everyone may read and nobody may write.
pub(crate) fn read_only() -> [Acl; 1] {
    [Acl { perms: Perms::READ, id: Id { scheme: "world".into(), id: "anyone".into() } }]
}

fn fresh(path: &str, acl: AclHandle, stat: StatPersisted) -> Node {
    Node::new(path.into(), Some(Arc::default()), acl, stat)
}

fn digest_of_session(id: i64, timeout_ms: i32) -> u64 {
    hash_of_words([id.cast_unsigned(), u64::from(timeout_ms.cast_unsigned())])
}

/// Lengths, the reference to the ACL and the stat.
const SNAPSHOT_BYTES_A_NODE: u64 = 76;
