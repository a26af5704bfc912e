//! Hand-over: the old leader ends its epoch, and the target begins the next one without discovery.
//!
//! Invariant: all servers that accept the hand-over have the same history, all of it committed. There is nothing to
//! discover and nothing to synchronise.

use alloc::vec::Vec;
use pole_election::{Proposal, Round};
use pole_types::{Epoch, ServerId, Zxid};

use super::{Leading, PeerStage};
use crate::role::Role;
use crate::state::{State, send};
use crate::{Message, NotReady, Output, Promise};

impl Leading {
    /// Checks whether `target` could take over now.
    pub(crate) fn can_hand_over(&self, state: &State, target: ServerId) -> Result<(), NotReady> {
        let last = state.log.last();
        if !self.is_established() {
            return Err(NotReady::NotLeading);
        }
        if state.committed != last || state.durable != last {
            return Err(NotReady::UnderWay);
        }
        if !state.voters().may_lead(target) {
            return Err(NotReady::MayNotLead);
        }
        let level = self.peers.get(&target).is_some_and(|p| p.stage == PeerStage::Level && p.acked == last);
        if !level || target == state.me {
            return Err(NotReady::NotLevel);
        }
        Ok(())
    }

    /// Hands over to the server that `choice` proposes, which ends our epoch. Returns our role after it.
    pub(crate) fn hand_over(
        &self,
        state: &mut State,
        round: Round,
        choice: Proposal,
        asked: bool,
        out: &mut Vec<Output>,
    ) -> Role {
        let (me, epoch, last) = (state.me, self.epoch, state.log.last());
        let next = self.accepted_max.max(state.accepted_epoch).next();
        for (id, peer) in self.peers.iter().filter(|(id, _)| **id != me) {
            if peer.stage == PeerStage::Level {
                send(*id, Message::Handover { epoch, next, last, round, choice: choice.clone(), asked }, out);
            } else {
                state.reset(*id, out);
            }
        }
        let role = Role::take_over(state, next, choice.id, round, out);
        out.push(Output::HandedOver { round, choice, asked });
        role
    }

    /// A server, perhaps this one, has durably accepted the hand-over to us. That counts as a fresh promise and as the
    /// acknowledgement of the history. Only this server proposes in this epoch, so a history of the epoch that ends
    /// before our first proposal ends where the hand-over did.
    pub(crate) fn taken_over(
        &mut self,
        state: &mut State,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) {
        if !state.log.reaches(last) {
            return;
        }
        let mut epochs = state.log.epochs().clone();
        epochs.truncate(last);
        let promise =
            Promise { epoch, fresh: true, current_epoch: epoch, last_zxid: last, epochs, blank: false, ahead: false };
        self.promised(state, from, promise, Some(last), out);
    }

    /// A follower that accepted the hand-over already has the history up to `last` and only waits for us to be
    /// established. What we have proposed since is sent as proposals.
    pub(super) fn skip_synchronisation(&mut self, state: &mut State, id: ServerId, last: Zxid, out: &mut Vec<Output>) {
        let (epoch, ours, committed) = (self.epoch, state.log.last(), state.committed);
        let peer = self.peer(id);
        peer.stage = PeerStage::Level;
        peer.acked = last;
        peer.sent = ours;
        if !self.is_established() {
            return self.try_establish(state, out);
        }
        send(id, Message::UpToDate { epoch, committed: last.min(committed) }, out);
        let entries: Vec<_> = state.log.between(last, ours).cloned().collect();
        if !entries.is_empty() {
            send(id, Message::Propose { epoch, prev: last, entries, committed, listeners: Vec::new() }, out);
        }
        self.try_commit(state, out);
    }
}
