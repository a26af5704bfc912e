//! Syncs under way, which make a sync followed by a read linearizable.
//!
//! A server forwards a client's sync to the leader. The leader notes its last proposed position, has a quorum confirm
//! its leadership with a round of pings started after that, and answers once the position is committed. The server
//! replies to its client when it has applied the position. Leases are not used: a leader that was paused cannot answer
//! from an outdated one.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pole_types::{Cxid, ServerId, Zxid};

use crate::ClientId;

#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSyncs {
    next: u64,
    open: BTreeMap<u64, PendingSync>,
}

#[derive(Clone, Copy, Debug)]
struct PendingSync {
    client: ClientId,
    cxid: Cxid,
    /// The leader's answer: the position that must be applied here.
    until: Option<Zxid>,
}

impl PendingSyncs {
    /// Adds a client's sync. Returns our number for it.
    pub(crate) fn add(&mut self, client: ClientId, cxid: Cxid) -> u64 {
        self.next += 1;
        self.open.insert(self.next, PendingSync { client, cxid, until: None });
        self.next
    }

    /// The syncs that no leader has answered, which must be sent again after a leader change.
    pub(crate) fn unanswered(&self) -> Vec<u64> {
        self.open.iter().filter(|(_, sync)| sync.until.is_none()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn answered(&mut self, id: u64, until: Zxid) {
        if let Some(sync) = self.open.get_mut(&id) {
            sync.until = Some(until);
        }
    }

    /// Removes and returns the syncs whose position is applied.
    pub(crate) fn done(&mut self, applied: Zxid) -> Vec<(ClientId, Cxid)> {
        let mut done = Vec::new();
        self.open.retain(|_, sync| {
            let finished = sync.until.is_some_and(|until| until <= applied);
            if finished {
                done.push((sync.client, sync.cxid));
            }
            !finished
        });
        done
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        self.open.retain(|_, sync| sync.client != client);
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }
}

/// The syncs that a leader has to answer, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confirmations {
    open: VecDeque<Confirmation>,
}

/// One sync at the leader.
#[derive(Clone, Copy, Debug)]
struct Confirmation {
    server: ServerId,
    id: u64,
    /// The last proposed position when the sync arrived.
    zxid: Zxid,
    /// The round of pings that must be confirmed; `None` until it starts.
    round: Option<u64>,
}

impl Confirmations {
    pub(crate) fn add(&mut self, server: ServerId, id: u64, zxid: Zxid) {
        self.open.push_back(Confirmation { server, id, zxid, round: None });
    }

    /// Whether a round of pings must be started.
    pub(crate) fn needs_round(&self) -> bool {
        self.open.back().is_some_and(|confirmation| confirmation.round.is_none())
    }

    /// Assigns a round that was started after all present syncs arrived.
    pub(crate) fn round_began(&mut self, round: u64) {
        for confirmation in self.open.iter_mut().rev().take_while(|confirmation| confirmation.round.is_none()) {
            confirmation.round = Some(round);
        }
    }

    /// Removes and returns the next sync whose round is confirmed and whose position is committed.
    pub(crate) fn done(&mut self, confirmed: u64, committed: Zxid) -> Option<(ServerId, u64, Zxid)> {
        let first = self.open.front()?;
        let is_done = first.round.is_some_and(|round| round <= confirmed) && first.zxid <= committed;
        is_done.then(|| self.open.pop_front()).flatten().map(|c| (c.server, c.id, c.zxid))
    }

    pub(crate) fn forget(&mut self, server: ServerId) {
        self.open.retain(|confirmation| confirmation.server != server);
    }
}
