//! The follower role: promise the leader's epoch, adopt its history, then log and acknowledge its proposals.
//!
//! Invariants:
//! - Nothing of a lower epoch than the one promised is appended or acknowledged.
//! - The history becomes durable before the epoch, and the epoch before its acknowledgement.
//!
//! A leader takes the same steps for itself, see `leading`.

use alloc::vec::Vec;
use pole_election::{Proposal, Round};
use pole_types::{Epoch, ServerId, Zxid};

use crate::direct::{Acknowledged, Listeners};
use crate::plan::Plan;
use crate::role::Role;
use crate::state::{OnDurable, State, send};
use crate::{DiskOp, Entry, Epochs, Error, Hello, Message, Output, Phase, Promise};

/// A follower's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Following {
    pub(crate) leader: ServerId,
    /// The round in which the leader was chosen.
    pub(crate) round: Round,
    stage: Stage,
    listeners: Listeners,
    acknowledged: Acknowledged,
}

/// The progress of our synchronisation with the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The leader has not asked for a promise yet.
    Greeting,
    /// We promised. `asked`: the leader has opened the epoch; otherwise we promise it ahead. `reported`: the promise is
    /// durable and was sent to the leader.
    Promised { epoch: Epoch, asked: bool, reported: bool },
    /// The history is complete. `reported`: history and epoch are durable and were acknowledged to the leader.
    Joining { epoch: Epoch, reported: bool },
    /// We accepted a hand-over. `durable`: that is on disk and may be reported to the target.
    TakingOver { epoch: Epoch, last: Zxid, durable: bool },
    /// The leader is established.
    Serving { epoch: Epoch },
}

/// The sequence number of an unsolicited [`Message::Pong`]; a leader's pings count from 1.
const UNSOLICITED: u64 = 0;

impl Following {
    /// Begins to follow, as the election decided. `expected` is promised ahead: see [`Self::promise`].
    pub(crate) fn new(
        state: &mut State,
        leader: ServerId,
        round: Round,
        expected: Option<Epoch>,
        out: &mut Vec<Output>,
    ) -> Self {
        let mut following = Self::in_stage(leader, round, Stage::Greeting);
        following.send_hello(state, out);
        if let Some(epoch) = expected.filter(|epoch| *epoch > state.accepted_epoch && state.links.contains(&leader)) {
            following.promise(state, epoch, false, out);
        }
        following
    }

    /// Begins to follow the target of a hand-over, which is being written.
    pub(crate) fn taking_over(
        state: &mut State,
        leader: ServerId,
        round: Round,
        epoch: Epoch,
        out: &mut Vec<Output>,
    ) -> Self {
        let stage = Stage::TakingOver { epoch, last: state.log.last(), durable: false };
        let mut following = Self::in_stage(leader, round, stage);
        state.decline_waiting(round, out);
        following.send_hello(state, out);
        following
    }

    fn in_stage(leader: ServerId, round: Round, stage: Stage) -> Self {
        Self { leader, round, stage, listeners: Listeners::default(), acknowledged: Acknowledged::default() }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.stage {
            // What is promised ahead shows nothing about the leader.
            Stage::Greeting | Stage::Promised { asked: false, .. } => Phase::Greeting,
            Stage::Promised { .. } => Phase::Promised,
            Stage::Joining { .. } => Phase::Joining,
            Stage::TakingOver { .. } => Phase::TakingOver,
            Stage::Serving { .. } => Phase::Serving,
        }
    }

    /// The epoch in which the leader takes our requests: from our acknowledgement of its history on. It proposes none
    /// before it is established. The target of a hand-over takes none before that, because its link may still be closed.
    pub(crate) fn forwarding_epoch(&self) -> Option<Epoch> {
        match self.stage {
            Stage::Joining { epoch, reported: true } | Stage::Serving { epoch } => Some(epoch),
            Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::TakingOver { .. } => None,
        }
    }

    /// Whether the leader has asked for our promise, it is durable and was sent, and the history is not complete yet.
    pub(crate) fn has_reported_promise(&self) -> bool {
        matches!(self.stage, Stage::Promised { asked: true, reported: true, .. })
    }

