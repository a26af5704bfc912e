//! Synchronisation by the leader: bring each follower to our history with a difference or a snapshot.
//!
//! Inputs are the shapes of histories, acknowledgements and closed links; outputs are differences, snapshots and the
//! announcement that we are established.
//!
//! Invariant: nothing is proposed before a quorum has the whole history durably.

use alloc::vec::Vec;
use pole_types::{Epoch, ServerId, Zxid};

use super::{Leading, PeerStage, Step};
use crate::plan::Plan;
use crate::state::{State, send};
use crate::{Error, Message, Output};

impl Leading {
    pub(super) fn start_synchronising(&mut self, state: &mut State, out: &mut Vec<Output>) {
        let me = state.me;
        self.step = Step::Synchronising { heard: false };
        let promised: Vec<_> = self
            .peers
            .iter()
            .filter(|(id, peer)| **id != me && matches!(peer.stage, PeerStage::Promised(_)))
            .map(|(id, _)| *id)
            .collect();
        self.try_adopt(state, out);
        promised.into_iter().for_each(|id| self.synchronise(state, id, out));
    }

    /// Adopts our own epoch once a quorum has answered us. Usually that is now: only promises that were made ahead show
    /// nothing about the way from us to the followers.
    pub(super) fn try_adopt(&mut self, state: &mut State, out: &mut Vec<Output>) {
        let (me, epoch) = (state.me, self.epoch);
        let hearing = self.peers.iter().filter(|(_, peer)| peer.hears).map(|(id, _)| *id);
        if self.step != (Step::Synchronising { heard: false }) || !state.voters().is_quorum(hearing) {
            return;
        }
        self.step = Step::Synchronising { heard: true };
        out.push(Output::Progress);
        let own = self.peer(me);
        own.stage = PeerStage::Synchronising;
        match own.took_over {
            Some(last) => self.became_level(state, me, epoch, last, out),
            None => state.adopt_epoch(epoch, me, out),
        }
    }

    /// Starts the synchronisation of one follower with the plan for its history.
    pub(super) fn synchronise(&mut self, state: &mut State, id: ServerId, out: &mut Vec<Output>) {
        let peer = self.peer(id);
        let PeerStage::Promised(promise) = &peer.stage else { return };
        if let Some(last) = peer.took_over {
            return self.skip_synchronisation(state, id, last, out);
        }
        let plan = Plan::make(&state.log, &promise.epochs);
        peer.stage = PeerStage::Transferring;
        match plan {
            Plan::Difference { truncate, after } => {
                if truncate {
                    send(id, Message::Truncate { to: after }, out);
                }
                if state.send_log(id, after, out).is_complete() {
                    self.history_is_sent(state, id, out);
                }
            }
            Plan::Snapshot => state.request_snapshot(id, out),
        }
    }

    /// A follower was sent our whole history: asks it to make that durable. From now on it is sent all proposals.
    pub(crate) fn history_is_sent(&mut self, state: &State, id: ServerId, out: &mut Vec<Output>) {
        let (epoch, last) = (self.epoch, state.log.last());
        let peer = self.peer(id);
        peer.stage = PeerStage::Synchronising;
        peer.sent = last;
        send(id, Message::NewLeader { epoch, last }, out);
    }

    pub(crate) fn on_ack_leader(
        &mut self,
        state: &mut State,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if last > state.log.last() {
            return Err(Error::WrongEnd { from, message: "AckLeader", claimed: last, last: state.log.last() });
        }
        self.became_level(state, from, epoch, last, out);
        Ok(())
    }

    /// A server, perhaps this one, has our history and our epoch durably.
    pub(crate) fn became_level(
        &mut self,
        state: &mut State,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) {
        let established = self.is_established();
        if epoch != self.epoch {
            return;
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if peer.stage != PeerStage::Synchronising {
            return;
        }
        peer.stage = PeerStage::Level;
        peer.acked = last;
        if established {
            peer.counts = true;
            self.send_up_to_date(state, from, out);
            self.try_commit(state, out);
        } else {
            out.push(Output::Progress);
            self.try_establish(state, out);
        }
    }

    /// Commits the history once a quorum, ourselves included, has it durably.
    pub(super) fn try_establish(&mut self, state: &mut State, out: &mut Vec<Output>) {
        let me = state.me;
        let we_are_level = self.peers[&me].stage == PeerStage::Level;
        if self.step != (Step::Synchronising { heard: true })
            || !we_are_level
            || !state.voters().is_quorum(self.level().map(|(id, _)| id))
        {
            return;
        }
        self.step = Step::Established;
        let mut level = Vec::new();
        for (id, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.stage == PeerStage::Level) {
            peer.counts = true;
            level.push(*id);
        }
        state.commit(state.log.last(), out);
        out.push(Output::Established { epoch: self.epoch });
        level.into_iter().filter(|id| *id != me).for_each(|id| self.send_up_to_date(state, id, out));
    }

    /// Lets a synchronised follower serve.
    fn send_up_to_date(&self, state: &State, id: ServerId, out: &mut Vec<Output>) {
        send(id, Message::UpToDate { epoch: self.epoch, committed: state.committed }, out);
    }

    /// A follower's link was closed.
    pub(crate) fn follower_left(&mut self, state: &mut State, id: ServerId, out: &mut Vec<Output>) {
        state.end_transfer(id, out);
        if self.peers.remove(&id).is_none() {
            return;
        }
        match self.step {
            Step::Gathering | Step::Promising => {}
            Step::Pulling { source } if source == id => self.replace_source(state, out),
            Step::Pulling { .. } | Step::Synchronising { .. } | Step::Established => {
                if !state.voters().is_quorum(self.peers.keys().copied()) {
                    out.push(Output::QuorumLost);
                }
            }
        }
    }

    /// The source of the pull is gone: chooses the best of the remaining promises, if they are a quorum.
    fn replace_source(&mut self, state: &mut State, out: &mut Vec<Output>) {
        // Our own promise now includes what we have pulled so far.
        let own = state.promise(self.epoch, true);
        self.step = Step::Promising;
        self.peer(state.me).stage = PeerStage::Promised(own);
        let remaining = self.promises(state).into_keys();
        if state.voters().is_quorum(remaining) {
            self.try_choose_history(state, out);
        } else {
            out.push(Output::QuorumLost);
        }
    }
}
