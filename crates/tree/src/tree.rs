//! The committed state: nodes, sessions, and the tables derived from them.
//!
//! A change of a node also affects its session, the reference count of its ACL, its quotas and the digest. The
//! operations (`op`) decide what happens to a node; the methods here keep the derived state consistent. They are the
//! only code that does.
//!
//! Invariants: two trees that applied the same transactions have the same digest, also if one of them was written to
//! a snapshot and restored in between. Applying cannot fail.
//!
//! Validation is in `prepared` and `op`, watches are in `watches`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use bytes::Bytes;
use pole_jute::{Acl, ErrorCode, Id, Perms, Stat, StatPersisted};

use crate::access::Permissions;
use crate::acls::{AclHandle, Acls};
use crate::node::{Node, NodeId, hash_of_words};
use crate::nodes::Nodes;
use crate::owner::Owner;
use crate::path::{CONFIG, QUOTA, ROOT, ZOOKEEPER};
use crate::quota::Quotas;
use crate::{Caller, Members, Rules};

/// The replicated state of a server.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) rules: Rules,
    pub(crate) nodes: Nodes,
    pub(crate) acls: Acls,
    pub(crate) sessions: BTreeMap<i64, Session>,
    /// The sum of the digests of all sessions.
    sessions_digest: u64,
    /// Ephemeral nodes by session. Includes sessions that no longer exist, because Apache's snapshots may contain
    /// their nodes.
    ephemerals: BTreeMap<i64, BTreeSet<NodeId>>,
    ephemerals_count: usize,
    /// Containers and nodes with a TTL.
    expirable: BTreeSet<NodeId>,
    pub(crate) quotas: Quotas,
    last_zxid: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) timeout_ms: i32,
    /// The zxid of the last attachment; 0 if an Apache server opened the session, because its log has no attachments.
    pub(crate) attached: i64,
}

/// The result of a transaction, apart from the changed tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Result code and body of the reply, if a reply was requested. A failed multi has the code `Ok`, as in Apache;
    /// its body contains the errors.
    pub reply: Option<(ErrorCode, Bytes)>,
    pub session: Option<SessionChange>,
    /// Whether `/zookeeper/pole` was created, set or deleted.
    pub settings_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// The session was opened, or was attached to a new connection.
    Attached {
        id: i64,
        timeout_ms: i32,
    },
    Closed {
        id: i64,
    },
}

