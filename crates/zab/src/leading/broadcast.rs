//! Broadcast by the leader: propose, count acknowledgements, commit in order, and ping the followers.
//!
//! Invariant: an acknowledgement counts only from a server that has been synchronised, this one included, and only for
//! what it has durably.

use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Reverse;
use pole_types::{Epoch, ServerId, Zxid};

use super::{Leading, PeerStage};
use crate::state::{OnDurable, State, send};
use crate::{DiskOp, Entry, Error, Message, Origin, Output};

impl Leading {
    /// Proposes transactions in order; the first gets [`Log::next_zxid`](crate::Log::next_zxid).
    pub(crate) fn propose(
        &mut self,
        state: &mut State,
        batch: Vec<(Origin, Bytes)>,
        listeners: Vec<ServerId>,
        out: &mut Vec<Output>,
    ) {
        assert!(self.is_established(), "only an established leader proposes");
        assert!(!state.voters().is_joint(), "nothing is proposed behind a change of the members that is not committed");
        let after = state.log.last();
        let mut entries = Vec::with_capacity(batch.len());
        for (origin, body) in batch {
            let entry = Entry { zxid: state.log.next_zxid(self.epoch), origin, body };
            entries.push(entry.clone());
            state.log_entry(entry, out);
        }
        let last = state.log.last();
        out.push(Output::Logged { after, through: last });
        self.broadcast(state, after, &entries, &listeners, out);
        self.listeners.add(entries.first().map_or(last, |entry| entry.zxid), last, listeners);
        state.write(DiskOp::Append(entries), OnDurable::Appended { last, received: None }, out);
    }

    /// Sends proposals to every follower that was sent the whole history before them.
    fn broadcast(
        &mut self,
        state: &State,
        prev: Zxid,
        entries: &[Entry],
        listeners: &[ServerId],
        out: &mut Vec<Output>,
    ) {
        let (epoch, committed, last) = (self.epoch, state.committed, state.log.last());
        for (id, peer) in self.peers.iter_mut().filter(|(id, peer)| **id != state.me && peer.is_in_broadcast()) {
            assert_eq!(peer.sent, prev, "a follower in the broadcast was sent everything before");
            peer.sent = last;
            let (entries, listeners) = (entries.to_vec(), listeners.to_vec());
            send(*id, Message::Propose { epoch, prev, entries, committed, listeners }, out);
        }
        self.announced = committed;
    }

    pub(crate) fn own_log_is_durable(&mut self, state: &mut State, out: &mut Vec<Output>) {
        self.acknowledged(state, state.me, self.epoch, state.durable, out);
        self.listeners.tell(state, self.epoch, out);
    }

    pub(crate) fn on_ack(
        &mut self,
        state: &mut State,
        from: ServerId,
        epoch: Epoch,
        zxid: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if epoch == self.epoch && zxid > state.log.last() {
            return Err(Error::WrongEnd { from, message: "Ack", claimed: zxid, last: state.log.last() });
        }
        self.acknowledged(state, from, epoch, zxid, out);
        Ok(())
    }

    fn acknowledged(&mut self, state: &mut State, from: ServerId, epoch: Epoch, zxid: Zxid, out: &mut Vec<Output>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if epoch == self.epoch && peer.stage == PeerStage::Level {
            peer.acked = peer.acked.max(zxid);
            self.try_commit(state, out);
        }
    }

    /// Commits what a quorum has durably.
    pub(super) fn try_commit(&self, state: &mut State, out: &mut Vec<Output>) {
        if !self.is_established() {
            return;
        }
        if let Some(Reverse(zxid)) =
            state.voters().quorum_value(self.level().map(|(id, peer)| (id, Reverse(peer.acked))))
        {
            state.commit(zxid, out);
        }
    }

    /// Sends commits that were not announced along with a proposal.
    pub(crate) fn announce_commits(&mut self, state: &State, out: &mut Vec<Output>) {
        let (epoch, zxid) = (self.epoch, state.committed);
        if !self.is_established() || self.announced >= zxid {
            return;
        }
        self.announced = zxid;
        for (id, _) in self.peers.iter().filter(|(id, peer)| **id != state.me && peer.stage == PeerStage::Level) {
            send(*id, Message::Commit { epoch, zxid }, out);
        }
    }

    /// Asks all followers whether they still follow us. Returns the sequence number of the ping.
    pub(crate) fn ping(&mut self, me: ServerId, out: &mut Vec<Output>) -> u64 {
        self.pings += 1;
        let seq = self.pings;
        self.peer(me).pong = seq;
        for id in self.peers.keys().filter(|id| **id != me) {
            send(*id, Message::Ping { seq }, out);
        }
        seq
    }

    pub(crate) fn on_pong(&mut self, from: ServerId, seq: u64, accepted: Epoch) {
        // A larger number answers a ping of an earlier epoch of ours: after a hand-over the link may still be the same.
        if seq <= self.pings
            && accepted == self.epoch
            && let Some(peer) = self.peers.get_mut(&from)
        {
            peer.pong = peer.pong.max(seq);
        }
    }

    /// The last ping that a quorum answered as followers of this established epoch, or 0.
    pub(crate) fn confirmed(&self, state: &State) -> u64 {
        if !self.is_established() {
            return 0;
        }
        let confirmed = state.voters().quorum_value(self.level().map(|(id, peer)| (id, Reverse(peer.pong))));
        confirmed.map_or(0, |Reverse(seq)| seq)
    }

    /// Whether this is our epoch and `peer` has joined it over its present link.
    pub(crate) fn has_joined(&self, peer: ServerId, epoch: Epoch) -> bool {
        let joined = self.peers.get(&peer).is_some_and(|peer| peer.stage == PeerStage::Level);
        self.epoch == epoch && joined
    }
}
