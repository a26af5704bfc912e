//! The whole state as bytes, and back: the body of Apache's snapshot.
//!
//! In: a tree, frozen while it goes on; or the bytes of a file or a peer. Out: the bytes; or a tree.
//! Holds: every reference in the bytes is looked up before it is believed; what is wrong is an error that says which node.
//! Not here: the header of the file, its checksum and its name (`storage`).
//!
//! A snapshot does not know when sessions were last attached. Apache has no place for it, and one that a session needs is
//! in the log that follows.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{
    AclEntry, DataNode, Error, OPEN_ACL_REFERENCE, Place, Reader, Record, SessionEntry, SnapshotNode, Value, Writer,
};

use crate::acls::AclHandle;
use crate::node::{Node, NodeId};
use crate::path::{self, ROOT};
use crate::slab::Slab;
use crate::tree::Session;
use crate::{Rules, Tree};

/// A tree as it was at one moment, sharing all that has not changed since. It can be written by another thread.
#[derive(Clone, Debug)]
pub struct Frozen {
    sessions: Vec<SessionEntry>,
    nodes: Slab,
    size_bytes: u64,
}

/// Why bytes are no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// They do not even have the form of one.
    #[error("the snapshot is damaged: {0}; restore the directory from a backup or from another server")]
    Form(#[from] Error),
    /// A node stands before its parent, or without one.
    #[error("the snapshot is damaged: node {path:?} has no parent before it")]
    Orphan {
        /// The node.
        path: String,
    },
    /// A path occurs twice.
    #[error("the snapshot is damaged: node {path:?} stands there twice")]
    Twice {
        /// The node.
        path: String,
    },
    /// A node refers to an ACL that is not there.
    #[error("the snapshot is damaged: node {path:?} refers to ACL {reference}, which is not in the table")]
    UnknownAcl {
        /// The node.
        path: String,
        /// What it refers to.
        reference: i64,
    },
    /// A path that no node can have.
    #[error("the snapshot is damaged: {path:?} is no path of a node")]
    NoPath {
        /// The path.
        path: String,
    },
}

impl Tree {
    /// The state as it is now, without copying it.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        let sessions = self.sessions().map(|(id, timeout)| SessionEntry { id, timeout }).collect();
        Frozen { sessions, nodes: self.nodes.image(), size_bytes: self.size_bytes() }
    }

    /// Reads what [`Frozen::write`] or Apache wrote. The zxid stands in no snapshot: say it with [`Tree::at`].
    ///
    /// # Errors
    /// If the bytes are no snapshot.
    pub fn restore(rules: Rules, body: &Bytes) -> Result<Self, RestoreError> {
        let mut reader = Reader::new(body.clone());
        let sessions: Vec<SessionEntry> = reader.vector(Place::new("snapshot", "sessions"))?;
        let table: Vec<AclEntry> = reader.vector(Place::new("snapshot", "acls"))?;

        let root = match SnapshotNode::read(&mut reader)? {
            SnapshotNode::Node(path, root) if path.is_empty() => root,
            SnapshotNode::Node(path, _) => return Err(RestoreError::Orphan { path }),
            SnapshotNode::End => return Err(RestoreError::Orphan { path: String::new() }),
        };
        let mut tree = Self::with_root(rules, bare(ROOT, &root, AclHandle::default()));
        let acls = table.into_iter().map(|entry| (entry.reference, tree.acls.restore(entry.reference, entry.acl)));
        let acls: BTreeMap<i64, AclHandle> = acls.collect();
        let root_acl = tree.known_acl(&acls, ROOT, root.acl)?;
        tree.nodes.change(NodeId(0), |node| node.acl = root_acl);

        while let SnapshotNode::Node(path, node) = SnapshotNode::read(&mut reader)? {
            tree.restore_node(&acls, &path, &node)?;
        }
        reader.finish("snapshot")?;
        tree.acls.drop_unused();
        tree.add_reserved();
        tree.measure_quotas();
        for session in sessions {
            tree.open_session(session.id, Session { timeout_ms: session.timeout, attached: 0 });
        }
        Ok(tree)
    }

    fn restore_node(
        &mut self,
        acls: &BTreeMap<i64, AclHandle>,
        path: &str,
        node: &DataNode,
    ) -> Result<(), RestoreError> {
        let (parent, name) = path::split(path).unwrap_or_default();
        if name.is_empty() || !path.starts_with('/') {
            return Err(RestoreError::NoPath { path: path.into() });
        }
        let parent = self.nodes.find(parent).ok_or_else(|| RestoreError::Orphan { path: path.into() })?;
        if self.nodes.find(path).is_some() {
            return Err(RestoreError::Twice { path: path.into() });
        }
        let node = bare(path, node, self.known_acl(acls, path, node.acl)?);
        self.reached(node.stat.mzxid.max(node.stat.pzxid));
        let owner = node.owner();
        let id = self.nodes.insert(parent, node);
        self.own(owner, id);
        Ok(())
    }

    /// The ACL that a node refers to, for one more node.
    fn known_acl(
        &mut self,
        acls: &BTreeMap<i64, AclHandle>,
        path: &str,
        reference: i64,
    ) -> Result<AclHandle, RestoreError> {
        if reference == OPEN_ACL_REFERENCE {
            return Ok(AclHandle::default());
        }
        let acl = acls.get(&reference).ok_or_else(|| RestoreError::UnknownAcl { path: path.into(), reference })?;
        self.acls.retain(acl);
        Ok(acl.clone())
    }
}

impl Frozen {
    /// Writes it, piece by piece.
    pub fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut writer = Writer::new();
        self.sessions.put(&mut writer);
        self.write_acls(&mut writer);
        let mut stack = Vec::from([NodeId(0)]);
        while let Some(id) = stack.pop() {
            let node = self.nodes.get(id);
            stack.extend(&node.children);
            // The root's path is empty here: a slash alone is the end.
            writer.string(if &*node.path == ROOT { "" } else { &node.path });
            writer.buffer(node.data.as_deref());
            writer.long(node.acl.reference());
            node.stat.write(&mut writer);
            if writer.len() >= PIECE_BYTES {
                sink(&writer.take());
            }
        }
        SnapshotNode::End.write(&mut writer);
        sink(&writer.into_bytes());
    }

    /// About how long it will be.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The lists that nodes refer to. Collected now, so that freezing need not copy the table.
    fn write_acls(&self, writer: &mut Writer) {
        let nodes = self.nodes.iter().filter(|node| node.acl.list().is_some());
        let table: BTreeMap<i64, &AclHandle> = nodes.map(|node| (node.acl.reference(), &node.acl)).collect();
        writer.length(table.len());
        for (reference, acl) in table {
            writer.long(reference);
            let list = acl.list().unwrap_or_default();
            writer.length(list.len());
            list.iter().for_each(|entry| entry.put(writer));
        }
    }
}

/// A node without its place. The data is copied, or a node would keep the whole snapshot in memory.
fn bare(path: &str, node: &DataNode, acl: AclHandle) -> Node {
    Node::new(path.into(), node.data.as_deref().map(Arc::from), acl, node.stat)
}

/// Written at once: large enough to make calls rare, small enough to stay in a cache.
const PIECE_BYTES: usize = 64 * 1024;
