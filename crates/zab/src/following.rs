//! Following: promise the leader's epoch, take its history over, then log and acknowledge what it proposes.
//!
//! In: the leader's messages. Out: writes, and acknowledgements when those are durable.
//! Holds: nothing of a lower epoch than the one promised is appended or acknowledged; the history is durable before
//! the epoch, the epoch before its acknowledgement.
//! Not here: a leader's own share of the same steps, which is the same code called by `leading` for itself.

use alloc::vec::Vec;
use pole_election::{Epoch, Proposal, Round, ServerId, Zxid};

use crate::leading::Leading;
use crate::plan::Plan;
use crate::zab::{Role, Then};
use crate::{DiskOp, Entry, Epochs, Error, Hello, Message, Output, Phase, Promise, Zab};

/// A follower's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Following {
    pub(crate) leader: ServerId,
    /// The round in which the leader was chosen.
    pub(crate) round: Round,
    stage: Stage,
}

/// How far the leader has brought us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It has not asked for a promise yet.
    Greeting,
    /// We promised; told: the promise is durable and the leader knows.
    Promised { epoch: Epoch, told: bool },
    /// The history is complete; told: it and the epoch are durable and the leader knows.
    Joining { epoch: Epoch, told: bool },
    /// We took a hand-over; durable: the target has been or can be told.
    TakingOver { epoch: Epoch, last: Zxid, durable: bool },
    /// The leader is established.
    Serving { epoch: Epoch },
}

impl Following {
    pub(crate) fn new(leader: ServerId, round: Round) -> Self {
        Self { leader, round, stage: Stage::Greeting }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Greeting => Phase::Greeting,
            Stage::Promised { .. } => Phase::Promised,
            Stage::Joining { .. } => Phase::Joining,
            Stage::TakingOver { .. } => Phase::TakingOver,
            Stage::Serving { .. } => Phase::Serving,
        }
    }
}

/// The number of no question: a leader counts from 1.
const UNASKED: u64 = 0;

impl Zab {
    /// Introduces us to our leader, if its link is open.
    pub(crate) fn greet(&mut self, out: &mut Vec<Output>) {
        let accepted_epoch = self.accepted_epoch;
        let Role::Following(following) = &mut self.role else { return };
        let Following { leader, round, stage } = *following;
        if !self.links.contains(&leader) {
            return;
        }
        let taking_over = match stage {
            Stage::TakingOver { epoch, .. } => Some(epoch),
            Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::Serving { .. } => {
                following.stage = Stage::Greeting;
                None
            }
        };
        Self::send(leader, Message::Hello(Hello { round, accepted_epoch, taking_over }), out);
        if let Stage::TakingOver { epoch, last, durable: true } = stage {
            Self::send(leader, Message::TakenOver { epoch, last }, out);
        }
    }

    /// The server that we chose does not lead.
    pub(crate) fn on_decline(&mut self, from: ServerId, out: &mut Vec<Output>) -> Result<(), Error> {
        if self.following(from).is_some() {
            out.push(Output::LeaderLost { leader: from, reason: "it does not lead" });
        }
        Ok(())
    }

    /// Greater than what we promised: promise. Equal: say so. Smaller: refuse, naming what we promised.
    pub(crate) fn on_new_epoch(&mut self, from: ServerId, epoch: Epoch, out: &mut Vec<Output>) -> Result<(), Error> {
        let accepted = self.accepted_epoch;
        self.check_epoch(from, "NewEpoch", epoch)?;
        let Some(following) = self.following(from) else { return Ok(()) };
        if epoch < accepted {
            Self::send(from, Message::RefuseEpoch { refused: epoch, accepted }, out);
            return Ok(());
        }
        if epoch == accepted && following.stage != Stage::Greeting {
            return Ok(()); // a duplicate: we are past it
        }
        following.stage = Stage::Promised { epoch, told: false };
        self.end_transfers(out);
        self.accepted_epoch = epoch;
        self.void_promises();
        // Behind all appends: the answer reports the last of them. Written again even if equal, so that the answer
        // waits for whatever is under way.
        let then = Then::Promised { epoch, leader: from, fresh: epoch > accepted };
        self.write(DiskOp::AcceptedEpoch(epoch), then, out);
        out.push(Output::Promised { epoch });
        Ok(())
    }

