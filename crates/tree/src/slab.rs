//! Where nodes are kept: numbered places that are shared with frozen images until one side changes.
//!
//! Why chunks: an image of 100,000 nodes must not touch 100,000 counters. It takes one step for every [`CHUNK`] nodes,
//! and a change after it copies one chunk of pointers and one node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::node::{Node, NodeId};

/// Nodes by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Arc<Chunk>>,
    /// Places that were given up.
    free: Vec<NodeId>,
    /// The first place that was never used.
    end: u32,
}

type Chunk = [Option<Arc<Node>>; CHUNK];

impl Slab {
    /// The node at a place that is taken.
    pub(crate) fn get(&self, id: NodeId) -> &Node {
        let (chunk, place) = split(id);
        self.chunks[chunk][place].as_deref().expect("a number of a node leads to a node")
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let (chunk, place) = split(id);
        let node = Arc::make_mut(&mut self.chunks[chunk])[place].as_mut();
        Arc::make_mut(node.expect("a number of a node leads to a node"))
    }

    /// Takes a place for a node.
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            NodeId(self.end - 1)
        });
        let (chunk, place) = split(id);
        if chunk == self.chunks.len() {
            self.chunks.push(Arc::new([const { None }; CHUNK]));
        }
        Arc::make_mut(&mut self.chunks[chunk])[place] = Some(Arc::new(node));
        id
    }

    /// Gives the place up.
    pub(crate) fn remove(&mut self, id: NodeId) -> Arc<Node> {
        let (chunk, place) = split(id);
        let node = Arc::make_mut(&mut self.chunks[chunk])[place].take();
        self.free.push(id);
        node.expect("a number of a node leads to a node")
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.end as usize - self.free.len()
    }

    /// The same nodes, for reading only: without the list of free places.
    pub(crate) fn image(&self) -> Self {
        Self { chunks: self.chunks.clone(), free: Vec::new(), end: self.end }
    }

    /// All nodes, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten()).map(|node| &**node)
    }
}

fn split(id: NodeId) -> (usize, usize) {
    let id = id.0 as usize;
    (id / CHUNK, id % CHUNK)
}

/// Nodes in a chunk. Larger makes images cheaper and the first change after one dearer.
const CHUNK: usize = 64;
