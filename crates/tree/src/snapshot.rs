//! Writes the whole state as the body of an Apache snapshot, and restores it.
//!
//! A tree is frozen without stopping it and written later. Input comes from a file or a peer.
//!
//! Invariant: every reference in the input is checked before use; an error names the node.
//!
//! The file's header, checksum and name are handled by `storage`.
//!
//! Apache's snapshot has no field for the last attachment of a session. Without it a leader restored from a snapshot
//! would accept a request of a connection that the session has left. The attachments are therefore stored in the
//! table of ACLs, as one list that no node refers to, with a scheme that no ACL can have. Apache drops such a list
//! after reading it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use pole_jute::{
    Acl, AclEntry, DataNode, Error, Id, OPEN_ACL_REFERENCE, Perms, Place, Reader, Record, SessionEntry, SnapshotNode,
    Value, Writer,
};

use crate::acls::AclHandle;
use crate::node::{Node, NodeId};
use crate::path::{self, ROOT};
use crate::slab::Slab;
use crate::tree::Session;
use crate::{Rules, Tree};

/// The state of a tree at one point in time. It shares all unchanged nodes with the tree, and another thread can
/// write it.
#[derive(Clone, Debug)]
pub struct Frozen {
    sessions: Vec<(i64, Session)>,
    nodes: Slab,
    size_bytes: u64,
}

/// The reason why a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes cannot be decoded.
    #[error("the snapshot is damaged: {0}; restore the directory from a backup or from another server")]
    Malformed(#[from] Error),
    /// A node comes before its parent, or has none.
    #[error("the snapshot is damaged: node {path:?} has no parent before it")]
    Orphan { path: String },
    /// A path occurs twice.
    #[error("the snapshot is damaged: node {path:?} occurs twice")]
    Duplicate { path: String },
    /// A node refers to an ACL that is not in the table.
    #[error("the snapshot is damaged: node {path:?} refers to ACL {reference}, which is not in the table")]
    UnknownAcl { path: String, reference: i64 },
    /// A path that no node can have.
    #[error("the snapshot is damaged: {path:?} is not a valid path of a node")]
    InvalidPath { path: String },
}

