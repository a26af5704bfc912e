//! Storage of nodes by index, shared with frozen images until one side changes.
//!
//! Nodes are grouped into chunks, because an image of 100,000 nodes must not touch 100,000 reference counts. Taking
//! an image costs one step for every [`CHUNK`] nodes, and a later change copies one chunk of pointers and one node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::node::{Node, NodeId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Arc<Chunk>>,
    /// Indices of removed nodes, for reuse.
    free: Vec<NodeId>,
    /// The first index that was never used.
    end: u32,
}

type Chunk = [Option<Arc<Node>>; CHUNK];

impl Slab {
    /// The node at an index that is in use.
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        let (chunk, slot) = split(id);
        self.chunks[chunk][slot].as_deref().expect("a node id refers to a node")
    }

    /// Like [`Self::get`], for modification.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let (chunk, slot) = split(id);
        let node = Arc::make_mut(&mut self.chunks[chunk])[slot].as_mut();
        Arc::make_mut(node.expect("a node id refers to a node"))
    }

    /// Stores a node at a free index.
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            NodeId(self.end - 1)
        });
        let (chunk, slot) = split(id);
        if chunk == self.chunks.len() {
            self.chunks.push(Arc::new([const { None }; CHUNK]));
        }
        Arc::make_mut(&mut self.chunks[chunk])[slot] = Some(Arc::new(node));
        id
    }

    /// Removes a node and frees its index.
    pub(crate) fn remove(&mut self, id: NodeId) -> Arc<Node> {
        let (chunk, slot) = split(id);
        let node = Arc::make_mut(&mut self.chunks[chunk])[slot].take();
        self.free.push(id);
        node.expect("a node id refers to a node")
    }

    pub(crate) fn len(&self) -> usize {
        self.end as usize - self.free.len()
    }

    /// A read-only copy of the same nodes, without the free list.
    pub(crate) fn image(&self) -> Self {
        Self { chunks: self.chunks.clone(), free: Vec::new(), end: self.end }
    }

    /// All nodes, unordered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten()).map(|node| &**node)
    }
}

fn split(id: NodeId) -> (usize, usize) {
    let id = id.0 as usize;
    (id / CHUNK, id % CHUNK)
}

/// Nodes in a chunk. A larger chunk makes images cheaper and the first change after an image more expensive.
const CHUNK: usize = 64;
