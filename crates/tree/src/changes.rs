//! The changes that transactions made, from which watch events are derived.

use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::EventType;

use crate::Rules;
use crate::acls::AclHandle;

/// The changes of one or more transactions, in order. Reused to avoid reallocation.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// The rules of the tree that changed.
    pub(crate) rules: Rules,
}

#[derive(Clone, Debug)]
pub struct Change {
    pub kind: EventType,
    /// The changed node. For a change of children, their parent.
    pub path: Arc<str>,
    /// The ACL of the node: a recursive watch is notified only if its connection may read the node.
    pub(crate) acl: AclHandle,
}

impl Changes {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all changes and keeps the capacity.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.list.iter()
    }

    pub(crate) fn push(&mut self, kind: EventType, path: &Arc<str>, acl: &AclHandle) {
        self.list.push(Change { kind, path: Arc::clone(path), acl: acl.clone() });
    }

    /// Records a created or deleted child. A watch on this event names the parent itself, so no ACL is checked.
    pub(crate) fn push_children(&mut self, parent: &Arc<str>) {
        self.push(EventType::NodeChildrenChanged, parent, &AclHandle::default());
    }
}

impl Change {
    /// Whether the node itself changed, as opposed to its children.
    pub(crate) fn is_about_node(&self) -> bool {
        self.kind != EventType::NodeChildrenChanged
    }
}