impl Tree {
    /// Captures the current state without copying it.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        let sessions = self.sessions.iter().map(|(id, session)| (*id, *session)).collect();
        Frozen { sessions, nodes: self.nodes.image(), size_bytes: self.size_bytes() }
    }

    /// Restores what [`Frozen::write`] or Apache wrote. A snapshot does not contain its zxid: set it with
    /// [`Tree::with_last_zxid`].
    ///
    /// # Errors
    /// If the bytes are not a valid snapshot.
    pub fn restore(rules: Rules, body: &Bytes) -> Result<Self, RestoreError> {
        let mut restorer = Restorer::new(rules);
        restorer.feed(body.clone())?;
        restorer.finish()
    }

    fn restore_node(
        &mut self,
        acls: &BTreeMap<i64, AclHandle>,
        path: &str,
        node: &DataNode,
    ) -> Result<(), RestoreError> {
        let (parent, name) = path::split(path).unwrap_or_default();
        if name.is_empty() || !path.starts_with('/') {
            return Err(RestoreError::InvalidPath { path: path.into() });
        }
        let parent = self.nodes.find(parent).ok_or_else(|| RestoreError::Orphan { path: path.into() })?;
        if self.nodes.find(path).is_some() {
            return Err(RestoreError::Duplicate { path: path.into() });
        }
        let node = detached_node(path, node, self.lookup_acl(acls, path, node.acl)?);
        self.advance_zxid(node.stat.mzxid.max(node.stat.pzxid));
        let owner = node.owner();
        let id = self.nodes.insert(parent, node);
        self.register_owner(owner, id);
        Ok(())
    }

    /// The ACL that a node refers to. Counts one more node for it.
    fn lookup_acl(
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

/// Restores a tree from a snapshot that arrives in arbitrary pieces. Needs memory for the tree and one piece.
#[derive(Debug)]
pub struct Restorer {
    rules: Rules,
    /// Bytes that do not yet form a complete record, and their offset in the snapshot.
    rest: Bytes,
    at: usize,
    /// None until the head of the snapshot is complete.
    partial: Option<PartialTree>,
}

#[derive(Debug)]
struct PartialTree {
    tree: Tree,
    sessions: Vec<SessionEntry>,
    attachments: BTreeMap<i64, i64>,
    acls: BTreeMap<i64, AclHandle>,
    /// Whether the end marker of the nodes was read.
    ended: bool,
}

impl Restorer {
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, rest: Bytes::new(), at: 0, partial: None }
    }

    /// Consumes the next piece.
    ///
    /// # Errors
    /// If no continuation can make the bytes a valid snapshot.
    pub fn feed(&mut self, piece: Bytes) -> Result<(), RestoreError> {
        let bytes = match self.rest.is_empty() {
            true => piece,
            false => [&self.rest[..], &piece[..]].concat().into(),
        };
        let mut reader = Reader::new(bytes.clone());
        let read = loop {
            let before = reader.position();
            match self.next(&mut reader) {
                Ok(true) => {}
                Ok(false) => break before,
                Err(RestoreError::Malformed(error)) if error.is_short() => break before,
                Err(RestoreError::Malformed(error)) => {
                    return Err(RestoreError::Malformed(Error { at: self.at + error.at, ..error }));
                }
                Err(error) => return Err(error),
            }
        };
        self.at += read;
        self.rest = bytes.slice(read..);
        Ok(())
    }

    /// The bytes after the end of the snapshot, once all of it has been consumed. They belong to whatever follows it in
    /// the stream; [`Restorer::finish`] no longer sees them.
    pub fn take_rest(&mut self) -> Option<Bytes> {
        let ended = self.partial.as_ref().is_some_and(|partial| partial.ended);
        ended.then(|| core::mem::take(&mut self.rest))
    }

    /// Returns the tree after the last piece.
    ///
    /// # Errors
    /// If the snapshot is incomplete, or has trailing bytes.
    pub fn finish(mut self) -> Result<Tree, RestoreError> {
        let mut reader = Reader::new(self.rest.clone());
        let whole = |error: Error| RestoreError::Malformed(Error { at: self.at + error.at, ..error });
        if self.partial.as_ref().is_none_or(|partial| !partial.ended) {
            // The last record was incomplete; decoding it again returns the error.
            return match self.next(&mut reader) {
                Err(RestoreError::Malformed(error)) => {
                    Err(RestoreError::Malformed(Error { at: self.at + error.at, ..error }))
                }
                Err(error) => Err(error),
                Ok(_) => Err(RestoreError::Orphan { path: String::new() }),
            };
        }
        reader.finish("snapshot").map_err(whole)?;
        let Some(PartialTree { mut tree, sessions, attachments, .. }) = self.partial else {
            return Err(RestoreError::Orphan { path: String::new() });
        };
        tree.acls.drop_unused();
        tree.add_reserved();
        tree.restore_quotas();
        for SessionEntry { id, timeout } in sessions {
            let attached = attachments.get(&id).copied().unwrap_or_default();
            tree.open_session(id, Session { timeout_ms: timeout, attached });
        }
        Ok(tree)
    }

    /// Consumes the next record; false at the end.
    fn next(&mut self, reader: &mut Reader) -> Result<bool, RestoreError> {
        match &mut self.partial {
            None => {
                self.partial = Some(PartialTree::read(self.rules, reader)?);
                Ok(true)
            }
            Some(PartialTree { ended: true, .. }) => Ok(false),
            Some(partial) => {
                match SnapshotNode::read(reader)? {
                    SnapshotNode::Node(path, node) => partial.tree.restore_node(&partial.acls, &path, &node)?,
                    SnapshotNode::End => partial.ended = true,
                }
                Ok(true)
            }
        }
    }
}

