//! Hand-over: a leader that resigns, or is asked to, transfers its role in an orderly way.
//!
//! While serving, the leader waits until the target keeps up. Then it freezes new proposals, drains those under way,
//! and hands over. If this takes longer than the time limit, the hand-over is aborted.
//!
//! Clients wait from the freeze to the first commit of the new leader, so only the drain happens in between. The freeze
//! cannot wait until the target has everything, because over a long link it never does while proposals continue.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pole_election::{Cause, Proposal, Round};
use pole_types::{Epoch, ServerId, SessionId, Span, Zxid};

use crate::node::Node;
use crate::sessions::REMAINING_MAX;
use crate::{Channel, Effect, Machine, Message, Note, Timer, TransferRefusal};

/// A hand-over being prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    to: ServerId,
    /// The server where it was requested; `None` if the leader resigns by itself.
    asked_by: Option<ServerId>,
    /// The end of our log when the hand-over began. A target that has acknowledged this keeps up with us.
    mark: Zxid,
    /// New proposals wait.
    pub(crate) frozen: bool,
}

impl<M: Machine> Node<M> {
    /// Handles a request for another leader. Only a leader can hand over, so a follower forwards the request.
    pub(crate) fn transfer_requested(&mut self, to: Option<ServerId>, out: &mut Vec<Effect>) {
        match self.serving().filter(|(leader, _)| *leader != self.config.me) {
            Some((leader, epoch)) => {
                let message = Message::TransferAsk { epoch, to };
                out.push(Effect::Send { to: leader, channel: Channel::Quorum, message });
            }
            None => self.transfer(to, Some(self.config.me), out),
        }
    }

    /// Handles a request for another leader that a follower forwarded. A request meant for an earlier leader is
    /// ignored.
    pub(crate) fn transfer_forwarded(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        to: Option<ServerId>,
        out: &mut Vec<Effect>,
    ) {
        if self.zab.is_followed_by(from, epoch) {
            self.transfer(to, Some(from), out);
        }
    }

    /// The leader refused the hand-over that was requested here, or gave it up.
    pub(crate) fn transfer_refused(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        refusal: TransferRefusal,
        out: &mut Vec<Effect>,
    ) {
        if self.serving() == Some((from, epoch)) {
            out.push(Effect::TransferRefused(refusal));
        }
    }

    /// Prepares to hand over to `to`, or to the server with the best score. `asked_by` is the server where that was
    /// requested; `None` if the leader resigns by itself.
    pub(crate) fn transfer(&mut self, to: Option<ServerId>, asked_by: Option<ServerId>, out: &mut Vec<Effect>) {
        match self.transfer_target(to) {
            Err(refusal) => self.refuse_transfer(asked_by, refusal, out),
            Ok(to) => {
                let mark = self.zab.log().last();
                if let Some(leadership) = &mut self.leadership {
                    leadership.transfer = Some(Transfer { to, asked_by, mark, frozen: false });
                }
                self.scoring.record_resignation(self.now);
                let cause = if asked_by.is_some() { Cause::Transfer } else { Cause::Resigned };
                out.push(Effect::Note(Note::Resigning { to, cause }));
                out.push(Effect::Arm { timer: Timer::Drain, after: self.config.drain_limit });
            }
        }
    }

    /// Leader: the servers that have joined.
    pub(crate) fn followers(&self) -> BTreeSet<ServerId> {
        let Some(epoch) = self.zab.serving_epoch() else { return BTreeSet::new() };
        let peers = self.zab.followers().map(|(id, _)| id);
        peers.filter(|id| self.zab.has_joined(*id, epoch)).collect()
    }

    fn transfer_target(&self, to: Option<ServerId>) -> Result<ServerId, TransferRefusal> {
        let leadership = self.leadership.as_ref().ok_or(TransferRefusal::NotLeading)?;
        if self.is_alone() {
            return Err(TransferRefusal::Alone);
        }
        if leadership.transfer.is_some() {
            return Err(TransferRefusal::UnderWay);
        }
        let best = || self.scoring.successors(self.now, &self.followers()).into_iter().next();
        let target = to.or_else(best).filter(|to| *to != self.config.me).ok_or(TransferRefusal::NoneFit)?;
        if !self.config.voters().may_lead(target) {
            return Err(TransferRefusal::MayNotLead(target));
        }
        let follows = self.zab.followers().any(|(id, _)| id == target);
        if follows { Ok(target) } else { Err(TransferRefusal::NotFollowing(target)) }
    }

