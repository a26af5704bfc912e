//! What a transaction did to which path: what watches are told.

use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::EventType;

/// The changes of one or more transactions, in order. Reused from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    list: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: EventType,
    /// To which node. For a change of children, their parent.
    pub path: Arc<str>,
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

    pub(crate) fn push(&mut self, kind: EventType, path: &Arc<str>) {
        self.list.push(Change { kind, path: Arc::clone(path) });
    }
}

impl Change {
    /// Whether it happened to the node itself and not to its children.
    pub(crate) fn is_about_itself(&self) -> bool {
        self.kind != EventType::NodeChildrenChanged
    }
}
