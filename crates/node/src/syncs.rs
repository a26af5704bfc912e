//! Syncs under way, which make a sync followed by a read linearizable.
//!
//! A server forwards its clients' syncs to the leader. The leader notes its last proposed position, has a quorum confirm
//! its leadership with a round of pings started after that, and answers once the position is committed. The server
//! replies to its clients when it has applied the position. Leases are not used: a leader that was paused cannot answer
//! from an outdated one.
//!
//! Syncs are numbered. One message asks, and one answers, for all syncs up to a number, so the cost between servers grows
//! with their steps and not with the number of syncs.

use alloc::collections::{BTreeMap, VecDeque};
use pole_types::{Cxid, ServerId, Zxid};

use crate::ClientId;

/// The syncs of a server's own clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSyncs {
    /// The number of the last sync.
    last: u64,
    /// Every sync up to this number was answered by a leader.
    answered: u64,
    /// A leader has not been asked for all unanswered syncs.
    must_ask: bool,
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
    /// Adds a client's sync.
    pub(crate) fn add(&mut self, client: ClientId, cxid: Cxid) {
        self.last += 1;
        self.open.insert(self.last, PendingSync { client, cxid, until: None });
        self.must_ask = true;
    }

    /// Returns the number up to which the leader must be asked to answer, once.
    pub(crate) fn take_question(&mut self) -> Option<u64> {
        core::mem::take(&mut self.must_ask).then_some(self.last)
    }

    /// The leader changed, or the link to it: what it was asked may be lost.
    pub(crate) fn ask_again(&mut self) {
        self.must_ask = self.open.range(self.answered + 1..).next().is_some();
    }

    /// The leader answered all syncs up to this number. Later answers have the same position or a later one.
    pub(crate) fn answered(&mut self, through: u64, until: Zxid) {
        let through = through.min(self.last);
        if through > self.answered {
            self.open.range_mut(self.answered + 1..=through).for_each(|(_, sync)| sync.until = Some(until));
            self.answered = through;
        }
    }

    /// Removes and returns the next sync whose position is applied.
    pub(crate) fn done(&mut self, applied: Zxid) -> Option<(ClientId, Cxid)> {
        let first = self.open.first_entry()?;
        let is_done = first.get().until.is_some_and(|until| until <= applied);
        is_done.then(|| first.remove()).map(|sync| (sync.client, sync.cxid))
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

/// Syncs of one server, at the leader.
#[derive(Clone, Copy, Debug)]
struct Confirmation {
    server: ServerId,
    /// The number of the last of them.
    through: u64,
    /// The last proposed position when they arrived.
    zxid: Zxid,
    /// The round of pings that must be confirmed; `None` until it starts.
    round: Option<u64>,
}

impl Confirmations {
    pub(crate) fn add(&mut self, server: ServerId, through: u64, zxid: Zxid) {
        self.open.push_back(Confirmation { server, through, zxid, round: None });
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

    /// Removes and returns the next syncs whose round is confirmed and whose position is committed.
    pub(crate) fn done(&mut self, confirmed: u64, committed: Zxid) -> Option<(ServerId, u64, Zxid)> {
        let first = self.open.front()?;
        let is_done = first.round.is_some_and(|round| round <= confirmed) && first.zxid <= committed;
        is_done.then(|| self.open.pop_front()).flatten().map(|c| (c.server, c.through, c.zxid))
    }

    pub(crate) fn forget(&mut self, server: ServerId) {
        self.open.retain(|confirmation| confirmation.server != server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn pending(count: i32) -> PendingSyncs {
        let mut syncs = PendingSyncs::default();
        (1..=count).for_each(|cxid| syncs.add(ClientId(cxid as u64 % 2), Cxid(cxid)));
        syncs
    }

    /// The numbers of the syncs that are done once this is applied.
    fn done(syncs: &mut PendingSyncs, applied: u64) -> Vec<i32> {
        core::iter::from_fn(|| syncs.done(Zxid(applied))).map(|(_, cxid)| cxid.0).collect()
    }

    #[test]
    fn one_question_asks_for_all_syncs_and_one_answer_is_for_those_before_it() {
        let mut syncs = pending(3);
        assert_eq!((syncs.take_question(), syncs.take_question()), (Some(3), None));
        syncs.add(ClientId(1), Cxid(4));
        assert_eq!(syncs.take_question(), Some(4));
        syncs.answered(3, Zxid(10));
        assert_eq!(done(&mut syncs, 9), []);
        assert_eq!(done(&mut syncs, 10), [1, 2, 3], "the fourth came after the question");
        syncs.answered(4, Zxid(11));
        assert_eq!(done(&mut syncs, 11), [4]);
    }

    #[test]
    fn what_was_not_answered_is_asked_again() {
        let mut syncs = pending(2);
        assert_eq!(syncs.take_question(), Some(2));
        syncs.ask_again();
        assert_eq!(syncs.take_question(), Some(2));
        syncs.answered(2, Zxid(5));
        syncs.ask_again();
        assert_eq!(syncs.take_question(), None, "they wait to be applied");
        assert_eq!(done(&mut syncs, 5), [1, 2]);
    }

    #[test]
    fn an_answer_to_something_else_changes_nothing() {
        let mut syncs = pending(2);
        syncs.answered(1, Zxid(5));
        syncs.answered(1, Zxid(1));
        assert_eq!(done(&mut syncs, 4), []);
        syncs.answered(u64::MAX, Zxid(7));
        syncs.ask_again();
        assert_eq!(done(&mut syncs, 7), [1, 2]);
        syncs.add(ClientId(1), Cxid(3));
        assert_eq!((done(&mut syncs, 7), syncs.take_question()), (Vec::new(), Some(3)));
    }

    #[test]
    fn a_client_that_left_is_not_answered() {
        let mut syncs = pending(4);
        syncs.forget(ClientId(1));
        syncs.answered(4, Zxid(1));
        assert_eq!(done(&mut syncs, 1), [2, 4]);
        assert_eq!(syncs.len(), 0);
    }
}