impl Tree {
    /// The tree of a new server: the root and the reserved nodes.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let mut tree = Self::with_root(rules, empty_node(ROOT, AclHandle::default(), StatPersisted::default()));
        tree.add_reserved();
        tree
    }

    /// A tree that contains only the root.
    pub(crate) fn with_root(rules: Rules, root: Node) -> Self {
        Self {
            rules,
            nodes: Nodes::new(root),
            acls: Acls::default(),
            sessions: BTreeMap::new(),
            sessions_digest: 0,
            ephemerals: BTreeMap::new(),
            ephemerals_count: 0,
            expirable: BTreeSet::new(),
            quotas: Quotas::default(),
            last_zxid: 0,
        }
    }

    /// Adds the reserved nodes that are missing: all of them in a new tree, or those that a snapshot lacks because
    /// its writer did not have them yet.
    pub(crate) fn add_reserved(&mut self) {
        for path in [ZOOKEEPER, QUOTA, CONFIG] {
            if self.nodes.find(path).is_some() {
                continue;
            }
            let parent = self.nodes.find(if path == ZOOKEEPER { ROOT } else { ZOOKEEPER });
            let parent = parent.expect("the root is there, and /zookeeper comes first");
            // Apache sets the ACL of this node in a way that leaves its aversion at -1.
            let (acl, aversion) =
                if path == CONFIG { (self.acls.intern(&read_only_acl()), -1) } else { Default::default() };
            self.nodes.insert(parent, empty_node(path, acl, StatPersisted { aversion, ..StatPersisted::default() }));
        }
    }

    /// Sets the content of `/zookeeper/config` to what this server's configuration file says, which is not part of the
    /// digest. Must be called again on a restored tree. Members that were set by a later change stay.
    pub fn set_config(&mut self, data: &[u8]) {
        let version_of = |data: &[u8]| parse_members(data).map_or(0, |(_, version)| version);
        let current = self.members().map_or(0, |(_, version)| version);
        if current > 0 && current >= version_of(data) {
            return;
        }
        if let Some(id) = self.nodes.find(CONFIG) {
            self.nodes.change(id, |node| {
                node.set_data(Some(data.into()));
                node.stat.version = -1;
            });
        }
    }

    /// The members of the ensemble and the zxid of the change that set them, which is 0 if they come from the configuration
    /// file. A standalone server has none.
    #[must_use]
    pub fn members(&self) -> Option<(Members, i64)> {
        parse_members(self.data(CONFIG)??)
    }

    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Sets the zxid of the last applied transaction, which for a snapshot is known only from its file name.
    #[must_use]
    pub fn with_last_zxid(mut self, zxid: i64) -> Self {
        self.last_zxid = zxid;
        self
    }

    pub(crate) fn advance_zxid(&mut self, zxid: i64) {
        self.last_zxid = self.last_zxid.max(zxid);
    }

    /// The timeout of an open session, in milliseconds.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<i32> {
        self.sessions.get(&id).map(|session| session.timeout_ms)
    }

    /// All open sessions with their timeouts in milliseconds, sorted by id.
    pub fn sessions(&self) -> impl Iterator<Item = (i64, i32)> {
        self.sessions.iter().map(|(id, session)| (*id, session.timeout_ms))
    }

    /// The number of open sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The ephemeral nodes of a session, sorted by path.
    #[must_use]
    pub fn ephemerals(&self, session: i64) -> Vec<Arc<str>> {
        let ids = self.ephemerals.get(&session).into_iter().flatten();
        let mut paths: Vec<_> = ids.map(|id| Arc::clone(&self.nodes.get(*id).path)).collect();
        paths.sort_unstable();
        paths
    }

    pub(crate) fn ephemerals_count_of(&self, session: i64) -> usize {
        self.ephemerals.get(&session).map_or(0, |ids| ids.len())
    }

    /// The ephemeral nodes of a session, unordered.
    pub(crate) fn ephemeral_paths(&self, session: i64) -> impl Iterator<Item = &str> {
        let ids = self.ephemerals.get(&session).into_iter().flatten();
        ids.map(|id| &*self.nodes.get(*id).path)
    }

    /// The sessions behind this one with ephemeral nodes, until these are as many as wanted. A list of all is read in parts,
    /// between which the tree may change.
    #[must_use]
    pub fn ephemerals_after(&self, last: Option<i64>, wanted: usize) -> Vec<(i64, Vec<Arc<str>>)> {
        let mut count = 0;
        let sessions = self.ephemerals.range((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let sessions = sessions.take_while(|(_, nodes)| {
            let more = count < wanted;
            count += nodes.len();
            more
        });
        sessions.map(|(session, _)| (*session, self.ephemerals(*session))).collect()
    }

    /// Sessions that no longer exist and still have ephemeral nodes. They come only from snapshots of Apache, which
    /// are taken while writes go on. A new leader closes them.
    #[must_use]
    pub fn dead_sessions(&self) -> Vec<i64> {
        self.ephemerals.keys().filter(|session| !self.sessions.contains_key(session)).copied().collect()
    }

    /// Whether the caller has all permissions on the root. With `by_name`, those that everybody has do not count.
    #[must_use]
    pub fn has_all_on_root(&self, caller: &Caller, by_name: bool) -> bool {
        Permissions::new(self.rules, caller).has_all(&self.nodes.get(NodeId(0)).acl, by_name)
    }

    /// The number of nodes, including the root.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    #[must_use]
    pub fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    /// The number of nodes by the schemes in their ACLs. A node without an ACL is open and not counted.
    #[must_use]
    pub fn acl_schemes(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in self.nodes.image().iter() {
            let schemes: BTreeSet<&str> =
                node.acl.list().unwrap_or_default().iter().map(|acl| acl.id.scheme.as_str()).collect();
            schemes.into_iter().for_each(|scheme| *counts.entry(scheme.to_string()).or_default() += 1);
        }
        counts
    }

    /// The size of all paths and data in bytes, as `mntr` reports it.
    #[must_use]
    pub fn approximate_data_bytes(&self) -> u64 {
        self.nodes.content_bytes()
    }

    /// The approximate size of a snapshot.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.nodes.content_bytes() + SNAPSHOT_BYTES_PER_NODE * self.nodes.len() as u64
    }

    /// The stat of a node, as clients see it.
    #[must_use]
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.nodes.find(path).map(|id| self.nodes.get(id).client_stat())
    }

    /// The data of a node. `Some(None)` is a node whose data is null, which is different from empty.
    #[must_use]
    pub fn data(&self, path: &str) -> Option<Option<&[u8]>> {
        self.nodes.find(path).map(|id| self.nodes.get(id).data.as_deref())
    }

    /// A digest of all nodes and sessions.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.nodes.digest().wrapping_add(self.sessions_digest)
    }

    /// Nodes that are to be deleted at this wall-clock time: containers that became empty, and childless nodes whose
    /// TTL has passed. The leader requests their deletion one by one.
    #[must_use]
    pub fn due(&self, wall_ms: i64) -> Vec<String> {
        self.due_from(wall_ms, 0, usize::MAX).0
    }

    /// Like [`Tree::due`], but examines at most `scan_max` candidates starting at index `from`, and returns the index
    /// to continue from if there are more. A tree may hold millions of candidates, and examining all of them at once
    /// would block other work.
    #[must_use]
    pub fn due_from(&self, wall_ms: i64, from: u32, scan_max: usize) -> (Vec<String>, Option<u32>) {
        let mut candidates = self.expirable.range(NodeId(from)..);
        let nodes = candidates.by_ref().take(scan_max).map(|id| self.nodes.get(*id));
        let due = nodes.filter(|node| {
            node.children.is_empty() && is_due(node.owner(), node.stat.cversion, node.stat.mtime, wall_ms)
        });
        let due = due.map(|node| node.path.to_string()).collect();
        (due, candidates.next().map(|id| id.0))
    }

    /// Inserts a node and updates all derived state.
    pub(crate) fn insert_node(&mut self, parent: NodeId, node: Node) -> NodeId {
        let (owner, path) = (node.owner(), Arc::clone(&node.path));
        let id = self.nodes.insert(parent, node);
        self.register_owner(owner, id);
        self.count_created(&path);
        id
    }

    /// Adds a node to the list of its owner.
    pub(crate) fn register_owner(&mut self, owner: Owner, id: NodeId) {
        match owner {
            Owner::Nobody => (),
            Owner::Container | Owner::Ttl(_) => drop(self.expirable.insert(id)),
            Owner::Session(session) => {
                self.ephemerals.entry(session).or_default().insert(id);
                self.ephemerals_count += 1;
            }
        }
    }

    /// Removes a childless node and updates all derived state.
    pub(crate) fn remove_node(&mut self, id: NodeId) -> Arc<Node> {
        let node = self.nodes.remove(id);
        self.acls.release(&node.acl);
        match node.owner() {
            Owner::Nobody => (),
            Owner::Container | Owner::Ttl(_) => drop(self.expirable.remove(&id)),
            Owner::Session(session) => {
                let left = self.ephemerals.get_mut(&session).expect("an ephemeral node is listed under its session");
                left.remove(&id);
                if left.is_empty() {
                    self.ephemerals.remove(&session);
                }
                self.ephemerals_count -= 1;
            }
        }
        self.count_deleted(&node.path);
        node
    }

    /// Replaces the data of a node. `stamp` updates its stat.
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

    /// Opens a session, or attaches it to a new connection.
    pub(crate) fn open_session(&mut self, id: i64, session: Session) {
        let before = self.sessions.insert(id, session);
        let before = before.map_or(0, |before| digest_of_session(id, before.timeout_ms));
        self.sessions_digest =
            self.sessions_digest.wrapping_sub(before).wrapping_add(digest_of_session(id, session.timeout_ms));
    }

    /// Removes a session, but not its ephemeral nodes.
    pub(crate) fn end_session(&mut self, id: i64) {
        if let Some(session) = self.sessions.remove(&id) {
            self.sessions_digest = self.sessions_digest.wrapping_sub(digest_of_session(id, session.timeout_ms));
        }
    }
}