    /// Reports to the server where a hand-over was requested that there will be none.
    fn refuse_transfer(&self, asked_by: Option<ServerId>, refusal: TransferRefusal, out: &mut Vec<Effect>) {
        out.push(Effect::Note(Note::ResignationAborted { refusal }));
        match (asked_by, self.serving()) {
            (Some(asker), _) if asker == self.config.me => out.push(Effect::TransferRefused(refusal)),
            (Some(to), Some((_, epoch))) => {
                let message = Message::TransferRefused { epoch, refusal };
                out.push(Effect::Send { to, channel: Channel::Quorum, message });
            }
            (Some(_), None) | (None, _) => {}
        }
    }

    /// Advances a hand-over as far as possible now.
    pub(crate) fn try_hand_over(&mut self, out: &mut Vec<Effect>) {
        let Some(transfer) = self.leadership.as_mut().and_then(|leadership| leadership.transfer.as_mut()) else {
            return;
        };
        let Transfer { to, asked_by, mark, .. } = *transfer;
        transfer.frozen |= self.zab.followers().any(|(id, acked)| id == to && acked >= mark);
        if !transfer.frozen || self.zab.can_hand_over(to).is_err() {
            return;
        }
        // Sent before the hand-over on the same link, so the target has it when it begins to lead.
        self.send_remaining(to, out);
        let round = self.election.next_round();
        let choice = self.scoring.proposal_of(to, self.now);
        let handed_over = self.with_zab(|zab, outputs| zab.hand_over(round, choice, asked_by.is_some(), outputs));
        debug_assert!(handed_over.is_ok(), "it could be handed over a moment ago");
    }

    /// Leader: sends the target the time left to sessions, in messages of bounded size.
    fn send_remaining(&self, to: ServerId, out: &mut Vec<Effect>) {
        let (Some(epoch), Some(leadership)) = (self.zab.serving_epoch(), &self.leadership) else { return };
        let remaining = leadership.expiry.remaining(self.now);
        // At least one part, which discards what was sent before an aborted hand-over.
        let parts = remaining.len().div_ceil(REMAINING_PIECE).max(1);
        for part in 0..parts {
            let sessions = remaining.iter().skip(part * REMAINING_PIECE).take(REMAINING_PIECE).copied().collect();
            let message = Message::Remaining { epoch, begins: part == 0, sessions };
            out.push(Effect::Send { to, channel: Channel::Quorum, message });
        }
    }

    /// Handles the times left to sessions, from a leader that is about to hand over to us. They are kept until we are
    /// established by that hand-over or our role changes otherwise.
    pub(crate) fn remaining_received(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        begins: bool,
        sessions: Vec<(SessionId, Span)>,
    ) {
        if self.serving() == Some((from, epoch)) {
            if begins {
                self.remaining.clear();
            }
            let room = REMAINING_MAX.saturating_sub(self.remaining.len());
            self.remaining.extend(sessions.into_iter().take(room));
        }
    }

    /// The target did not catch up in time: continue to lead.
    pub(crate) fn drain_expired(&mut self, out: &mut Vec<Effect>) {
        if let Some(transfer) = self.leadership.as_mut().and_then(|leadership| leadership.transfer.take()) {
            self.refuse_transfer(transfer.asked_by, TransferRefusal::NotLevel(transfer.to), out);
        }
    }

    /// The leader handed over, here or elsewhere: the target leads without an election.
    pub(crate) fn handed_over(&mut self, round: Round, choice: Proposal, asked: bool, out: &mut Vec<Effect>) {
        let to = choice.id;
        self.electing_elsewhere.clear();
        self.end_leadership(out);
        // The resigning leader recorded it when the hand-over began.
        if self.scoring.last_leader() != Some(self.config.me) {
            self.scoring.record_resignation(self.now);
        }
        self.leadership_changes.begin(if asked { Cause::Transfer } else { Cause::Resigned }, round, self.now);
        self.leadership_changes.handed_over(to, self.now);
        self.election.adopt(round, choice);
        self.liveness.clear();
        out.push(Effect::Note(Note::HandedOver { to }));
        if to != self.config.me {
            self.remaining.clear();
        }
        if to == self.config.me {
            out.push(Effect::Note(Note::Leading { round }));
            self.watch_followers();
        } else {
            out.push(Effect::Note(Note::Following { leader: to }));
            self.liveness.expect(to, self.now);
        }
        // Enough time for the target, which may be far from the last leader and from us, to receive the hand-over and
        // take over.
        self.arm_phase_by_round_trips(out);
    }

    /// Starts failure detection for followers that joined before we knew that we lead.
    fn watch_followers(&mut self) {
        let followers: Vec<_> = self.zab.followers().map(|(id, _)| id).collect();
        followers.into_iter().for_each(|id| self.liveness.watch(id, self.now));
    }
}

/// Sessions in one message: 64 KB. Like a piece of a difference, small enough not to delay the messages behind it.
const REMAINING_PIECE: usize = 4_096;
