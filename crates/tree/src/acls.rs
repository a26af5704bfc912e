//! Interning of ACLs: each distinct ACL is stored once, and nodes hold handles to it.
//!
//! A tree of a hundred thousand nodes has only a handful of distinct ACLs.
//!
//! Invariants: a handle carries the number by which a snapshot refers to the ACL; an ACL stays in the table as long
//! as a node uses it.
//!
//! Permission checks are in `access`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashTable;
use pole_jute::{Acl, Id, OPEN_ACL_REFERENCE, Perms, Value, Writer};
use xxhash_rust::xxh3::xxh3_64;

use crate::grants::{Grants, Identity};

/// The ACL of a node. None means open to everyone; such an ACL is not in the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct AclHandle(Option<Arc<Shared>>);

struct Shared {
    /// The number of the list in snapshots.
    reference: i64,
    /// The hash of the list without the reference: references may differ between servers that hold the same tree.
    hash: u64,
    /// The permissions of everyone. Most checks need nothing else.
    world: Perms,
    grants: Grants,
    list: Vec<Acl>,
}

impl AclHandle {
    /// A handle for a node that is prepared and not yet in the tree.
    pub(crate) fn unnumbered(list: Vec<Acl>) -> Self {
        let hash = hash_of(&list);
        Self::new(0, hash, list)
    }

    fn new(reference: i64, hash: u64, list: Vec<Acl>) -> Self {
        if list.is_empty() {
            return Self(None);
        }
        let everyone = list.iter().filter(|acl| is_world(&acl.id));
        let world = everyone.fold(Perms::NONE, |all, acl| all | acl.perms);
        let grants = Grants::new(&list);
        Self(Some(Arc::new(Shared { reference, hash, world, grants, list })))
    }

    /// The number by which a snapshot refers to the ACL.
    pub(crate) fn reference(&self) -> i64 {
        self.0.as_ref().map_or(OPEN_ACL_REFERENCE, |shared| shared.reference)
    }

    /// The hash that goes into the digest.
    pub(crate) fn hash(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.hash)
    }

    /// The permissions of everyone.
    pub(crate) fn world(&self) -> Perms {
        self.0.as_ref().map_or(Perms::ALL, |shared| shared.world)
    }

    /// The permissions that an identity has, other than those of everyone.
    pub(crate) fn granted(&self, identity: &Identity) -> Perms {
        self.0.as_ref().map_or(Perms::NONE, |shared| shared.grants.of(identity, &shared.list))
    }

    /// The entries; none if the ACL is open.
    pub(crate) fn list(&self) -> Option<&[Acl]> {
        self.0.as_ref().map(|shared| &shared.list[..])
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.reference, self.list)
    }
}

/// All ACLs in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acls {
    table: HashTable<Use>,
    /// The highest reference ever assigned.
    last_reference: i64,
}

#[derive(Clone, Debug)]
struct Use {
    handle: AclHandle,
    /// The number of nodes that use it.
    nodes: u64,
}

impl Acls {
    /// The handle of a list; counts one more node.
    pub(crate) fn intern(&mut self, list: &[Acl]) -> AclHandle {
        let hash = hash_of(list);
        if let Some(found) = self.table.find_mut(hash, |used| used.handle.list() == Some(list)) {
            found.nodes += 1;
            return found.handle.clone();
        }
        self.last_reference += 1;
        self.insert(self.last_reference, hash, list.to_vec(), 1)
    }

    /// Adds a list from a snapshot, not used by any node yet. Equal lists share one handle.
    pub(crate) fn restore(&mut self, reference: i64, list: Vec<Acl>) -> AclHandle {
        self.last_reference = self.last_reference.max(reference);
        let hash = hash_of(&list);
        match self.table.find(hash, |used| used.handle.list() == Some(&list[..])) {
            Some(found) => found.handle.clone(),
            None => self.insert(reference, hash, list, 0),
        }
    }

    fn insert(&mut self, reference: i64, hash: u64, list: Vec<Acl>, nodes: u64) -> AclHandle {
        let handle = AclHandle::new(reference, hash, list);
        if handle.0.is_some() {
            self.table.insert_unique(hash, Use { handle: handle.clone(), nodes }, |used| used.handle.hash());
        }
        handle
    }

    /// Counts one more node.
    pub(crate) fn retain(&mut self, handle: &AclHandle) {
        if let Some(used) = self.table.find_mut(handle.hash(), |used| used.handle.reference() == handle.reference()) {
            used.nodes += 1;
        }
    }

    /// Counts one node less.
    pub(crate) fn release(&mut self, handle: &AclHandle) {
        let same = |used: &Use| used.handle.reference() == handle.reference();
        if let Ok(mut entry) = self.table.find_entry(handle.hash(), same) {
            entry.get_mut().nodes -= 1;
            if entry.get().nodes == 0 {
                entry.remove();
            }
        }
    }

    /// Removes the lists of a snapshot that no node uses.
    pub(crate) fn drop_unused(&mut self) {
        self.table.retain(|used| used.nodes > 0);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Whether the identity stands for everyone.
pub(crate) fn is_world(id: &Id) -> bool {
    id.scheme == "world" && id.id == "anyone"
}

fn hash_of(list: &[Acl]) -> u64 {
    let mut writer = Writer::new();
    list.iter().for_each(|acl| acl.put(&mut writer));
    xxh3_64(&writer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn list(id: &str) -> Vec<Acl> {
        vec![Acl { perms: Perms::READ, id: Id { scheme: "digest".into(), id: id.into() } }]
    }

    #[test]
    fn a_list_is_kept_as_long_as_a_node_uses_it() {
        let mut acls = Acls::default();
        let first = acls.intern(&list("a"));
        let second = acls.intern(&list("a"));
        assert_eq!((first.reference(), second.reference()), (1, 1));
        acls.release(&first);
        assert_eq!(acls.len(), 1);
        acls.release(&second);
        assert_eq!(acls.len(), 0);
        assert_eq!(acls.intern(&list("a")).reference(), 2, "a reference is never given twice");
    }

    #[test]
    fn an_open_acl_is_never_in_the_table() {
        let mut acls = Acls::default();
        let open = acls.intern(&[]);
        assert_eq!((open.reference(), open.world(), acls.len()), (OPEN_ACL_REFERENCE, Perms::ALL, 0));
    }

    #[test]
    fn an_unused_list_of_a_snapshot_is_dropped() {
        let mut acls = Acls::default();
        let kept = acls.restore(3, list("a"));
        acls.restore(9, list("b"));
        acls.retain(&kept);
        acls.drop_unused();
        assert_eq!(acls.len(), 1);
        assert_eq!(acls.intern(&list("c")).reference(), 10);
    }
}
