//! A hash index from paths to nodes that grows without long pauses.
//!
//! One large hash table moves all entries when it grows. With two million nodes that takes hundreds of milliseconds,
//! under the lock of the tree. The index therefore consists of many small tables (extendible hashing). A full table
//! is split in two by the next bit of the hash, and a directory maps the leading bits to tables. One insertion costs
//! at most the split of one table and, rarely, a copy of the directory.

use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::node::NodeId;

/// The index. The caller supplies the hash of each id, because the path is stored in the node.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// Maps the leading bits of a hash to an index into `tables`.
    directory: Vec<u32>,
    /// The number of leading bits that `directory` uses.
    bits: u32,
    tables: Vec<Table>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// The number of leading bits that all hashes in the table share.
    bits: u32,
    ids: HashTable<NodeId>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { directory: Vec::from([0]), bits: 0, tables: Vec::from([Table::default()]) }
    }

    pub(crate) fn find(&self, hash: u64, matches: impl FnMut(&NodeId) -> bool) -> Option<NodeId> {
        self.tables[self.table_index(hash)].ids.find(hash, matches).copied()
    }

    /// Adds an id that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, id: NodeId, hash_of: impl Fn(NodeId) -> u64) {
        let mut index = self.table_index(hash);
        while self.tables[index].ids.len() >= TABLE_MAX && self.tables[index].bits < BITS_MAX {
            self.split(index, &hash_of);
            index = self.table_index(hash);
        }
        self.tables[index].ids.insert_unique(hash, id, |id| hash_of(*id));
    }

    pub(crate) fn remove(&mut self, hash: u64, id: NodeId) {
        let index = self.table_index(hash);
        let found = self.tables[index].ids.find_entry(hash, |other| *other == id);
        found.expect("every node is in the index").remove();
    }

    fn table_index(&self, hash: u64) -> usize {
        self.directory[leading(hash, self.bits)] as usize
    }

    /// Splits a table in two by the next bit.
    fn split(&mut self, index: usize, hash_of: &impl Fn(NodeId) -> u64) {
        let bits = self.tables[index].bits + 1;
        if bits > self.bits {
            self.directory = self.directory.iter().flat_map(|table| [*table, *table]).collect();
            self.bits = bits;
        }
        let old = core::mem::take(&mut self.tables[index].ids);
        let mut halves = [HashTable::with_capacity(TABLE_MAX), HashTable::with_capacity(TABLE_MAX)];
        for id in old {
            let hash = hash_of(id);
            halves[leading(hash, bits) & 1].insert_unique(hash, id, |id| hash_of(*id));
        }
        let [lower, upper] = halves;
        let new = u32::try_from(self.tables.len()).expect("fewer tables than nodes");
        self.tables[index] = Table { bits, ids: lower };
        self.tables.push(Table { bits, ids: upper });
        for (at, table) in self.directory.iter_mut().enumerate().filter(|(_, table)| **table as usize == index) {
            if at >> (self.bits - bits) & 1 == 1 {
                *table = new;
            }
        }
    }
}

/// The first `bits` bits of the hash after [`SKIPPED`], as a number. hashbrown uses the very first bits to
/// distinguish entries of a table and the last bits to place them, so this function uses neither.
fn leading(hash: u64, bits: u32) -> usize {
    ((hash << SKIPPED).checked_shr(64 - bits).unwrap_or(0)) as usize
}

/// The leading bits that hashbrown uses itself.
const SKIPPED: u32 = 8;

/// The entries of a small table, as many as fit into 8192 slots. Splitting it takes about a millisecond.
const TABLE_MAX: usize = 7 << 10;

/// Allows a directory of four million tables, enough for more nodes than there are ids.
const BITS_MAX: u32 = 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::hash;

    #[test]
    fn entries_survive_splits_until_they_are_removed() {
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
