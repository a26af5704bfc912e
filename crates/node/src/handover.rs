//! Giving way: a leader that resigns, or is told to, hands over in an orderly way.
//!
//! In: a target. Out: a hand-over, or its abandonment within a time limit.
//! How: while serving, wait until the target keeps up; freeze new proposals; drain what is under way; hand over.
//! Why frozen so late: clients wait from the freeze to the first commit of the new leader, so nothing but the drain may
//! stand between. Why not until the target has all: over a long link it never has, as long as proposals go on.

use alloc::string::ToString;
use alloc::vec::Vec;
use pole_election::{Cause, Proposal, Round, ServerId, Span, Zxid};
use pole_zab::{Epoch, Phase, SessionId};

use crate::node::Node;
use crate::sessions::REMAINING_MAX;
use crate::{Channel, Effect, Machine, Message, Note, Timer};

/// A hand-over being prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    to: ServerId,
    /// Whether somebody asked for it.
    asked: bool,
    /// Where our log ended at the beginning. A target that has acknowledged this keeps up with us.
    mark: Zxid,
    /// New proposals wait.
    frozen: bool,
}

impl<M: Machine> Node<M> {
    /// Somebody wants another leader. Only a leader can hand over: a follower passes it on.
    pub(crate) fn transfer_asked(&mut self, to: Option<ServerId>, out: &mut Vec<Effect>) {
        match (self.zab.leader(), self.zab.serving_epoch()) {
            (Some(leader), Some(epoch)) if leader != self.config.me => {
                let message = Message::TransferAsk { epoch, to };
                out.push(Effect::Send { to: leader, channel: Channel::Quorum, message });
            }
            (_, _) => self.transfer(to, Cause::Transfer, out),
        }
    }

    /// A follower passes on that somebody wants another leader. What was meant for a leader before us is over.
    pub(crate) fn transfer_passed_on(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        to: Option<ServerId>,
        out: &mut Vec<Effect>,
    ) {
        if self.zab.is_followed_by(from, epoch) {
            self.transfer(to, Cause::Transfer, out);
        }
    }

    /// Prepares to hand over to `to`, or to whoever has the best score.
    pub(crate) fn transfer(&mut self, to: Option<ServerId>, cause: Cause, out: &mut Vec<Effect>) {
        let best = || self.scoring.successors(self.now).first().map(|(id, _)| *id);
        let target = to.or_else(best).filter(|to| *to != self.config.me && self.config.voters.contains(*to));
        let refusal = match (self.zab.phase(), target) {
            (Phase::Established, Some(_)) if self.transfer.is_none() => None,
            (Phase::Established, Some(_)) => Some("another hand-over is under way"),
            (Phase::Established, None) => Some("no other server is known to be fit"),
            (_, _) => Some("this server does not lead"),
        };
        match (refusal, target) {
            (None, Some(to)) => {
                self.transfer =
                    Some(Transfer { to, asked: cause == Cause::Transfer, mark: self.zab.log().last(), frozen: false });
                self.scoring.resignation_noted(self.now);
                out.push(Effect::Note(Note::Resigning { to, cause }));
                out.push(Effect::Arm { timer: Timer::Drain, after: self.config.drain_limit });
            }
            (Some(reason), _) => out.push(Effect::Note(Note::ResignationAborted { reason: reason.to_string() })),
            (None, None) => {}
        }
    }

    /// Whether new proposals wait for a hand-over.
    pub(crate) fn is_frozen(&self) -> bool {
        self.transfer.is_some_and(|transfer| transfer.frozen)
    }

    /// Moves a hand-over on as far as it can go now.
    pub(crate) fn try_hand_over(&mut self, out: &mut Vec<Effect>) {
        let Some(transfer) = &mut self.transfer else { return };
        let Transfer { to, asked, mark, .. } = *transfer;
        transfer.frozen |= self.zab.followers().any(|(id, acked)| id == to && acked >= mark);
        if !transfer.frozen || self.zab.can_hand_over(to).is_err() {
            return;
        }
        // Before the hand-over on the same link: the target has it when it begins.
        self.tell_remaining(to, out);
        let round = self.election.next_round();
        let choice = self.scoring.proposal_of(to, self.now);
        let handed_over = self.with_zab(|zab, outputs| zab.hand_over(round, choice, asked, outputs));
        debug_assert!(handed_over.is_ok(), "it could be handed over a moment ago");
        out.push(Effect::Cancel(Timer::Drain));
        self.transfer = None;
    }

    /// Leader: what is left to sessions, in messages of a bounded size.
    fn tell_remaining(&self, to: ServerId, out: &mut Vec<Effect>) {
        let Some(epoch) = self.zab.serving_epoch() else { return };
        let remaining = self.expiry.remaining(self.now);
        // At least one part: it voids what was told before a hand-over that came to nothing.
        let parts = remaining.len().div_ceil(REMAINING_PIECE).max(1);
        for part in 0..parts {
            let sessions = remaining.iter().skip(part * REMAINING_PIECE).take(REMAINING_PIECE).copied().collect();
            let message = Message::Remaining { epoch, begins: part == 0, sessions };
            out.push(Effect::Send { to, channel: Channel::Quorum, message });
        }
    }

    /// The leader is about to hand over to us. Kept until we are established by that hand-over, or something else happens.
    pub(crate) fn remaining_told(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        begins: bool,
        sessions: Vec<(SessionId, Span)>,
    ) {
        if self.zab.leader() == Some(from) && self.zab.serving_epoch() == Some(epoch) {
            if begins {
                self.remaining.clear();
            }
            let room = REMAINING_MAX.saturating_sub(self.remaining.len());
            self.remaining.extend(sessions.into_iter().take(room));
        }
    }

    /// The target did not become level in time: lead on.
    pub(crate) fn drain_expired(&mut self, out: &mut Vec<Effect>) {
        if let Some(transfer) = self.transfer.take() {
            let reason = alloc::format!("server {} was not level within the time limit", transfer.to);
            out.push(Effect::Note(Note::ResignationAborted { reason }));
        }
    }

    /// The leader handed over, here or elsewhere: the target leads, without an election.
    pub(crate) fn handed_over(&mut self, round: Round, choice: Proposal, asked: bool, out: &mut Vec<Effect>) {
        let to = choice.id;
        self.end_leadership(out);
        // Whoever resigned noted it when it began.
        if !self.scoring.is_led_by(self.config.me) {
            self.scoring.resignation_noted(self.now);
        }
        self.accounts.begin(if asked { Cause::Transfer } else { Cause::Resigned }, round, self.now);
        self.accounts.handed_over(to, self.now);
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
            self.liveness.expect(to);
        }
        // Time enough for the target, which may be far from the last leader and from us, to hear of it and to take over.
        self.arm_phase_by_round_trips(out);
    }

    /// Followers that joined before we knew that we lead.
    fn watch_followers(&mut self) {
        let followers: Vec<_> = self.zab.followers().map(|(id, _)| id).collect();
        followers.into_iter().for_each(|id| self.liveness.watch(id, self.now));
    }
}

/// Sessions in one message: 64 KB, like a piece of a difference small enough that nothing behind it is late.
const REMAINING_PIECE: usize = 4_096;
