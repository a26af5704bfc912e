//! The whole state as bytes, and back: the body of Apache's snapshot.
//!
//! In: a tree, frozen while it goes on; or the bytes of a file or a peer. Out: the bytes; or a tree.
//! Holds: every reference in the bytes is looked up before it is believed; what is wrong is an error that says which node.
//! Not here: the header of the file, its checksum and its name (`storage`).
//!
//! Apache's snapshot has no place for the last attachment of a session, and without it a leader that comes from a snapshot
//! would take a request of a connection that the session has left. So the attachments stand in the table of ACLs, as one
//! list that no node refers to and with a scheme that no ACL can have: Apache drops such a list when it has read it.

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

/// A tree as it was at one moment, sharing all that has not changed since. It can be written by another thread.
#[derive(Clone, Debug)]
pub struct Frozen {
    sessions: Vec<(i64, Session)>,
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
        let sessions = self.sessions.iter().map(|(id, session)| (*id, *session)).collect();
        Frozen { sessions, nodes: self.nodes.image(), size_bytes: self.size_bytes() }
    }

    /// Reads what [`Frozen::write`] or Apache wrote. The zxid stands in no snapshot: say it with [`Tree::at`].
    ///
    /// # Errors
    /// If the bytes are no snapshot.
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

/// Makes a tree from a snapshot that comes in pieces, cut anywhere. Holds the tree and a piece, not the snapshot.
#[derive(Debug)]
pub struct Restorer {
    rules: Rules,
    /// Bytes that do not yet make up the next record, and how many came before them.
    rest: Bytes,
    at: usize,
    /// None: the head is not complete.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    tree: Tree,
    sessions: Vec<SessionEntry>,
    attachments: BTreeMap<i64, i64>,
    acls: BTreeMap<i64, AclHandle>,
    /// The end of the nodes was read.
    ended: bool,
}

impl Restorer {
    /// For a tree under these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, rest: Bytes::new(), at: 0, begun: None }
    }

    /// Takes the next piece in.
    ///
    /// # Errors
    /// If the bytes are no snapshot, whatever follows.
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
                Err(RestoreError::Form(error)) if error.is_short() => break before,
                Err(RestoreError::Form(error)) => {
                    return Err(RestoreError::Form(Error { at: self.at + error.at, ..error }));
                }
                Err(error) => return Err(error),
            }
        };
        self.at += read;
        self.rest = bytes.slice(read..);
        Ok(())
    }

    /// All pieces were taken in.
    ///
    /// # Errors
    /// If something is missing, or too much.
    pub fn finish(mut self) -> Result<Tree, RestoreError> {
        let mut reader = Reader::new(self.rest.clone());
        let whole = |error: Error| RestoreError::Form(Error { at: self.at + error.at, ..error });
        if self.begun.as_ref().is_none_or(|begun| !begun.ended) {
            // It stopped for want of bytes, and says so again.
            return match self.next(&mut reader) {
                Err(RestoreError::Form(error)) => Err(RestoreError::Form(Error { at: self.at + error.at, ..error })),
                Err(error) => Err(error),
                Ok(_) => Err(RestoreError::Orphan { path: String::new() }),
            };
        }
        reader.finish("snapshot").map_err(whole)?;
        let Some(Begun { mut tree, sessions, attachments, .. }) = self.begun else {
            return Err(RestoreError::Orphan { path: String::new() });
        };
        tree.acls.drop_unused();
        tree.add_reserved();
        tree.measure_quotas();
        for SessionEntry { id, timeout } in sessions {
            let attached = attachments.get(&id).copied().unwrap_or_default();
            tree.open_session(id, Session { timeout_ms: timeout, attached });
        }
        Ok(tree)
    }

    /// The next record; false at the end.
    fn next(&mut self, reader: &mut Reader) -> Result<bool, RestoreError> {
        match &mut self.begun {
            None => {
                self.begun = Some(Begun::read(self.rules, reader)?);
                Ok(true)
            }
            Some(Begun { ended: true, .. }) => Ok(false),
            Some(begun) => {
                match SnapshotNode::read(reader)? {
                    SnapshotNode::Node(path, node) => begun.tree.restore_node(&begun.acls, &path, &node)?,
                    SnapshotNode::End => begun.ended = true,
                }
                Ok(true)
            }
        }
    }
}

impl Begun {
    /// Everything before the nodes, and the root.
    fn read(rules: Rules, reader: &mut Reader) -> Result<Self, RestoreError> {
        let sessions: Vec<SessionEntry> = reader.vector(Place::new("snapshot", "sessions"))?;
        let mut table: Vec<AclEntry> = reader.vector(Place::new("snapshot", "acls"))?;
        let attachments = take_attachments(&mut table);
        let root = match SnapshotNode::read(reader)? {
            SnapshotNode::Node(path, root) if path.is_empty() => root,
            SnapshotNode::Node(path, _) => return Err(RestoreError::Orphan { path }),
            SnapshotNode::End => return Err(RestoreError::Orphan { path: String::new() }),
        };
        let mut tree = Tree::with_root(rules, bare(ROOT, &root, AclHandle::default()));
        let acls = table.into_iter().map(|entry| (entry.reference, tree.acls.restore(entry.reference, entry.acl)));
        let acls: BTreeMap<i64, AclHandle> = acls.collect();
        let root_acl = tree.known_acl(&acls, ROOT, root.acl)?;
        tree.nodes.change(NodeId(0), |node| node.acl = root_acl);
        Ok(Self { tree, sessions, attachments, acls, ended: false })
    }
}

impl Frozen {
    /// Writes it, piece by piece.
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

    /// When each session was last attached, as a list of permissions to do nothing.
    fn attachments(&self) -> Vec<Acl> {
        let known = self.sessions.iter().filter(|(_, session)| session.attached != 0);
        let entry = |(id, session): &(i64, Session)| {
            let id = format!("{id:x}:{:x}", session.attached);
            Acl { perms: Perms::NONE, id: Id { scheme: ATTACHED.into(), id } }
        };
        known.map(entry).collect()
    }
}

/// Takes the attachments out of the table, by session. What cannot be read is not known.
fn take_attachments(table: &mut Vec<AclEntry>) -> BTreeMap<i64, i64> {
    let is_ours = |entry: &mut AclEntry| entry.acl.first().is_some_and(|acl| acl.id.scheme == ATTACHED);
    let number = |text: &str| u64::from_str_radix(text, 16).ok().map(u64::cast_signed);
    let pair = |acl: Acl| acl.id.id.split_once(':').and_then(|(id, zxid)| Some((number(id)?, number(zxid)?)));
    table.extract_if(.., is_ours).flat_map(|entry| entry.acl).filter_map(pair).collect()
}

/// A node without its place. The data is copied, or a node would keep the whole snapshot in memory.
fn bare(path: &str, node: &DataNode, acl: AclHandle) -> Node {
    Node::new(path.into(), node.data.as_deref().map(Arc::from), acl, node.stat)
}

/// The scheme of entries that are attachments of sessions.
const ATTACHED: &str = "pole-attached";

/// Written at once: large enough to make calls rare, small enough to stay in a cache.
const PIECE_BYTES: usize = 64 * 1024;
