//! What a transaction did to which path: what watches are told.

use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::EventType;

use crate::Rules;
use crate::acls::AclHandle;

/// The changes of one or more transactions, in order. Reused from one to the next.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Of the tree that changed.
    pub(crate) rules: Rules,
}

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub kind: EventType,
    /// To which node. For a change of children, their parent.
    pub path: Arc<str>,
    /// Who may read the node: a watch from above tells nobody else of it.
    pub(crate) acl: AclHandle,
}

impl Changes {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// None again; the room is kept.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// In the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.list.iter()
    }

    /// Something happened to a node.
    pub(crate) fn push(&mut self, kind: EventType, path: &Arc<str>, acl: &AclHandle) {
        self.list.push(Change { kind, path: Arc::clone(path), acl: acl.clone() });
    }

    /// A child came or went. Who watches that has named the parent, so no ACL is asked.
    pub(crate) fn push_children(&mut self, parent: &Arc<str>) {
        self.push(EventType::NodeChildrenChanged, parent, &AclHandle::default());
    }
}

impl Change {
    /// Whether it happened to the node itself and not to its children.
    pub(crate) fn is_about_itself(&self) -> bool {
        self.kind != EventType::NodeChildrenChanged
    }
}
