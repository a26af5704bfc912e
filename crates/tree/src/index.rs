//! Nodes by the hash of their path, in a table that grows without ever stopping.
//!
//! One large hash table moves all of its entries when it grows: with two million nodes that takes hundreds of
//! milliseconds, under the lock of the tree. So there are many small ones. A table that is full is split in two by the
//! next bit of the hash, and a directory leads from the leading bits to the table (extendible hashing). The most that one
//! insertion can cost is the split of one table and, rarely, a copy of the directory.

use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::node::NodeId;

/// The index. Whoever calls knows the hash of each number: the path stands in the node.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// By the leading bits of the hash: which table.
    directory: Vec<u32>,
    /// How many bits that are.
    bits: u32,
    tables: Vec<Table>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// How many leading bits the hashes in it share.
    bits: u32,
    ids: HashTable<NodeId>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { directory: Vec::from([0]), bits: 0, tables: Vec::from([Table::default()]) }
    }

    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&NodeId) -> bool) -> Option<NodeId> {
        self.tables[self.place(hash)].ids.find(hash, is_it).copied()
    }

    /// Adds a number that is not there.
    pub(crate) fn insert(&mut self, hash: u64, id: NodeId, hash_of: impl Fn(NodeId) -> u64) {
        let mut place = self.place(hash);
        while self.tables[place].ids.len() >= TABLE_MAX && self.tables[place].bits < BITS_MAX {
            self.split(place, &hash_of);
            place = self.place(hash);
        }
        self.tables[place].ids.insert_unique(hash, id, |id| hash_of(*id));
    }

    pub(crate) fn remove(&mut self, hash: u64, id: NodeId) {
        let place = self.place(hash);
        let found = self.tables[place].ids.find_entry(hash, |other| *other == id);
        found.expect("every node is in the index").remove();
    }

    fn place(&self, hash: u64) -> usize {
        self.directory[leading(hash, self.bits)] as usize
    }

    /// Cuts a table in two by the next bit.
    fn split(&mut self, place: usize, hash_of: &impl Fn(NodeId) -> u64) {
        let bits = self.tables[place].bits + 1;
        if bits > self.bits {
            self.directory = self.directory.iter().flat_map(|table| [*table, *table]).collect();
            self.bits = bits;
        }
        let old = core::mem::take(&mut self.tables[place].ids);
        let mut halves = [HashTable::with_capacity(TABLE_MAX), HashTable::with_capacity(TABLE_MAX)];
        for id in old {
            let hash = hash_of(id);
            halves[leading(hash, bits) & 1].insert_unique(hash, id, |id| hash_of(*id));
        }
        let [lower, upper] = halves;
        let new = u32::try_from(self.tables.len()).expect("fewer tables than nodes");
        self.tables[place] = Table { bits, ids: lower };
        self.tables.push(Table { bits, ids: upper });
        for (at, table) in self.directory.iter_mut().enumerate().filter(|(_, table)| **table as usize == place) {
            if at >> (self.bits - bits) & 1 == 1 {
                *table = new;
            }
        }
    }
}

/// So many bits of the hash, as a number. Not the very first ones, by which the small tables tell their entries apart,
/// nor the last ones, by which they place them.
fn leading(hash: u64, bits: u32) -> usize {
    ((hash << SKIPPED).checked_shr(64 - bits).unwrap_or(0)) as usize
}

/// Bits that hashbrown uses from the top.
const SKIPPED: u32 = 8;

/// Entries of a small table, as many as fit into 8192 places: splitting it costs about a millisecond.
const TABLE_MAX: usize = 7 << 10;

/// A directory of four million, for more nodes than there are numbers.
const BITS_MAX: u32 = 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::hash;

    #[test]
    fn what_was_put_in_is_found_through_all_splits_until_it_is_taken_out() {
        let hash_of = |id: NodeId| hash(&alloc::format!("/node/{}", id.0));
        let mut index = Index::new();
        let count = 20 * TABLE_MAX as u32;
        (0..count).for_each(|n| index.insert(hash_of(NodeId(n)), NodeId(n), hash_of));
        assert!(index.tables.len() > 20 && index.tables.iter().all(|table| table.ids.len() <= TABLE_MAX));
        let find = |index: &Index, n: u32| index.find(hash_of(NodeId(n)), |id| *id == NodeId(n));
        (0..count).for_each(|n| assert_eq!(find(&index, n), Some(NodeId(n))));
        (0..count).step_by(2).for_each(|n| index.remove(hash_of(NodeId(n)), NodeId(n)));
        (0..count).for_each(|n| assert_eq!(find(&index, n).is_some(), n % 2 == 1));
    }
}