    /// Sends our Hello to the leader if its link is open, and starts over unless a hand-over is under way.
    pub(crate) fn send_hello(&mut self, state: &State, out: &mut Vec<Output>) {
        let (leader, round, stage) = (self.leader, self.round, self.stage);
        if !state.links.contains(&leader) {
            return;
        }
        let taking_over = match stage {
            Stage::TakingOver { epoch, .. } => Some(epoch),
            Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::Serving { .. } => {
                *self = Self::in_stage(leader, round, Stage::Greeting);
                None
            }
        };
        send(leader, Message::Hello(Hello { round, accepted_epoch: state.accepted_epoch, taking_over }), out);
        if let Stage::TakingOver { epoch, last, durable: true } = stage {
            send(leader, Message::TakenOver { epoch, last }, out);
        }
    }

    /// Handles the reply of a server that we chose and that does not lead.
    pub(crate) fn on_decline(&self, out: &mut Vec<Output>) {
        out.push(Output::LeaderLost { leader: self.leader, reason: "it does not lead" });
    }

    /// Promises an epoch above the one promised so far, confirms an equal one, and refuses a lower one by naming ours.
    pub(crate) fn on_new_epoch(&mut self, state: &mut State, epoch: Epoch, out: &mut Vec<Output>) {
        let accepted = state.accepted_epoch;
        if epoch < accepted {
            send(self.leader, Message::RefuseEpoch { refused: epoch, accepted }, out);
            return;
        }
        if self.stage == Stage::Greeting || epoch > accepted {
            self.promise(state, epoch, true, out);
        } else if let Stage::Promised { asked: false, reported, .. } = self.stage {
            self.stage = Stage::Promised { epoch, asked: true, reported };
            if reported {
                // It was sent before, perhaps too early, and did not show that we hear the leader.
                send(self.leader, Message::AckEpoch(state.promise(epoch, true)), out);
            }
        } else {
            return; // a duplicate: we are past it
        }
        out.push(Output::Promised { epoch });
    }

    /// Makes a promise durable. A follower that has just elected its leader does not wait to be asked, which saves a round
    /// trip: both know the epochs of the same votes, so it knows which epoch the leader will open. A promise of any other
    /// epoch does not count, and the leader asks again.
    fn promise(&mut self, state: &mut State, epoch: Epoch, asked: bool, out: &mut Vec<Output>) {
        let fresh = epoch > state.accepted_epoch;
        *self = Self::in_stage(self.leader, self.round, Stage::Promised { epoch, asked, reported: false });
        state.end_transfers(out);
        state.accepted_epoch = epoch;
        state.void_promises();
        // Queued behind all appends, because the answer reports the last of them. Written again even if equal, so that
        // the answer waits for the writes under way.
        let on_durable = OnDurable::Promised { epoch, leader: self.leader, fresh };
        state.write(DiskOp::AcceptedEpoch(epoch), on_durable, out);
    }

    /// Our promise became durable: reports it, unless it is void by now.
    pub(crate) fn promise_is_durable(&mut self, promise: Promise, out: &mut Vec<Output>) {
        let epoch = promise.epoch;
        if let Stage::Promised { epoch: ours, asked, reported: false } = self.stage
            && ours == epoch
        {
            self.stage = Stage::Promised { epoch, asked, reported: true };
            send(self.leader, Message::AckEpoch(Promise { ahead: !asked, ..promise }), out);
        }
    }

    /// Sends a leader that is behind us what it lacks.
    pub(crate) fn on_pull(&self, state: &mut State, epochs: &Epochs, out: &mut Vec<Output>) -> Result<(), Error> {
        if !self.has_reported_promise() {
            return Err(self.unexpected("Pull"));
        }
        match Plan::make(&state.log, epochs) {
            Plan::Difference { truncate, after } => {
                if truncate {
                    send(self.leader, Message::Truncate { to: after }, out);
                }
                if state.send_log(self.leader, after, out).is_complete() {
                    self.history_is_sent(state, out);
                }
            }
            Plan::Snapshot => state.request_snapshot(self.leader, out),
        }
        Ok(())
    }

