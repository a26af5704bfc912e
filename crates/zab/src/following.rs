//! The follower role: promise the leader's epoch, adopt its history, then log and acknowledge its proposals.
//!
//! Invariants:
//! - Nothing of a lower epoch than the one promised is appended or acknowledged.
//! - The history becomes durable before the epoch, and the epoch before its acknowledgement.
//!
//! A leader takes the same steps for itself; `leading` calls the code here.

use alloc::vec::Vec;
use pole_election::{Proposal, Round};
use pole_types::{Epoch, ServerId, Zxid};

use crate::leading::Leading;
use crate::plan::Plan;
use crate::zab::{OnDurable, Role};
use crate::{DiskOp, Entry, Epochs, Error, Hello, Message, Output, Phase, Promise, Zab};

/// A follower's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Following {
    pub(crate) leader: ServerId,
    /// The round in which the leader was chosen.
    pub(crate) round: Round,
    stage: Stage,
}

/// The progress of our synchronisation with the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The leader has not asked for a promise yet.
    Greeting,
    /// We promised. `reported`: the promise is durable and was sent to the leader.
    Promised { epoch: Epoch, reported: bool },
    /// The history is complete. `reported`: history and epoch are durable and were acknowledged to the leader.
    Joining { epoch: Epoch, reported: bool },
    /// We accepted a hand-over. `durable`: that is on disk and may be reported to the target.
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

/// The sequence number of an unsolicited [`Message::Pong`]; a leader's pings count from 1.
const UNSOLICITED: u64 = 0;

impl Zab {
    /// Sends our Hello to the leader if its link is open, and starts over unless a hand-over is under way.
    pub(crate) fn send_hello(&mut self, out: &mut Vec<Output>) {
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

    /// Handles the reply of a server that we chose and that does not lead.
    pub(crate) fn on_decline(&mut self, from: ServerId, out: &mut Vec<Output>) -> Result<(), Error> {
        if self.following(from).is_some() {
            out.push(Output::LeaderLost { leader: from, reason: "it does not lead" });
        }
        Ok(())
    }

    /// Promises an epoch above the one promised so far, confirms an equal one, and refuses a lower one by naming ours.
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
        following.stage = Stage::Promised { epoch, reported: false };
        self.end_transfers(out);
        self.accepted_epoch = epoch;
        self.void_promises();
        // Queued behind all appends, because the answer reports the last of them. Written again even if equal, so that
        // the answer waits for the writes under way.
        let on_durable = OnDurable::Promised { epoch, leader: from, fresh: epoch > accepted };
        self.write(DiskOp::AcceptedEpoch(epoch), on_durable, out);
        out.push(Output::Promised { epoch });
        Ok(())
    }

    /// A promise became durable: reports it, unless it is void by now.
    pub(crate) fn promise_is_durable(&mut self, epoch: Epoch, leader: ServerId, fresh: bool, out: &mut Vec<Output>) {
        let promise = self.promise(epoch, fresh);
        if leader == self.me {
            self.own_promise_is_durable(promise, out);
        } else if let Some(following) = self.following(leader)
            && following.stage == (Stage::Promised { epoch, reported: false })
        {
            following.stage = Stage::Promised { epoch, reported: true };
            Self::send(leader, Message::AckEpoch(promise), out);
        }
    }

    /// Our promise of `epoch`, with the history that we report along with it.
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

    /// Sends a leader that is behind us what it lacks.
    pub(crate) fn on_pull(&mut self, from: ServerId, epochs: &Epochs, out: &mut Vec<Output>) -> Result<(), Error> {
        let Some(following) = self.following(from) else { return Ok(()) };
        if !matches!(following.stage, Stage::Promised { reported: true, .. }) {
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
            Plan::Snapshot => self.request_snapshot(from, out),
        }
        Ok(())
    }

    /// Truncates the log to what we share with the sender.
    pub(crate) fn on_truncate(&mut self, from: ServerId, to: Zxid, out: &mut Vec<Output>) -> Result<(), Error> {
        if !self.is_synchronised_by(from) {
            return Ok(());
        }
        self.cut(from, to, out)?;
        out.push(Output::Progress);
        Ok(())
    }

    /// Appends a part of the difference.
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

    /// Handles the end of the difference: the history becomes durable, then the epoch, then it is acknowledged.
    pub(crate) fn on_new_leader(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let ours = self.log.last();
        let Some(following) = self.following(from) else { return Ok(()) };
        if following.stage != (Stage::Promised { epoch, reported: true }) {
            return Err(self.unexpected(from, "NewLeader"));
        }
        if last != ours {
            return Err(Error::WrongEnd { from, message: "NewLeader", claimed: last, last: ours });
        }
        following.stage = Stage::Joining { epoch, reported: false };
        self.adopt_epoch(epoch, from, out);
        out.push(Output::Progress);
        Ok(())
    }