/// Whether the leader may delete a childless node. A container that never had children stays.
pub(crate) fn is_due(owner: Owner, cversion: i32, mtime: i64, wall_ms: i64) -> bool {
    match owner {
        Owner::Container => cversion != 0,
        Owner::Ttl(ms) => ms != 0 && wall_ms.saturating_sub(mtime) > ms,
        Owner::Nobody | Owner::Session(_) => false,
    }
}

/// Reads the content of `/zookeeper/config`. Without anybody who votes it does not describe an ensemble.
pub(crate) fn parse_members(description: &[u8]) -> Option<(Members, i64)> {
    let (members, version) = Members::parse_description(core::str::from_utf8(description).ok()?).ok()?;
    (members.participants() > 0).then_some((members, version))
}

/// An ACL with which everyone may read and nobody may write.
pub(crate) fn read_only_acl() -> [Acl; 1] {
    [Acl { perms: Perms::READ, id: Id { scheme: "world".into(), id: "anyone".into() } }]
}

fn empty_node(path: &str, acl: AclHandle, stat: StatPersisted) -> Node {
    Node::new(path.into(), Some(Arc::default()), acl, stat)
}

fn digest_of_session(id: i64, timeout_ms: i32) -> u64 {
    hash_of_words([id.cast_unsigned(), u64::from(timeout_ms.cast_unsigned())])
}

/// Lengths, the ACL reference and the stat.
const SNAPSHOT_BYTES_PER_NODE: u64 = 76;
