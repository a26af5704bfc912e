//! Syncs under way: what makes sync + read linearizable.
//!
//! A server asks the leader; the leader notes its last proposed position, has a quorum confirm in a round begun after
//! the question that it still leads, and answers once that position is committed; the server answers its client
//! when it has applied it. No leases: a paused leader cannot answer from an old one.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pole_election::{ServerId, Zxid};
use pole_zab::Cxid;

use crate::ClientId;

/// The syncs that our own clients wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    next: u64,
    open: BTreeMap<u64, Ask>,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    client: ClientId,
    cxid: Cxid,
    /// The leader's answer: what we must have applied.
    until: Option<Zxid>,
}

impl Asked {
    /// A client asks; returns our number for it.
    pub(crate) fn ask(&mut self, client: ClientId, cxid: Cxid) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Ask { client, cxid, until: None });
        self.next
    }

    /// Those that no leader has answered: to be asked again after a leader change.
    pub(crate) fn unanswered(&self) -> Vec<u64> {
        self.open.iter().filter(|(_, ask)| ask.until.is_none()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn answered(&mut self, id: u64, until: Zxid) {
        if let Some(ask) = self.open.get_mut(&id) {
            ask.until = Some(until);
        }
    }

    /// Takes out those whose position is applied.
    pub(crate) fn done(&mut self, applied: Zxid) -> Vec<(ClientId, Cxid)> {
        let mut done = Vec::new();
        self.open.retain(|_, ask| {
            let finished = ask.until.is_some_and(|until| until <= applied);
            if finished {
                done.push((ask.client, ask.cxid));
            }
            !finished
        });
        done
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        self.open.retain(|_, ask| ask.client != client);
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }
}

/// The syncs that a leader has been asked, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confirmations {
    open: VecDeque<Confirmation>,
}

/// One question to the leader.
#[derive(Clone, Copy, Debug)]
struct Confirmation {
    server: ServerId,
    id: u64,
    /// The last position proposed when it was asked.
    zxid: Zxid,
    /// The round of pings that must be confirmed; none: one is still to begin.
    round: Option<u64>,
}

impl Confirmations {
    pub(crate) fn ask(&mut self, server: ServerId, id: u64, zxid: Zxid) {
        self.open.push_back(Confirmation { server, id, zxid, round: None });
    }

    /// Whether a round must begin.
    pub(crate) fn needs_round(&self) -> bool {
        self.open.back().is_some_and(|confirmation| confirmation.round.is_none())
    }

    /// A round began after all that were asked so far.
    pub(crate) fn round_began(&mut self, round: u64) {
        for confirmation in self.open.iter_mut().rev().take_while(|confirmation| confirmation.round.is_none()) {
            confirmation.round = Some(round);
        }
    }

    /// Takes out the next whose round is confirmed and whose position is committed.
    pub(crate) fn done(&mut self, confirmed: u64, committed: Zxid) -> Option<(ServerId, u64, Zxid)> {
        let first = self.open.front()?;
        let is_done = first.round.is_some_and(|round| round <= confirmed) && first.zxid <= committed;
        is_done.then(|| self.open.pop_front()).flatten().map(|c| (c.server, c.id, c.zxid))
    }

    pub(crate) fn forget(&mut self, server: ServerId) {
        self.open.retain(|confirmation| confirmation.server != server);
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }
}
