//! Synchronisation by the leader: bring each follower to our history with a difference or a snapshot.
//!
//! Inputs are the shapes of histories, acknowledgements and closed links; outputs are differences, snapshots and the
//! announcement that we are established.
//!
//! Invariant: nothing is proposed before a quorum has the whole history durably.

use alloc::vec::Vec;
use pole_types::{Epoch, ServerId, Zxid};

use super::{PeerStage, Step};
use crate::plan::Plan;
use crate::zab::Role;
use crate::{Error, Message, Output, Zab};

impl Zab {
    pub(super) fn start_synchronising(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        leading.step = Step::Synchronising;
        let epoch = leading.epoch;
        let promised: Vec<_> = leading
            .peers
            .iter()
            .filter(|(id, peer)| **id != me && matches!(peer.stage, PeerStage::Promised(_)))
            .map(|(id, _)| *id)
            .collect();
        let own = leading.peer(me);
        own.stage = PeerStage::Synchronising;
        match own.took_over {
            Some(last) => self.became_level(me, epoch, last, out),
            None => self.adopt_epoch(epoch, me, out),
        }
        promised.into_iter().for_each(|id| self.synchronise(id, out));
    }

    /// Starts the synchronisation of one follower with the plan for its history.
    pub(super) fn synchronise(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let peer = leading.peer(id);
        let PeerStage::Promised(promise) = &peer.stage else { return };
        if let Some(last) = peer.took_over {
            return self.skip_synchronisation(id, last, out);
        }
        let plan = Plan::make(&self.log, &promise.epochs);
        peer.stage = PeerStage::Transferring;
        match plan {
            Plan::Difference { truncate, after } => {
                if truncate {
                    Self::send(id, Message::Truncate { to: after }, out);
                }
                self.send_log(id, after, out);
            }
            Plan::Snapshot => self.request_snapshot(id, out),
        }
    }

    /// A follower was sent our whole history: asks it to make that durable. From now on it is sent all proposals.
    pub(crate) fn history_is_sent(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let last = self.log.last();
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        let peer = leading.peer(id);
        peer.stage = PeerStage::Synchronising;
        peer.sent = last;
        Self::send(id, Message::NewLeader { epoch, last }, out);
    }

    pub(crate) fn own_epoch_is_durable(&mut self, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        self.became_level(self.me, epoch, last, out);
    }

    pub(crate) fn on_ack_leader(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if last > self.log.last() {
            return Err(Error::WrongEnd { from, message: "AckLeader", claimed: last, last: self.log.last() });
        }
        self.became_level(from, epoch, last, out);
        Ok(())
    }

    fn became_level(&mut self, from: ServerId, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let established = leading.step == Step::Established;
        if epoch != leading.epoch {
            return;
        }
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if peer.stage != PeerStage::Synchronising {
            return;
        }
        peer.stage = PeerStage::Level;
        peer.acked = last;
        if established {
            peer.counts = true;
            self.send_up_to_date(from, out);
            self.try_commit(out);
        } else {
            out.push(Output::Progress);
            self.try_establish(out);
        }
    }

    /// Commits the history once a quorum, ourselves included, has it durably.
    pub(super) fn try_establish(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        let we_are_level = leading.peers[&me].stage == PeerStage::Level;
        if leading.step != Step::Synchronising
            || !we_are_level
            || !self.voters.is_quorum(leading.level().map(|(id, _)| id))
        {
            return;
        }
        leading.step = Step::Established;
        let epoch = leading.epoch;
        let mut level = Vec::new();
        for (id, peer) in leading.peers.iter_mut().filter(|(_, peer)| peer.stage == PeerStage::Level) {
            peer.counts = true;
            level.push(*id);
        }
        self.commit(self.log.last(), out);
        out.push(Output::Established { epoch });
        level.into_iter().filter(|id| *id != me).for_each(|id| self.send_up_to_date(id, out));
    }

    /// Lets a synchronised follower serve.
    pub(super) fn send_up_to_date(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        Self::send(id, Message::UpToDate { epoch: leading.epoch, committed: self.committed }, out);
    }

    /// A follower's link was closed.
    pub(crate) fn follower_left(&mut self, id: ServerId, out: &mut Vec<Output>) {
        self.end_transfer(id, out);
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.peers.remove(&id).is_none() {
            return;
        }
        match leading.step {
            Step::Gathering | Step::Promising => {}
            Step::Pulling { source } if source == id => self.replace_source(out),
            Step::Pulling { .. } | Step::Synchronising | Step::Established => {
                if !self.voters.is_quorum(leading.peers.keys().copied()) {
                    out.push(Output::QuorumLost);
                }
            }
        }
    }

    /// The source of the pull is gone: chooses the best of the remaining promises, if they are a quorum.
    fn replace_source(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &self.role else { return };
        // Our own promise now includes what we have pulled so far.
        let own = self.promise(leading.epoch, true);
        let Role::Leading(leading) = &mut self.role else { return };
        leading.step = Step::Promising;
        leading.peer(me).stage = PeerStage::Promised(own);
        let remaining = leading.promises(&self.voters).into_keys();
        if self.voters.is_quorum(remaining) {
            self.try_choose_history(out);
        } else {
            out.push(Output::QuorumLost);
        }
    }
}
