//! The children of one node, in slots.
//!
//! A node with many children also keeps their names as the bytes of a reply. Otherwise a list would have to visit every
//! child, and a list of a million children would hold the lock of the tree for a quarter of a second.
//!
//! Slots are grouped into blocks, for two reasons: a removal moves names only within a block, and a change of a node that
//! is shared with an image copies one block and not the whole list.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::Writer;

use crate::node::NodeId;

/// The children of a node. The order is arbitrary: a removal moves the last child to the slot of the removed one.
#[derive(Clone, Debug)]
pub(crate) enum Children {
    /// At most [`FEW_MAX`], without names.
    Few(Vec<NodeId>),
    /// Boxed, because most nodes have few.
    Many(Box<Blocks>),
}

/// All blocks but the last one are full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Vec<Arc<Block>>);

#[derive(Clone, Debug, Default)]
struct Block {
    ids: Vec<NodeId>,
    /// The names in the same order, each as a string of jute.
    names: Vec<u8>,
}

impl Children {
    pub(crate) fn new() -> Self {
        Self::Few(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(ids) => ids.len(),
            Self::Many(blocks) => blocks.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeId> {
        let (few, blocks) = match self {
            Self::Few(ids) => (&ids[..], &[][..]),
            Self::Many(blocks) => (&[][..], &blocks.0[..]),
        };
        few.iter().chain(blocks.iter().flat_map(|block| &block.ids)).copied()
    }

    /// Adds a child in the next slot. `name_of` returns the name of any child, the new one included.
    pub(crate) fn push<'a>(&mut self, id: NodeId, name_of: impl Fn(NodeId) -> &'a str) {
        match self {
            Self::Few(ids) if ids.len() < FEW_MAX => ids.push(id),
            Self::Few(ids) => {
                let mut blocks = Blocks::default();
                ids.iter().chain([&id]).for_each(|id| blocks.push(*id, name_of(*id)));
                *self = Self::Many(Box::new(blocks));
            }
            Self::Many(blocks) => blocks.push(id, name_of(id)),
        }
    }

    /// Removes the child in a slot. Returns the child that is in this slot now, if any.
    pub(crate) fn swap_remove(&mut self, slot: usize) -> Option<NodeId> {
        match self {
            Self::Few(ids) => {
                ids.swap_remove(slot);
                ids.get(slot).copied()
            }
            Self::Many(blocks) => {
                let moved = blocks.swap_remove(slot);
                if blocks.len() == 0 {
                    *self = Self::new();
                }
                moved
            }
        }
    }

    /// Encodes the names like a vector of strings, until the writer is over its limit.
    pub(crate) fn write_names<'a>(&self, reply: &mut Writer, name_of: impl Fn(NodeId) -> &'a str) {
        reply.length(self.len());
        match self {
            Self::Few(ids) => ids.iter().for_each(|id| reply.string(name_of(*id))),
            Self::Many(blocks) => {
                // A list that does not fit is not begun, and one that does is copied once.
                let bytes = blocks.0.iter().map(|block| block.names.len()).sum();
                if reply.reserve(bytes) {
                    blocks.0.iter().for_each(|block| reply.raw(&block.names));
                }
            }
        }
    }
}

impl Blocks {
    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * BLOCK + last.ids.len())
    }

    fn push(&mut self, id: NodeId, name: &str) {
        if self.0.last().is_none_or(|last| last.ids.len() == BLOCK) {
            self.0.push(Arc::default());
        }
        let last = Arc::make_mut(self.0.last_mut().expect("a block was added"));
        last.ids.push(id);
        put_name(&mut last.names, name.as_bytes());
    }

    fn swap_remove(&mut self, slot: usize) -> Option<NodeId> {
        let last_slot = self.len() - 1;
        let last = Arc::make_mut(self.0.last_mut().expect("a child is in a block"));
        let id = last.ids.pop().expect("a block is not empty");
        let at = last.start_of(last.ids.len());
        let name = last.names.split_off(at);
        if last.ids.is_empty() {
            self.0.pop();
        }
        if slot == last_slot {
            return None;
        }
        let block = Arc::make_mut(&mut self.0[slot / BLOCK]);
        let within = slot % BLOCK;
        block.ids[within] = id;
        let start = block.start_of(within);
        let end = start + LENGTH_BYTES + block.name_length(start);
        block.names.splice(start..end, name);
        Some(id)
    }
}

