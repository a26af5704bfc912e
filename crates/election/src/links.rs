//! What is known of the election links: never up, up, or closed since.
//!
//! In: links that open and close. Out: whose silence needs no waiting for.
//! Why: a closed link is the fastest sign of a crash; a link that never opened is no sign of anything, least of all
//! when the ensemble starts.
//! Source: PAPER.md, section 2, "count j" (b).

use alloc::collections::BTreeMap;

use crate::ServerId;

/// The links by peer; one that is absent was never up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Links(BTreeMap<ServerId, bool>);

impl Links {
    pub(crate) fn up(&mut self, peer: ServerId) {
        self.0.insert(peer, true);
    }

    /// Says whether this is news. A link that was never up stays so.
    pub(crate) fn down(&mut self, peer: ServerId) -> bool {
        self.0.get_mut(&peer).is_some_and(|up| core::mem::replace(up, false))
    }

    /// Whether the link was up and has closed since.
    pub(crate) fn is_closed(&self, peer: ServerId) -> bool {
        self.0.get(&peer) == Some(&false)
    }
}