    /// The leader was sent everything that it lacked.
    pub(crate) fn history_is_sent(&self, state: &State, out: &mut Vec<Output>) {
        send(self.leader, Message::PullEnd { last: state.log.last() }, out);
    }

    /// Handles the end of the difference: the history becomes durable, then the epoch, then it is acknowledged.
    pub(crate) fn on_new_leader(
        &mut self,
        state: &mut State,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if self.stage != (Stage::Promised { epoch, asked: true, reported: true }) {
            return Err(self.unexpected("NewLeader"));
        }
        if last != state.log.last() {
            return Err(self.wrong_end("NewLeader", last, state));
        }
        self.stage = Stage::Joining { epoch, reported: false };
        state.adopt_epoch(epoch, self.leader, out);
        out.push(Output::Progress);
        Ok(())
    }

    /// History and epoch are durable: acknowledges them.
    pub(crate) fn epoch_is_durable(&mut self, state: &mut State, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        if self.stage == (Stage::Joining { epoch, reported: false }) {
            self.stage = Stage::Joining { epoch, reported: true };
            send(self.leader, Message::AckLeader { epoch, last }, out);
            if state.durable > last {
                // Proposals that became durable while the state was being restored.
                self.log_is_durable(state, out);
            }
            out.push(Output::MayForward);
        }
    }

    /// The leader is established: what we adopted is committed.
    pub(crate) fn on_up_to_date(
        &mut self,
        state: &mut State,
        epoch: Epoch,
        committed: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let expected = match self.stage {
            Stage::Joining { epoch: ours, reported } => reported && ours == epoch,
            Stage::TakingOver { epoch: ours, durable, .. } => durable && ours == epoch,
            Stage::Greeting | Stage::Promised { .. } | Stage::Serving { .. } => false,
        };
        if !expected {
            return Err(self.unexpected("UpToDate"));
        }
        if committed > state.log.last() {
            return Err(self.wrong_end("UpToDate", committed, state));
        }
        if self.forwarding_epoch().is_none() {
            out.push(Output::MayForward);
        }
        self.stage = Stage::Serving { epoch };
        state.commit(committed, out);
        out.push(Output::Serving { epoch });
        self.try_commit(state, out);
        Ok(())
    }