impl Block {
    /// The position of a name.
    fn start_of(&self, within: usize) -> usize {
        (0..within).fold(0, |at, _| at + LENGTH_BYTES + self.name_length(at))
    }

    /// The length of the name at a position.
    fn name_length(&self, at: usize) -> usize {
        let length = self.names[at..].first_chunk().expect("a name has a length");
        u32::from_be_bytes(*length) as usize
    }
}

fn put_name(names: &mut Vec<u8>, name: &[u8]) {
    let length = u32::try_from(name.len()).expect("a name is shorter than its path");
    names.extend_from_slice(&length.to_be_bytes());
    names.extend_from_slice(name);
}

const LENGTH_BYTES: usize = size_of::<u32>();

/// Visiting this many children takes well below a millisecond.
const FEW_MAX: usize = 1 << 10;

/// Children in a block. A larger block makes lists faster and removals slower.
const BLOCK: usize = 128;

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{format, vec};

    use proptest::collection::vec as vec_of;
    use proptest::prelude::*;

    use super::*;

    /// The list of names as one vector of strings, the way that a client reads it.
    fn encoded(names: &[String]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.length(names.len());
        names.iter().for_each(|name| writer.string(name));
        writer.into_bytes().to_vec()
    }

    fn written(children: &Children, names: &[String]) -> Vec<u8> {
        let mut writer = Writer::new();
        children.write_names(&mut writer, |id| &names[id.0 as usize]);
        writer.into_bytes().to_vec()
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{}{n}", "é".repeat(n % 7))).collect()
    }

    #[test]
    fn a_list_over_the_limit_of_its_reply_is_not_written_to_the_end() {
        let all = names(5 * FEW_MAX);
        let mut children = Children::new();
        (0..all.len()).for_each(|n| children.push(NodeId(n as u32), |id| &all[id.0 as usize]));
        let mut writer = Writer::new().limited(1_000);
        children.write_names(&mut writer, |id| &all[id.0 as usize]);
        assert!(writer.is_over_limit() && writer.len() <= 1_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Many children behave like a vector, whatever was removed, and an image keeps what it had.
        #[test]
        fn children_are_a_vector_with_their_names(
            first in FEW_MAX - 2..FEW_MAX + 3 * BLOCK,
            steps in vec_of((any::<prop::sample::Index>(), 0..3_u8), 0..600),
        ) {
            let all = names(first + steps.len());
            let name_of = |id: NodeId| all[id.0 as usize].as_str();
            let (mut children, mut model, mut image) = (Children::new(), vec![], None);
            let mut fresh = 0..all.len() as u32;
            for id in fresh.by_ref().take(first).map(NodeId) {
                children.push(id, name_of);
                model.push(id);
            }
            for (at, kind) in steps {
                if kind == 0 {
                    let id = NodeId(fresh.next().expect("enough names"));
                    children.push(id, name_of);
                    model.push(id);
                } else if !model.is_empty() {
                    let slot = at.index(model.len());
                    model.swap_remove(slot);
                    prop_assert_eq!(children.swap_remove(slot), model.get(slot).copied());
                }
                image.get_or_insert_with(|| (children.clone(), model.clone()));
            }
            for (children, model) in [(children, model)].into_iter().chain(image) {
                prop_assert_eq!(children.len(), model.len());
                prop_assert_eq!(children.iter().collect::<Vec<_>>(), &model[..]);
                let of_model: Vec<String> = model.iter().map(|id| all[id.0 as usize].clone()).collect();
                prop_assert_eq!(written(&children, &all), encoded(&of_model));
            }
        }
    }
}