    /// A promise became durable: tell it, unless it is void by now.
    pub(crate) fn promise_is_durable(&mut self, epoch: Epoch, leader: ServerId, fresh: bool, out: &mut Vec<Output>) {
        let promise = self.promise(epoch, fresh);
        if leader == self.me {
            self.own_promise_is_durable(promise, out);
        } else if let Some(following) = self.following(leader)
            && following.stage == (Stage::Promised { epoch, told: false })
        {
            following.stage = Stage::Promised { epoch, told: true };
            Self::send(leader, Message::AckEpoch(promise), out);
        }
    }

    /// What we can say of ourselves to whom we promise.
    pub(crate) fn promise(&self, epoch: Epoch, fresh: bool) -> Promise {
        Promise {
            epoch,
            fresh,
            current_epoch: self.current_epoch,
            last_zxid: self.log.last(),
            epochs: self.log.epochs().clone(),
            blank: self.is_blank(),
        }
    }

    /// The leader is behind us and asks for what it lacks.
    pub(crate) fn on_pull(&mut self, from: ServerId, epochs: &Epochs, out: &mut Vec<Output>) -> Result<(), Error> {
        let Some(following) = self.following(from) else { return Ok(()) };
        if !matches!(following.stage, Stage::Promised { told: true, .. }) {
            return Err(self.unexpected(from, "Pull"));
        }
        if !epochs.is_well_formed() {
            return Err(Error::MalformedHistory(from));
        }
        match Plan::make(&self.log, epochs) {
            Plan::Difference { truncate, after } => {
                if truncate {
                    Self::send(from, Message::Truncate { to: after }, out);
                }
                self.send_log(from, after, out);
            }
            Plan::Snapshot => self.want_snapshot(from, out),
        }
        Ok(())
    }

    /// Cut the log to what we share with the sender.
    pub(crate) fn on_truncate(&mut self, from: ServerId, to: Zxid, out: &mut Vec<Output>) -> Result<(), Error> {
        if !self.is_synchronised_by(from) {
            return Ok(());
        }
        self.cut(from, to, out)?;
        out.push(Output::Progress);
        Ok(())
    }

    /// A part of the difference.
    pub(crate) fn on_entries(
        &mut self,
        from: ServerId,
        prev: Zxid,
        entries: Vec<Entry>,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if !self.is_synchronised_by(from) {
            return Ok(());
        }
        let received = Some((from, self.accepted_epoch));
        self.append(from, "Entries", prev, entries, received, out)?;
        out.push(Output::Progress);
        Ok(())
    }

    /// The difference is complete: history durable, then the epoch, then the acknowledgement.
    pub(crate) fn on_new_leader(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let ours = self.log.last();
        let Some(following) = self.following(from) else { return Ok(()) };
        if following.stage != (Stage::Promised { epoch, told: true }) {
            return Err(self.unexpected(from, "NewLeader"));
        }
        if last != ours {
            return Err(Error::WrongEnd { from, message: "NewLeader", claimed: last, last: ours });
        }
        following.stage = Stage::Joining { epoch, told: false };
        self.take_epoch(epoch, from, out);
        out.push(Output::Progress);
        Ok(())
    }

    /// Queues `current_epoch` behind the history that it stands for.
    pub(crate) fn take_epoch(&mut self, epoch: Epoch, leader: ServerId, out: &mut Vec<Output>) {
        self.current_epoch = epoch;
        let last = self.log.last();
        self.write(DiskOp::CurrentEpoch(epoch), Then::TookEpoch { epoch, leader, last }, out);
    }