    /// Logs new transactions. They are acknowledged when they are durable.
    pub(crate) fn on_propose(
        &mut self,
        state: &mut State,
        epoch: Epoch,
        (prev, entries): (Zxid, Vec<Entry>),
        committed: Zxid,
        listeners: Vec<ServerId>,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let from = self.leader;
        let serving = match self.stage {
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
        if entries.last().is_some_and(|e| e.zxid <= state.log.last()) {
            return Ok(()); // a duplicate
        }
        let first = entries.first().map(|entry| entry.zxid);
        state.append(from, "Propose", prev, entries, None, out)?;
        if let Some(first) = first {
            self.listeners.add(first, state.log.last(), listeners);
        }
        if serving {
            state.commit(committed.min(state.log.last()), out);
            self.try_commit(state, out);
        }
        Ok(())
    }

    /// Another server tells us, as a listener, what it has durably.
    pub(crate) fn on_ack(
        &mut self,
        state: &mut State,
        from: ServerId,
        epoch: Epoch,
        zxid: Zxid,
        out: &mut Vec<Output>,
    ) {
        match self.stage {
            Stage::Joining { epoch: ours, .. } if ours == epoch => self.acknowledged.record(from, zxid),
            Stage::Serving { epoch: ours } if ours == epoch => {
                self.acknowledged.record(from, zxid);
                self.try_commit(state, out);
            }
            // Of another epoch. That server may have truncated its log since.
            Stage::Serving { .. }
            | Stage::Joining { .. }
            | Stage::Greeting
            | Stage::Promised { .. }
            | Stage::TakingOver { .. } => {}
        }
    }

    /// Commits what a quorum has durably, if we know that before the leader's word arrives.
    fn try_commit(&self, state: &mut State, out: &mut Vec<Output>) {
        if !matches!(self.stage, Stage::Serving { .. }) {
            return;
        }
        let known = self.acknowledged.of_quorum(state).map(|zxid| zxid.min(state.log.last()));
        if let Some(zxid) = known.filter(|zxid| *zxid > state.committed) {
            state.commit(zxid, out);
            out.push(Output::CommittedDirectly);
        }
    }

    /// The link to a server that is not our leader was closed.
    pub(crate) fn peer_left(&mut self, peer: ServerId) {
        self.acknowledged.forget(peer);
    }

    /// Commits earlier proposals.
    pub(crate) fn on_commit(
        &self,
        state: &mut State,
        epoch: Epoch,
        zxid: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if self.stage != (Stage::Serving { epoch }) {
            return Ok(());
        }
        if zxid > state.log.last() {
            return Err(self.wrong_end("Commit", zxid, state));
        }
        state.commit(zxid, out);
        Ok(())
    }

    /// More of the log is durable: acknowledges it, if our history is the leader's.
    pub(crate) fn log_is_durable(&mut self, state: &mut State, out: &mut Vec<Output>) {
        match self.stage {
            Stage::Joining { epoch, reported: true } | Stage::Serving { epoch } => {
                send(self.leader, Message::Ack { epoch, zxid: state.durable, server: state.me }, out);
                self.listeners.tell(state, epoch, out);
                self.try_commit(state, out);
            }
            Stage::Greeting | Stage::Promised { .. } | Stage::Joining { .. } | Stage::TakingOver { .. } => {}
        }
    }

    /// Handles a hand-over, and returns our role after it. A follower whose log ends where the leader's does promises
    /// and adopts the next epoch in one step.
    pub(crate) fn on_handover(
        &self,
        state: &mut State,
        epoch: Epoch,
        next: Epoch,
        last: Zxid,
        (round, choice, asked): (Round, Proposal, bool),
        out: &mut Vec<Output>,
    ) -> Result<Option<Role>, Error> {
        let from = self.leader;
        if self.stage != (Stage::Serving { epoch }) || state.accepted_epoch != epoch || state.current_epoch != epoch {
            return Ok(None); // we have promised another epoch since
        }
        let target = choice.id;
        if !state.voters().contains(target) {
            return Err(Error::Foreign(target));
        }
        pole_election::check_choice(from, round, &choice, state.voters())?;
        if next <= epoch {
            let reason = "a hand-over opens a higher epoch";
            return Err(Error::ImpossibleEpoch { from, message: "Handover", epoch: next, reason });
        }
        if last < state.log.last() || (target == state.me && last != state.log.last()) {
            return Err(self.wrong_end("Handover", last, state));
        }
        let role = if last == state.log.last() {
            state.commit(last, out);
            Role::take_over(state, next, target, round, out)
        } else {
            state.end_transfers(out);
            Role::Following(Self::new(state, target, round, None, out))
        };
        out.push(Output::HandedOver { round, choice, asked });
        Ok(Some(role))
    }

    /// The hand-over is durable here: reports that to the target.
    pub(crate) fn take_over_is_durable(&mut self, state: &State, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        if self.stage == (Stage::TakingOver { epoch, last, durable: false }) {
            self.stage = Stage::TakingOver { epoch, last, durable: true };
            if state.links.contains(&self.leader) {
                send(self.leader, Message::TakenOver { epoch, last }, out);
            }
        }
    }

    /// Sends the leader an unsolicited sign of life. It confirms no ping. If followers only answered pings, the leader
    /// would notice them a whole round trip late whenever a link becomes slower.
    pub(crate) fn send_keepalive(&self, state: &State, out: &mut Vec<Output>) {
        if state.links.contains(&self.leader) {
            send(self.leader, Message::Pong { seq: UNSOLICITED, accepted: state.accepted_epoch }, out);
        }
    }

    /// Answers the leader's question whether we still follow it.
    pub(crate) fn on_ping(&self, state: &State, seq: u64, out: &mut Vec<Output>) {
        send(self.leader, Message::Pong { seq, accepted: state.accepted_epoch }, out);
    }

    fn wrong_end(&self, message: &'static str, claimed: Zxid, state: &State) -> Error {
        Error::WrongEnd { from: self.leader, message, claimed, last: state.log.last() }
    }

    fn unexpected(&self, message: &'static str) -> Error {
        Error::Unexpected { from: self.leader, message, phase: self.phase() }
    }
}
