//! One node of the tree.

use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::{Stat, StatPersisted};
use xxhash_rust::xxh3::xxh3_64;

use crate::acls::AclHandle;
use crate::owner::Owner;
use crate::path::CONFIG;

/// The place of a node in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The whole path; the only copy that the tree has of it.
    pub(crate) path: Arc<str>,
    /// Of the path.
    pub(crate) path_hash: u64,
    /// Null is not empty.
    pub(crate) data: Option<Arc<[u8]>>,
    /// Of the data, so that a change elsewhere in the node need not read it again.
    data_hash: u64,
    /// Who may do what.
    pub(crate) acl: AclHandle,
    /// The root is its own.
    pub(crate) parent: NodeId,
    /// Where it stands among the children of its parent: one is taken out without looking for it.
    pub(crate) slot: u32,
    /// In no order.
    pub(crate) children: Vec<NodeId>,
    /// As on disk: `cversion` counts creates only.
    pub(crate) stat: StatPersisted,
}

impl Node {
    /// Without children, in no tree yet.
    pub(crate) fn new(path: Arc<str>, data: Option<Arc<[u8]>>, acl: AclHandle, stat: StatPersisted) -> Self {
        let (path_hash, data_hash) = (hash(&path), hash_of_data(data.as_deref()));
        Self { path, path_hash, data, data_hash, acl, parent: NodeId(0), slot: 0, children: Vec::new(), stat }
    }

    /// Replaces the data.
    pub(crate) fn set_data(&mut self, data: Option<Arc<[u8]>>) {
        self.data_hash = hash_of_data(data.as_deref());
        self.data = data;
    }

    /// Whom it belongs to.
    pub(crate) fn owner(&self) -> Owner {
        Owner::of(self.stat.ephemeral_owner)
    }

    /// The last name of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Null has no length.
    pub(crate) fn data_length(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }

    /// As clients see it.
    pub(crate) fn shown(&self) -> Stat {
        let children = count(self.children.len());
        Stat {
            czxid: self.stat.czxid,
            mzxid: self.stat.mzxid,
            ctime: self.stat.ctime,
            mtime: self.stat.mtime,
            version: self.stat.version,
            // Creates and deletes: each create was followed by a delete but for the children that are here.
            cversion: self.stat.cversion.wrapping_mul(2).wrapping_sub(children),
            aversion: self.stat.aversion,
            ephemeral_owner: self.owner().shown(),
            data_length: count(self.data_length()),
            num_children: children,
            pzxid: self.stat.pzxid,
        }
    }

    /// Its part of the digest. The configuration is each server's own and has none.
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

/// Of a path: where it stands in every table.
pub(crate) fn hash(path: &str) -> u64 {
    xxh3_64(path.as_bytes())
}

/// Of some numbers, the same on every machine.
pub(crate) fn hash_of_words<const N: usize>(words: [u64; N]) -> u64 {
    xxh3_64(words.map(u64::to_le_bytes).as_flattened())
}

/// A count in a record. More than fits into an int would not fit into memory either.
pub(crate) fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn hash_of_data(data: Option<&[u8]>) -> u64 {
    data.map_or(HASH_OF_NULL, xxh3_64)
}

/// Any number that is not the hash of empty data.
const HASH_OF_NULL: u64 = 0x6e75_6c6c;