    /// History and epoch are durable.
    pub(crate) fn epoch_is_durable(&mut self, epoch: Epoch, leader: ServerId, last: Zxid, out: &mut Vec<Output>) {
        if let Some(restoring) = &mut self.restoring {
            restoring.held = Some((epoch, leader, last));
            return; // whoever is level serves, and there is no state to serve from yet
        }
        if leader == self.me {
            self.own_epoch_is_durable(epoch, last, out);
        } else if let Some(following) = self.following(leader)
            && following.stage == (Stage::Joining { epoch, told: false })
        {
            following.stage = Stage::Joining { epoch, told: true };
            Self::send(leader, Message::AckLeader { epoch, last }, out);
        }
    }

    /// The leader is established: what we took over is committed.
    pub(crate) fn on_up_to_date(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        committed: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let last = self.log.last();
        let Some(following) = self.following(from) else { return Ok(()) };
        let expected = match following.stage {
            Stage::Joining { epoch: ours, told } => told && ours == epoch,
            Stage::TakingOver { epoch: ours, durable, .. } => durable && ours == epoch,
            Stage::Greeting | Stage::Promised { .. } | Stage::Serving { .. } => false,
        };
        if !expected {
            return Err(self.unexpected(from, "UpToDate"));
        }
        if committed > last {
            return Err(Error::WrongEnd { from, message: "UpToDate", claimed: committed, last });
        }
        following.stage = Stage::Serving { epoch };
        self.commit(committed, out);
        out.push(Output::Serving { epoch });
        Ok(())
    }

    /// New transactions: log them; the acknowledgement waits for the disk.
    pub(crate) fn on_propose(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        prev: Zxid,
        entries: Vec<Entry>,
        committed: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let Some(following) = self.following(from) else { return Ok(()) };
        let serving = match following.stage {
            Stage::Serving { epoch: ours } if ours == epoch => true,
            Stage::Joining { epoch: ours, .. } if ours == epoch => false,
            // Sent before the leader opened a higher epoch, or by a leader that has not heard that we took another.
            Stage::Serving { .. }
            | Stage::Joining { .. }
            | Stage::Greeting
            | Stage::Promised { .. }
            | Stage::TakingOver { .. } => return Ok(()),
        };
        if let Some(wrong) = entries.iter().find(|e| e.zxid.epoch() != epoch) {
            let reason = "a leader proposes in its own epoch";
            return Err(Error::ImpossibleEpoch { from, message: "Propose", epoch: wrong.zxid.epoch(), reason });
        }
        if entries.last().is_some_and(|e| e.zxid <= self.log.last()) {
            return Ok(()); // a duplicate
        }
        self.append(from, "Propose", prev, entries, None, out)?;
        if serving {
            self.commit(committed.min(self.log.last()), out);
        }
        Ok(())
    }

    /// Earlier proposals are committed.
    pub(crate) fn on_commit(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        zxid: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let last = self.log.last();
        let Some(following) = self.following(from) else { return Ok(()) };
        if following.stage != (Stage::Serving { epoch }) {
            return Ok(());
        }
        if zxid > last {
            return Err(Error::WrongEnd { from, message: "Commit", claimed: zxid, last });
        }
        self.commit(zxid, out);
        Ok(())
    }

    /// More of the log is durable: acknowledge it, if it is our leader's.
    pub(crate) fn log_is_durable(&mut self, out: &mut Vec<Output>) {
        let (durable, server) = (self.durable, self.me);
        match &self.role {
            Role::Looking => {}
            Role::Leading(_) => self.own_log_is_durable(out),
            Role::Following(following) => match following.stage {
                Stage::Joining { epoch, told: true } | Stage::Serving { epoch } => {
                    Self::send(following.leader, Message::Ack { epoch, zxid: durable, server }, out);
                }
                Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::TakingOver { .. } => {}
            },
        }
    }

