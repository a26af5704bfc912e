//! All nodes by path and by parent, with totals over all of them.
//!
//! Invariants: every node except the root is a child of its parent. The digest and the sizes always match the
//! existing nodes; they are updated with every change, so reading them costs nothing.
//!
//! Sessions, ACLs and quotas are updated by `tree`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::children::Children;
use crate::index::Index;
use crate::node::{Node, NodeId, hash};
use crate::path::ROOT;
use crate::slab::Slab;

#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    slab: Slab,
    /// Maps the hash of a path to the node's index. The path itself is only in the node.
    index: Index,
    digest: u64,
    content_bytes: u64,
    /// The number of descendants by node index. Not stored in the slab, where each update would copy nodes shared
    /// with an image.
    descendants: Vec<u32>,
    /// The total length of the data of all descendants, likewise.
    bytes_below: Vec<u64>,
}

impl Nodes {
    pub(crate) fn new(root: Node) -> Self {
        let mut nodes = Self {
            slab: Slab::default(),
            index: Index::new(),
            digest: 0,
            content_bytes: 0,
            descendants: Vec::new(),
            bytes_below: Vec::new(),
        };
        nodes.store(root);
        nodes
    }

    /// The node with this path. The empty path is the root too, as in Apache.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        self.find_hashed(hash(if path.is_empty() { ROOT } else { path }), path)
    }

    /// Like [`Self::find`], for a caller that already has the hash.
    pub(crate) fn find_hashed(&self, hash: u64, path: &str) -> Option<NodeId> {
        if path.is_empty() {
            return Some(ROOT_ID);
        }
        self.index.find(hash, |id| &*self.slab.get(*id).path == path)
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.slab.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// The sum of the digests of all nodes.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The total length of all paths and data.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Adds a node. Its path must not exist yet.
    pub(crate) fn insert(&mut self, parent: NodeId, mut node: Node) -> NodeId {
        node.parent = parent;
        node.slot = u32::try_from(self.get(parent).children.len()).expect("fewer children than numbers of nodes");
        let bytes = node.data_length() as u64;
        let id = self.store(node);
        let mut children = core::mem::replace(&mut self.slab.get_mut(parent).children, Children::new());
        children.push(id, |id| self.slab.get(id).name());
        self.slab.get_mut(parent).children = children;
        self.update_totals(parent, |descendants, below| {
            *descendants += 1;
            *below += bytes;
        });
        id
    }

    /// Removes a node, which must not have children.
    pub(crate) fn remove(&mut self, id: NodeId) -> Arc<Node> {
        let node = self.slab.remove(id);
        assert!(node.children.is_empty(), "{} has children and was to be removed", node.path);
        self.index.remove(node.path_hash, id);
        let siblings = &mut self.slab.get_mut(node.parent).children;
        if let Some(moved) = siblings.swap_remove(node.slot as usize) {
            self.slab.get_mut(moved).slot = node.slot;
        }
        self.digest = self.digest.wrapping_sub(node.digest());
        self.content_bytes -= content_bytes(&node);
        let bytes = node.data_length() as u64;
        self.update_totals(node.parent, |descendants, below| {
            *descendants -= 1;
            *below -= bytes;
        });
        node
    }

    /// The number of nodes below this one, at any depth.
    pub(crate) fn descendants(&self, id: NodeId) -> u32 {
        self.descendants[id.0 as usize]
    }

    /// The total length of the data of all nodes below this one.
    pub(crate) fn bytes_below(&self, id: NodeId) -> u64 {
        self.bytes_below[id.0 as usize]
    }

    /// Updates the totals of a node and of all its ancestors.
    fn update_totals(&mut self, from: NodeId, mut change: impl FnMut(&mut u32, &mut u64)) {
        let mut at = from;
        loop {
            change(&mut self.descendants[at.0 as usize], &mut self.bytes_below[at.0 as usize]);
            if at == ROOT_ID {
                return;
            }
            at = self.slab.get(at).parent;
        }
    }

    /// Changes a node. The path and the position in the tree must stay the same.
    pub(crate) fn change<T>(&mut self, id: NodeId, update: impl FnOnce(&mut Node) -> T) -> T {
        let node = self.slab.get_mut(id);
        let (digest, bytes, length) = (node.digest(), content_bytes(node), node.data_length() as u64);
        let result = update(node);
        self.digest = self.digest.wrapping_sub(digest).wrapping_add(node.digest());
        self.content_bytes = self.content_bytes - bytes + content_bytes(node);
        let (parent, changed) = (node.parent, node.data_length() as u64);
        if changed != length && id != ROOT_ID {
            self.update_totals(parent, |_, below| *below = *below + changed - length);
        }
        result
    }

    /// A node and all its descendants, parents before children.
    pub(crate) fn subtree(&self, top: NodeId) -> impl Iterator<Item = NodeId> {
        let mut stack = Vec::from([top]);
        core::iter::from_fn(move || {
            let id = stack.pop()?;
            stack.extend(self.get(id).children.iter());
            Some(id)
        })
    }

    /// A read-only copy that shares all nodes.
    pub(crate) fn image(&self) -> Slab {
        self.slab.image()
    }

    fn store(&mut self, node: Node) -> NodeId {
        let hash = node.path_hash;
        self.digest = self.digest.wrapping_add(node.digest());
        self.content_bytes += content_bytes(&node);
        let id = self.slab.insert(node);
        let count = self.descendants.len().max(id.0 as usize + 1);
        self.descendants.resize(count, 0);
        self.descendants[id.0 as usize] = 0;
        self.bytes_below.resize(count, 0);
        self.bytes_below[id.0 as usize] = 0;
        self.index.insert(hash, id, |id| self.slab.get(id).path_hash);
        id
    }
}

fn content_bytes(node: &Node) -> u64 {
    (node.path.len() + node.data_length()) as u64
}

const ROOT_ID: NodeId = NodeId(0);