    /// Queues the write of `current_epoch` behind the history that it refers to.
    pub(crate) fn adopt_epoch(&mut self, epoch: Epoch, leader: ServerId, out: &mut Vec<Output>) {
        self.current_epoch = epoch;
        let last = self.log.last();
        self.write(DiskOp::CurrentEpoch(epoch), OnDurable::AdoptedEpoch { epoch, leader, last }, out);
    }

    /// History and epoch are durable: acknowledges them, or defers that while the state is being restored.
    pub(crate) fn epoch_is_durable(&mut self, epoch: Epoch, leader: ServerId, last: Zxid, out: &mut Vec<Output>) {
        if let Some(restoring) = &mut self.restoring {
            restoring.held = Some((epoch, leader, last));
            return; // a server that acknowledges must serve, and there is no state to serve from yet
        }
        if leader == self.me {
            self.own_epoch_is_durable(epoch, last, out);
        } else if let Some(following) = self.following(leader)
            && following.stage == (Stage::Joining { epoch, reported: false })
        {
            following.stage = Stage::Joining { epoch, reported: true };
            Self::send(leader, Message::AckLeader { epoch, last }, out);
        }
    }

    /// The leader is established: what we adopted is committed.
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
            Stage::Joining { epoch: ours, reported } => reported && ours == epoch,
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

    /// Logs new transactions. They are acknowledged when they are durable.
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
            // Sent before the leader opened a higher epoch, or by a leader that does not know yet that we accepted
            // another one.
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

    /// Commits earlier proposals.
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

    /// More of the log is durable: acknowledges it, if our history is the leader's.
    pub(crate) fn log_is_durable(&mut self, out: &mut Vec<Output>) {
        let (durable, server) = (self.durable, self.me);
        match &self.role {
            Role::Looking => {}
            Role::Leading(_) => self.own_log_is_durable(out),
            Role::Following(following) => match following.stage {
                Stage::Joining { epoch, reported: true } | Stage::Serving { epoch } => {
                    Self::send(following.leader, Message::Ack { epoch, zxid: durable, server }, out);
                }
                Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::TakingOver { .. } => {}
            },
        }
    }

    /// Handles a hand-over. A follower whose log ends where the leader's does promises and adopts the next epoch in one
    /// step.
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
            return Ok(()); // we have promised another epoch since
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
            self.send_hello(out);
        }
        out.push(Output::HandedOver { round, choice, asked });
        Ok(())
    }

    /// Promises and adopts epoch `next` under `target`, which may be this server.
    pub(crate) fn take_over(&mut self, next: Epoch, target: ServerId, round: Round, out: &mut Vec<Output>) {
        let last = self.log.last();
        self.end_transfers(out);
        self.accepted_epoch = next;
        self.current_epoch = next;
        if target == self.me {
            self.role = Role::Leading(Leading::taking_over(self.me, round, next));
            self.write(DiskOp::TakeOver(next), OnDurable::TookOver { epoch: next, leader: target, last }, out);
            self.admit_waiting(out);
        } else {
            let stage = Stage::TakingOver { epoch: next, last, durable: false };
            self.role = Role::Following(Following { leader: target, round, stage });
            self.write(DiskOp::TakeOver(next), OnDurable::TookOver { epoch: next, leader: target, last }, out);
            self.decline_waiting(round, out);
            self.send_hello(out);
        }
    }

    /// The hand-over is durable here: reports that to the target.
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

    /// Sends the leader an unsolicited sign of life, if this server follows one. It confirms no ping. If followers only
    /// answered pings, the leader would notice them a whole round trip late whenever a link becomes slower.
    pub fn send_keepalive(&mut self, out: &mut Vec<Output>) {
        if let Role::Following(following) = &self.role
            && self.links.contains(&following.leader)
        {
            Self::send(following.leader, Message::Pong { seq: UNSOLICITED, accepted: self.accepted_epoch }, out);
        }
    }

    /// Answers the leader's question whether we still follow it.
    pub(crate) fn on_ping(&mut self, from: ServerId, seq: u64, out: &mut Vec<Output>) -> Result<(), Error> {
        if self.leader() == Some(from) {
            Self::send(from, Message::Pong { seq, accepted: self.accepted_epoch }, out);
        }
        Ok(())
    }

    /// Our state as a follower of `from`, if we follow it.
    fn following(&mut self, from: ServerId) -> Option<&mut Following> {
        match &mut self.role {
            Role::Following(following) if following.leader == from => Some(following),
            Role::Following(_) | Role::Looking | Role::Leading(_) => None,
        }
    }

    /// Whether `from` may change our history: it is our leader and has our promise, or it is the source of our pull.
    pub(crate) fn is_synchronised_by(&self, from: ServerId) -> bool {
        match &self.role {
            Role::Looking => false,
            Role::Following(following) => {
                following.leader == from && matches!(following.stage, Stage::Promised { reported: true, .. })
            }
            Role::Leading(leading) => leading.source() == Some(from),
        }
    }
}