impl PartialTree {
    /// Reads everything before the nodes, and the root.
    fn read(rules: Rules, reader: &mut Reader) -> Result<Self, RestoreError> {
        let sessions: Vec<SessionEntry> = reader.vector(Place::new("snapshot", "sessions"))?;
        let mut table: Vec<AclEntry> = reader.vector(Place::new("snapshot", "acls"))?;
        let attachments = take_attachments(&mut table);
        let root = match SnapshotNode::read(reader)? {
            SnapshotNode::Node(path, root) if path.is_empty() => root,
            SnapshotNode::Node(path, _) => return Err(RestoreError::Orphan { path }),
            SnapshotNode::End => return Err(RestoreError::Orphan { path: String::new() }),
        };
        let mut tree = Tree::with_root(rules, detached_node(ROOT, &root, AclHandle::default()));
        let acls = table.into_iter().map(|entry| (entry.reference, tree.acls.restore(entry.reference, entry.acl)));
        let acls: BTreeMap<i64, AclHandle> = acls.collect();
        let root_acl = tree.lookup_acl(&acls, ROOT, root.acl)?;
        tree.nodes.change(NodeId(0), |node| node.acl = root_acl);
        Ok(Self { tree, sessions, attachments, acls, ended: false })
    }
}

impl Frozen {
    /// Writes the snapshot in pieces.
    pub fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut writer = Writer::new();
        writer.length(self.sessions.len());
        for (id, session) in &self.sessions {
            SessionEntry { id: *id, timeout: session.timeout_ms }.write(&mut writer);
        }
        self.write_acls(&mut writer);
        let mut stack = Vec::from([NodeId(0)]);
        while let Some(id) = stack.pop() {
            let node = self.nodes.get(id);
            stack.extend(node.children.iter());
            // The root is written with an empty path, because a single slash is the end marker.
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

    pub(crate) fn nodes(&self) -> &Slab {
        &self.nodes
    }

    /// The approximate size of the snapshot.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The ACLs that nodes refer to. They are collected here, so that freezing need not copy the table.
    fn write_acls(&self, writer: &mut Writer) {
        let nodes = self.nodes.iter().filter(|node| node.acl.list().is_some());
        let table: BTreeMap<i64, &AclHandle> = nodes.map(|node| (node.acl.reference(), &node.acl)).collect();
        let attachments = self.attachments();
        writer.length(table.len() + usize::from(!attachments.is_empty()));
        let unused = table.keys().max().map_or(1, |last| last.saturating_add(1));
        let lists = table.into_iter().map(|(reference, acl)| (reference, acl.list().unwrap_or_default()));
        for (reference, list) in lists.chain((!attachments.is_empty()).then_some((unused, &attachments[..]))) {
            writer.long(reference);
            writer.length(list.len());
            list.iter().for_each(|entry| entry.put(writer));
        }
    }

    /// The last attachment of each session, encoded as ACL entries without permissions.
    fn attachments(&self) -> Vec<Acl> {
        let known = self.sessions.iter().filter(|(_, session)| session.attached != 0);
        let entry = |(id, session): &(i64, Session)| {
            let id = format!("{id:x}:{:x}", session.attached);
            Acl { perms: Perms::NONE, id: Id { scheme: ATTACHED.into(), id } }
        };
        known.map(entry).collect()
    }
}

/// Removes the attachments from the table and returns them by session. Unreadable entries are ignored.
fn take_attachments(table: &mut Vec<AclEntry>) -> BTreeMap<i64, i64> {
    let is_ours = |entry: &mut AclEntry| entry.acl.first().is_some_and(|acl| acl.id.scheme == ATTACHED);
    let number = |text: &str| u64::from_str_radix(text, 16).ok().map(u64::cast_signed);
    let pair = |acl: Acl| acl.id.id.split_once(':').and_then(|(id, zxid)| Some((number(id)?, number(zxid)?)));
    table.extract_if(.., is_ours).flat_map(|entry| entry.acl).filter_map(pair).collect()
}

/// A node that is not in the tree yet. The data is copied; otherwise a node would keep the whole snapshot in memory.
fn detached_node(path: &str, node: &DataNode, acl: AclHandle) -> Node {
    Node::new(path.into(), node.data.as_deref().map(Arc::from), acl, node.stat)
}

/// The scheme of ACL entries that encode attachments.
const ATTACHED: &str = "pole-attached";

/// The size of a written piece: large enough to make calls rare, small enough to stay in a cache.
const PIECE_BYTES: usize = 64 * 1024;
