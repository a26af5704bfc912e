//! Hand-over: the old leader ends its epoch, and the target begins the next one without discovery.
//!
//! Invariant: all servers that accept the hand-over have the same history, all of it committed. There is nothing to
//! discover and nothing to synchronise.

use alloc::vec::Vec;
use pole_election::{Proposal, Round};
use pole_types::{Epoch, ServerId, Zxid};

use super::{PeerStage, Step};
use crate::zab::Role;
use crate::{Error, Message, NotReady, Output, Promise, Zab};

impl Zab {
    /// Checks whether `target` could take over now.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn can_hand_over(&self, target: ServerId) -> Result<(), NotReady> {
        let Role::Leading(leading) = &self.role else { return Err(NotReady::NotLeading) };
        let last = self.log.last();
        if leading.step != Step::Established {
            return Err(NotReady::NotLeading);
        }
        if self.committed != last || self.durable != last {
            return Err(NotReady::UnderWay);
        }
        let level = leading.peers.get(&target).is_some_and(|p| p.stage == PeerStage::Level && p.acked == last);
        if !level || target == self.me {
            return Err(NotReady::NotLevel);
        }
        Ok(())
    }

    /// Hands over to the server that `choice` proposes, which ends our epoch on this server.
    ///
    /// # Errors
    /// If the target cannot take over now. Nothing has changed then.
    pub fn hand_over(
        &mut self,
        round: Round,
        choice: Proposal,
        asked: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), NotReady> {
        let target = choice.id;
        self.can_hand_over(target)?;
        let (me, last) = (self.me, self.log.last());
        let Role::Leading(leading) = core::mem::replace(&mut self.role, Role::Looking) else {
            return Err(NotReady::NotLeading);
        };
        let epoch = leading.epoch;
        let next = leading.accepted_max.max(self.accepted_epoch).next();
        for (id, peer) in leading.peers.iter().filter(|(id, _)| **id != me) {
            if peer.stage == PeerStage::Level {
                Self::send(*id, Message::Handover { epoch, next, last, round, choice: choice.clone(), asked }, out);
            } else {
                self.reset(*id, out);
            }
        }
        self.take_over(next, target, round, out);
        out.push(Output::HandedOver { round, choice, asked });
        Ok(())
    }

    /// A follower reports that it has durably accepted the hand-over to us.
    pub(crate) fn on_taken_over(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if let Some(waiting) = self.waiting.get_mut(&from) {
            waiting.taken_over = Some((epoch, last));
        } else {
            self.taken_over(from, epoch, last, out);
        }
        Ok(())
    }

    pub(crate) fn own_take_over_is_durable(&mut self, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        self.taken_over(self.me, epoch, last, out);
    }

    /// Counts as a fresh promise and as the acknowledgement of the history. Only this server proposes in this epoch, so
    /// a history of the epoch that ends before our first proposal ends where the hand-over did.
    pub(super) fn taken_over(&mut self, from: ServerId, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        if !self.log.reaches(last) {
            return;
        }
        let mut epochs = self.log.epochs().clone();
        epochs.truncate(last);
        let promise = Promise { epoch, fresh: true, current_epoch: epoch, last_zxid: last, epochs, blank: false };
        self.promised(from, promise, Some(last), out);
    }

    /// A follower that accepted the hand-over already has the history up to `last` and only waits for us to be
    /// established. What we have proposed since is sent as proposals.
    pub(super) fn skip_synchronisation(&mut self, id: ServerId, last: Zxid, out: &mut Vec<Output>) {
        let (ours, committed) = (self.log.last(), self.committed);
        let Role::Leading(leading) = &mut self.role else { return };
        let (epoch, established) = (leading.epoch, leading.step == Step::Established);
        let peer = leading.peer(id);
        peer.stage = PeerStage::Level;
        peer.acked = last;
        peer.sent = ours;
        if !established {
            return self.try_establish(out);
        }
        Self::send(id, Message::UpToDate { epoch, committed: last.min(committed) }, out);
        let entries: Vec<_> = self.log.between(last, ours).cloned().collect();
        if !entries.is_empty() {
            Self::send(id, Message::Propose { epoch, prev: last, entries, committed }, out);
        }
        self.try_commit(out);
    }
}
