//! Broadcast by the leader: propose, count acknowledgements, commit in order, and ping the followers.
//!
//! Invariant: an acknowledgement counts only from a server that has been synchronised, this one included, and only for
//! what it has durably.

use alloc::vec::Vec;
use pole_types::{Epoch, ServerId, Zxid};

use super::{PeerStage, Step};
use crate::zab::Role;
use crate::{Entry, Error, Message, Output, Zab};

impl Zab {
    /// Sends proposals to every follower that was sent the whole history before them.
    pub(crate) fn broadcast(&mut self, prev: Zxid, entries: &[Entry], out: &mut Vec<Output>) {
        let (me, committed, last) = (self.me, self.committed, self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        for (id, peer) in leading.peers.iter_mut().filter(|(id, peer)| **id != me && peer.is_in_broadcast()) {
            assert_eq!(peer.sent, prev, "a follower in the broadcast was sent everything before");
            peer.sent = last;
            Self::send(*id, Message::Propose { epoch, prev, entries: entries.to_vec(), committed }, out);
        }
        leading.announced = committed;
    }

    pub(crate) fn own_log_is_durable(&mut self, out: &mut Vec<Output>) {
        let (me, durable) = (self.me, self.durable);
        let Role::Leading(leading) = &self.role else { return };
        self.acknowledged(me, leading.epoch, durable, out);
    }

    pub(crate) fn on_ack(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        zxid: Zxid,
        server: ServerId,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if server != from {
            return Err(Error::Foreign(server));
        }
        let Role::Leading(leading) = &self.role else { return Ok(()) };
        if epoch == leading.epoch && zxid > self.log.last() {
            return Err(Error::WrongEnd { from, message: "Ack", claimed: zxid, last: self.log.last() });
        }
        self.acknowledged(from, epoch, zxid, out);
        Ok(())
    }

    fn acknowledged(&mut self, from: ServerId, epoch: Epoch, zxid: Zxid, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if epoch == leading.epoch && peer.stage == PeerStage::Level {
            peer.acked = peer.acked.max(zxid);
            self.try_commit(out);
        }
    }

    /// Commits what a quorum has durably.
    pub(super) fn try_commit(&mut self, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.step != Step::Established {
            return;
        }
        let mut acked: Vec<_> =
            leading.level().filter(|(id, _)| self.voters.contains(*id)).map(|(_, p)| p.acked).collect();
        acked.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(zxid) = acked.get(self.voters.quorum() - 1) {
            self.commit(*zxid, out);
        }
    }

    /// Sends commits that were not announced along with a proposal.
    pub(crate) fn announce_commits(&mut self, out: &mut Vec<Output>) {
        let (me, zxid) = (self.me, self.committed);
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.step != Step::Established || leading.announced >= zxid {
            return;
        }
        leading.announced = zxid;
        let epoch = leading.epoch;
        for (id, _) in leading.peers.iter().filter(|(id, peer)| **id != me && peer.stage == PeerStage::Level) {
            Self::send(*id, Message::Commit { epoch, zxid }, out);
        }
    }

    /// Asks all followers whether they still follow us. Returns the sequence number of the ping, or 0 if we do not
    /// lead.
    pub fn ping(&mut self, out: &mut Vec<Output>) -> u64 {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return 0 };
        leading.pings += 1;
        let seq = leading.pings;
        leading.peer(me).pong = seq;
        for id in leading.peers.keys().filter(|id| **id != me) {
            Self::send(*id, Message::Ping { seq }, out);
        }
        seq
    }

    pub(crate) fn on_pong(&mut self, from: ServerId, seq: u64, accepted: Epoch) -> Result<(), Error> {
        let Role::Leading(leading) = &mut self.role else { return Ok(()) };
        // A larger number answers a ping of an earlier epoch of ours: after a hand-over the link may still be the same.
        if seq <= leading.pings
            && accepted == leading.epoch
            && let Some(peer) = leading.peers.get_mut(&from)
        {
            peer.pong = peer.pong.max(seq);
        }
        Ok(())
    }

    /// The last ping that a quorum answered as followers of this established epoch. When that ping was sent, no higher
    /// epoch was established. Returns 0 if there is none.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        let Role::Leading(leading) = &self.role else { return 0 };
        if leading.step != Step::Established {
            return 0;
        }
        let mut pongs: Vec<_> = leading.level().map(|(_, peer)| peer.pong).collect();
        pongs.sort_unstable_by(|a, b| b.cmp(a));
        pongs.get(self.voters.quorum() - 1).copied().unwrap_or(0)
    }

    /// Whether we are established in `epoch` and `peer` has joined it over its present link. Only then are forwarded
    /// requests of its clients accepted.
    #[must_use]
    pub fn is_followed_by(&self, peer: ServerId, epoch: Epoch) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        let joined = leading.peers.get(&peer).is_some_and(|peer| peer.stage == PeerStage::Level);
        leading.step == Step::Established && leading.epoch == epoch && joined
    }

    /// Our followers and the last position that each of them has acknowledged.
    pub fn followers(&self) -> impl Iterator<Item = (ServerId, Zxid)> + '_ {
        let peers = match &self.role {
            Role::Leading(leading) => Some(&leading.peers),
            Role::Following(_) | Role::Looking => None,
        };
        peers.into_iter().flatten().filter(|(id, _)| **id != self.me).map(|(id, peer)| (*id, peer.acked))
    }
}
