//! One node of the tree.

use alloc::sync::Arc;

use pole_jute::{Stat, StatPersisted};
use xxhash_rust::xxh3::xxh3_64;

use crate::acls::AclHandle;
use crate::children::Children;
use crate::owner::Owner;
use crate::path::CONFIG;

/// The index of a node in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The full path. The tree has no other copy of it.
    pub(crate) path: Arc<str>,
    pub(crate) path_hash: u64,
    /// Null is different from empty.
    pub(crate) data: Option<Arc<[u8]>>,
    /// Cached, so that a change of other fields need not hash the data again.
    data_hash: u64,
    pub(crate) acl: AclHandle,
    /// The root is its own parent.
    pub(crate) parent: NodeId,
    /// The slot in `parent.children`, so that removal needs no search.
    pub(crate) slot: u32,
    pub(crate) children: Children,
    /// As stored on disk: `cversion` counts creates only.
    pub(crate) stat: StatPersisted,
}

impl Node {
    /// A node without children that is not in a tree yet.
    pub(crate) fn new(path: Arc<str>, data: Option<Arc<[u8]>>, acl: AclHandle, stat: StatPersisted) -> Self {
        let (path_hash, data_hash) = (hash(&path), hash_of_data(data.as_deref()));
        Self { path, path_hash, data, data_hash, acl, parent: NodeId(0), slot: 0, children: Children::new(), stat }
    }

    pub(crate) fn set_data(&mut self, data: Option<Arc<[u8]>>) {
        self.data_hash = hash_of_data(data.as_deref());
        self.data = data;
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner::from_number(self.stat.ephemeral_owner)
    }

    /// The last component of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The length of the data; 0 for null.
    pub(crate) fn data_length(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }

    /// The stat as clients see it.
    pub(crate) fn client_stat(&self) -> Stat {
        let children = count(self.children.len());
        Stat {
            czxid: self.stat.czxid,
            mzxid: self.stat.mzxid,
            ctime: self.stat.ctime,
            mtime: self.stat.mtime,
            version: self.stat.version,
            // The stat on disk counts creates; clients see creates plus deletes. Deletes are creates minus current
            // children.
            cversion: self.stat.cversion.wrapping_mul(2).wrapping_sub(children),
            aversion: self.stat.aversion,
            ephemeral_owner: self.owner().client_value(),
            data_length: count(self.data_length()),
            num_children: children,
            pzxid: self.stat.pzxid,
        }
    }

    /// The contribution to the tree's digest. The configuration node is specific to each server and contributes
    /// nothing.
    pub(crate) fn digest(&self) -> u64 {
        if &*self.path == CONFIG {
            return 0;
        }
        let stat = &self.stat;
        let words = [
            self.path_hash,
            self.data_hash,
            self.acl.hash(),
            stat.czxid.cast_unsigned(),
            stat.mzxid.cast_unsigned(),
            stat.ctime.cast_unsigned(),
            stat.mtime.cast_unsigned(),
            u64::from(stat.version.cast_unsigned()) << 32 | u64::from(stat.cversion.cast_unsigned()),
            u64::from(stat.aversion.cast_unsigned()),
            stat.ephemeral_owner.cast_unsigned(),
            stat.pzxid.cast_unsigned(),
        ];
        hash_of_words(words)
    }
}

/// The hash of a path, as used by all tables.
pub(crate) fn hash(path: &str) -> u64 {
    xxh3_64(path.as_bytes())
}

/// The hash of some integers, the same on every machine.
pub(crate) fn hash_of_words<const N: usize>(words: [u64; N]) -> u64 {
    xxh3_64(words.map(u64::to_le_bytes).as_flattened())
}

/// A count as a field of a record. A count that does not fit would not fit into memory either.
pub(crate) fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn hash_of_data(data: Option<&[u8]>) -> u64 {
    data.map_or(HASH_OF_NULL, xxh3_64)
}

/// Any number except the hash of empty data.
const HASH_OF_NULL: u64 = 0x6e75_6c6c;
