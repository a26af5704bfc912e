//! All nodes: by path, by parent, and what is counted over all of them.
//!
//! Holds: every node but the root is a child of its parent; the digest and the sizes are those of the nodes that are
//! there, kept up to date with every change, so that reading them costs nothing.
//! Not here: what a node means to sessions, ACLs and quotas (`tree`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::index::Index;
use crate::node::{Node, NodeId, hash};
use crate::path::ROOT;
use crate::slab::Slab;

/// The nodes of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    slab: Slab,
    /// By the hash of the path. Only numbers: the path stands in the node.
    index: Index,
    digest: u64,
    /// Paths and data, in bytes.
    content_bytes: u64,
}

impl Nodes {
    /// With a root.
    pub(crate) fn new(root: Node) -> Self {
        let mut nodes = Self { slab: Slab::default(), index: Index::new(), digest: 0, content_bytes: 0 };
        nodes.place(root);
        nodes
    }

    /// The node with this path. Empty is the root too, as in Apache.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        self.find_hashed(hash(if path.is_empty() { ROOT } else { path }), path)
    }

    /// The same, for whoever has the hash already.
    pub(crate) fn find_hashed(&self, hash: u64, path: &str) -> Option<NodeId> {
        if path.is_empty() {
            return Some(NodeId(0));
        }
        self.index.find(hash, |id| &*self.slab.get(*id).path == path)
    }

    /// The node with this number.
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.slab.get(id)
    }

    /// How many there are, the root included.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The sum over all nodes.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The sum of the lengths of paths and data.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Adds a node whose path is not there.
    pub(crate) fn insert(&mut self, parent: NodeId, mut node: Node) -> NodeId {
        node.parent = parent;
        node.slot = u32::try_from(self.get(parent).children.len()).expect("fewer children than numbers of nodes");
        let id = self.place(node);
        self.slab.get_mut(parent).children.push(id);
        id
    }

    /// Takes a node out that has no children.
    pub(crate) fn remove(&mut self, id: NodeId) -> Arc<Node> {
        let node = self.slab.remove(id);
        assert!(node.children.is_empty(), "{} has children and was to be removed", node.path);
        self.index.remove(node.path_hash, id);
        let siblings = &mut self.slab.get_mut(node.parent).children;
        siblings.swap_remove(node.slot as usize);
        if let Some(moved) = siblings.get(node.slot as usize).copied() {
            self.slab.get_mut(moved).slot = node.slot;
        }
        self.digest = self.digest.wrapping_sub(node.digest());
        self.content_bytes -= content_bytes(&node);
        node
    }

    /// Changes a node; not its path, and not its place in the tree.
    pub(crate) fn change<T>(&mut self, id: NodeId, how: impl FnOnce(&mut Node) -> T) -> T {
        let node = self.slab.get_mut(id);
        let (digest, bytes) = (node.digest(), content_bytes(node));
        let result = how(node);
        self.digest = self.digest.wrapping_sub(digest).wrapping_add(node.digest());
        self.content_bytes = self.content_bytes - bytes + content_bytes(node);
        result
    }

    /// Everything below a node, parents before children; and the node itself, first.
    pub(crate) fn below(&self, top: NodeId) -> impl Iterator<Item = NodeId> {
        let mut stack = Vec::from([top]);
        core::iter::from_fn(move || {
            let id = stack.pop()?;
            stack.extend(&self.get(id).children);
            Some(id)
        })
    }

    /// A copy that shares everything, for reading.
    pub(crate) fn image(&self) -> Slab {
        self.slab.image()
    }

    fn place(&mut self, node: Node) -> NodeId {
        let hash = node.path_hash;
        self.digest = self.digest.wrapping_add(node.digest());
        self.content_bytes += content_bytes(&node);
        let id = self.slab.insert(node);
        self.index.insert(hash, id, |id| self.slab.get(id).path_hash);
        id
    }
}

fn content_bytes(node: &Node) -> u64 {
    (node.path.len() + node.data_length()) as u64
}