    /// The leader hands over. A follower whose log ends where the leader's does promises and takes over in one step.
    pub(crate) fn on_handover(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        next: Epoch,
        last: Zxid,
        (round, choice, asked): (Round, Proposal, bool),
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        self.check_epoch(from, "Handover", next)?;
        let Some(following) = self.following(from) else { return Ok(()) };
        if following.stage != (Stage::Serving { epoch }) || self.accepted_epoch != epoch || self.current_epoch != epoch
        {
            return Ok(()); // we promised another epoch since
        }
        let target = choice.id;
        if !self.voters.contains(target) {
            return Err(Error::Foreign(target));
        }
        pole_election::check_choice(from, round, &choice, &self.voters)?;
        if next <= epoch {
            let reason = "a hand-over opens a higher epoch";
            return Err(Error::ImpossibleEpoch { from, message: "Handover", epoch: next, reason });
        }
        if last < self.log.last() || (target == self.me && last != self.log.last()) {
            return Err(Error::WrongEnd { from, message: "Handover", claimed: last, last: self.log.last() });
        }
        if last == self.log.last() {
            self.commit(last, out);
            self.take_over(next, target, round, out);
        } else {
            self.end_transfers(out);
            self.role = Role::Following(Following::new(target, round));
            self.greet(out);
        }
        out.push(Output::HandedOver { round, choice, asked });
        Ok(())
    }

    /// Promises and takes `next` over, under `target`, which may be this server.
    pub(crate) fn take_over(&mut self, next: Epoch, target: ServerId, round: Round, out: &mut Vec<Output>) {
        let last = self.log.last();
        self.end_transfers(out);
        self.accepted_epoch = next;
        self.current_epoch = next;
        if target == self.me {
            self.role = Role::Leading(Leading::taking_over(self.me, round, next));
            self.write(DiskOp::TakeOver(next), Then::TookOver { epoch: next, leader: target, last }, out);
            self.admit_waiting(out);
        } else {
            let stage = Stage::TakingOver { epoch: next, last, durable: false };
            self.role = Role::Following(Following { leader: target, round, stage });
            self.write(DiskOp::TakeOver(next), Then::TookOver { epoch: next, leader: target, last }, out);
            self.decline_waiting(round, out);
            self.greet(out);
        }
    }

    /// The hand-over is durable here: tell the target.
    pub(crate) fn take_over_is_durable(&mut self, epoch: Epoch, leader: ServerId, last: Zxid, out: &mut Vec<Output>) {
        if leader == self.me {
            self.own_take_over_is_durable(epoch, last, out);
        } else if let Some(following) = self.following(leader)
            && following.stage == (Stage::TakingOver { epoch, last, durable: false })
        {
            following.stage = Stage::TakingOver { epoch, last, durable: true };
            if self.links.contains(&leader) {
                Self::send(leader, Message::TakenOver { epoch, last }, out);
            }
        }
    }

    /// As follower: tells the leader that we live, without being asked. The answer to no question: counts for nothing but
    /// that. A follower that only answered would be heard a whole round trip late when the link becomes slower.
    pub fn beat(&mut self, out: &mut Vec<Output>) {
        if let Role::Following(following) = &self.role
            && self.links.contains(&following.leader)
        {
            Self::send(following.leader, Message::Pong { seq: UNASKED, accepted: self.accepted_epoch }, out);
        }
    }

    /// The leader asks whether we are still its follower.
    pub(crate) fn on_ping(&mut self, from: ServerId, seq: u64, out: &mut Vec<Output>) -> Result<(), Error> {
        if self.leader() == Some(from) {
            Self::send(from, Message::Pong { seq, accepted: self.accepted_epoch }, out);
        }
        Ok(())
    }

    /// Our state as a follower of `from`, if we are one.
    fn following(&mut self, from: ServerId) -> Option<&mut Following> {
        match &mut self.role {
            Role::Following(following) if following.leader == from => Some(following),
            Role::Following(_) | Role::Looking | Role::Leading(_) => None,
        }
    }

    /// Whether `from` may change our history: our leader after our promise, or the source of our pull.
    pub(crate) fn is_synchronised_by(&self, from: ServerId) -> bool {
        match &self.role {
            Role::Looking => false,
            Role::Following(following) => {
                following.leader == from && matches!(following.stage, Stage::Promised { told: true, .. })
            }
            Role::Leading(leading) => leading.source() == Some(from),
        }
    }
}
