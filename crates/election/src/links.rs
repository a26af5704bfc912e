//! State of the election links: never up, up, or closed since.
//!
//! A closed link is the fastest sign of a crash, so its peer is not waited for. A link that was never up says nothing,
//! least of all while the ensemble starts.

use alloc::collections::BTreeMap;

use pole_types::ServerId;

/// The links by peer, true while up. A peer that is absent was never up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Links(BTreeMap<ServerId, bool>);

impl Links {
    pub(crate) fn up(&mut self, peer: ServerId) {
        self.0.insert(peer, true);
    }

    /// Marks the link as closed. Returns whether it was up before; a link that was never up stays that way.
    pub(crate) fn down(&mut self, peer: ServerId) -> bool {
        self.0.get_mut(&peer).is_some_and(|up| core::mem::replace(up, false))
    }

    pub(crate) fn is_up(&self, peer: ServerId) -> bool {
        self.0.get(&peer) == Some(&true)
    }

    /// Whether the link was up and has closed since.
    pub(crate) fn is_closed(&self, peer: ServerId) -> bool {
        self.0.get(&peer) == Some(&false)
    }
}
