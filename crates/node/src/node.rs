//! One server: composes the election, the oracle, the agreement and the state machine.
//!
//! Invariant: outputs of the agreement are carried out in the order in which they were emitted, even when carrying one
//! out causes more. Messages on a link therefore keep the order that the agreement gave them.
//!
//! Further parts of [`Node`] are in `roles` (elections, leading, following, time limits), `serving` (clients and their
//! requests), `handover` (resignation and transfer) and `scoring` (the oracle).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Cause, Election};
use pole_oracle::{MeasureConfig, Oracle};
use pole_types::{ServerId, SessionId, Span, Time, Zxid};
use pole_zab::{Output, Phase, Recovered, Requests, Ticket, Zab};

use crate::checkpoints::SinceCheckpoint;
use crate::clients::Clients;
use crate::disk_watch::DiskWatch;
use crate::lag::Lag;
use crate::leadership::Leadership;
use crate::leadership_changes::{LeadershipChanges, Milestone};
use crate::liveness::Liveness;
use crate::scoring::{ElectionHost, Scoring};
use crate::sessions::Touches;
use crate::syncs::PendingSyncs;
use crate::transfers::Transfers;
use crate::{Channel, Config, Effect, Event, LeadershipChange, Machine, Message, Note, Request, Timer};

/// One server as a pure state machine.
pub struct Node<M> {
    pub(crate) config: Config,
    /// The time of the present step.
    pub(crate) now: Time,
    pub(crate) election: Election,
    pub(crate) scoring: Scoring,
    pub(crate) zab: Zab,
    pub(crate) machine: M,
    /// The last transaction applied to the state machine.
    pub(crate) applied: Zxid,
    /// Transactions applied since the last snapshot.
    pub(crate) since_checkpoint: SinceCheckpoint,
    pub(crate) clients: Clients,
    /// The unanswered writes of our clients.
    pub(crate) requests: Requests<Bytes>,
    /// The number of attachments of clients to this server, which numbers them.
    pub(crate) attachments: u32,
    /// The last change of the members for which [`Effect::Members`] was emitted.
    pub(crate) reported_members: Zxid,
    /// As follower: requests of this step, to be forwarded in one message.
    pub(crate) outbox: Vec<Request>,
    /// As leader that is not established yet: requests of the servers that have joined. As in the inbox of an established
    /// one, each server bounds how many its clients may have under way.
    pub(crate) early_requests: Vec<(ServerId, Request)>,
    /// What only an established leader has.
    pub(crate) leadership: Option<Leadership>,
    /// [`Effect::Continue`] was returned and not answered yet.
    pub(crate) continue_requested: bool,
    /// Not everything that is ready was applied.
    pub(crate) applies_later: bool,
    pub(crate) lag: Lag,
    /// How often this server reported that it is behind.
    pub(crate) lag_reports: u64,
    pub(crate) pending_syncs: PendingSyncs,
    pub(crate) liveness: Liveness,
    pub(crate) touches: Touches,
    /// As the target of a hand-over: the time left to sessions, as the last leader sent it.
    pub(crate) remaining: BTreeMap<SessionId, Span>,
    /// The wall clock in milliseconds since 1970.
    pub(crate) wall_ms: i64,
    disk: DiskWatch,
    transfers: Transfers,
    pub(crate) leadership_changes: LeadershipChanges,
    /// Whether clients wait for a leader and [`Timer::Grace`] is running.
    pub(crate) grace: bool,
    /// When the present phase began, if its time limit depends on the round trips.
    pub(crate) phase_since: Option<Time>,
    /// Servers that hold an election in an older round, as far as we know, since our own election ended.
    pub(crate) electing_elsewhere: BTreeSet<ServerId>,
    /// Voters that hold an election while this server has a leader, and have not answered a heartbeat since.
    pub(crate) probed_seekers: BTreeSet<ServerId>,
    /// When this server last began an election.
    pub(crate) electing_since: Time,
    /// When this server last began to serve.
    pub(crate) serving_since: Time,
    /// The number of attempts to lead or to follow that made no progress since we last served.
    pub(crate) failed_attempts: u32,
    /// When we last opened an epoch because another server had promised a higher one.
    pub(crate) reopened: Option<Time>,
    /// How often direct acknowledgements showed a commit before the leader did.
    pub(crate) committed_directly: u64,
    /// Outputs of the agreement that are not carried out yet.
    pending: VecDeque<Output>,
    /// A scratch buffer for the outputs of one call, reused to avoid reallocation.
    zab_outputs: Vec<Output>,
    halted: bool,
}

impl<M: Machine> Node<M> {
    /// Creates a server from the state found on its disk.
    ///
    /// # Panics
    /// If the snapshot is not one of this state machine. The caller must have checked that.
    #[must_use]
    pub fn new(config: Config, oracle: Box<dyn Oracle>, mut machine: M, disk: Recovered, now: Time) -> Self {
        if let Some(snapshot) = &disk.snapshot {
            machine.restore(snapshot.zxid, &snapshot.body.to_bytes()).expect("a snapshot read from disk is whole");
        }
        Self::resume(config, oracle, machine, disk, now)
    }

    /// Like [`Node::new`], for a machine that already has the state of the snapshot of `disk`. The body of the snapshot
    /// is not used.
    #[must_use]
    pub fn resume(mut config: Config, oracle: Box<dyn Oracle>, machine: M, disk: Recovered, now: Time) -> Self {
        let described = machine.members().and_then(|(members, at)| Some((M::parse_members(&members)?, at)));
        let members = described.unwrap_or((config.members, Zxid::ZERO));
        let zab = Zab::new_changing(config.me, members, M::MEMBERS_OF, config.limits, disk);
        config.members = zab.members().clone();
        let mut election = pole_election::Config::new(config.me, config.voters().before_change());
        election.observers = config.members.observers().clone();
        election.changing = config.limits.joiners;
        election.timeout = config.election_timeout;
        election.first_score_wait = config.first_score_wait;
        let measure = MeasureConfig {
            heartbeat: config.heartbeat,
            half_life: config.rate_half_life,
            started: now,
            direct_acks: config.direct_acks,
            ..MeasureConfig::default()
        };
        Self {
            now,
            election: Election::new(election),
            scoring: Scoring::new(config.me, config.members.clone(), measure, config.resign, oracle),
            applied: zab.committed(),
            zab,
            machine,
            since_checkpoint: SinceCheckpoint::default(),
            clients: Clients::default(),
            requests: Requests::default(),
            attachments: 0,
            reported_members: Zxid::ZERO,
            outbox: Vec::new(),
            early_requests: Vec::new(),
            leadership: None,
            continue_requested: false,
            applies_later: false,
            lag: Lag::default(),
            lag_reports: 0,
            pending_syncs: PendingSyncs::default(),
            liveness: Liveness::default(),
            touches: Touches::default(),
            remaining: BTreeMap::new(),
            wall_ms: 0,
            disk: DiskWatch::default(),
            transfers: Transfers::default(),
            leadership_changes: LeadershipChanges::default(),
            grace: false,
            phase_since: None,
            electing_elsewhere: BTreeSet::new(),
            probed_seekers: BTreeSet::new(),
            electing_since: Time(0),
            serving_since: Time(0),
            failed_attempts: 0,
            reopened: None,
            committed_directly: 0,
            pending: VecDeque::new(),
            zab_outputs: Vec::new(),
            halted: false,
            config,
        }
    }

    /// Counts transactions, and their bytes, that were in the log after the newest snapshot on disk and are already
    /// applied. They count towards the next snapshot.
    pub fn count_since_snapshot(&mut self, transactions: u64, bytes: u64) {
        self.since_checkpoint.count(transactions, bytes);
    }

    /// Handles an event at time `now`, which must not decrease.
    pub fn step(&mut self, event: Event, now: Time, out: &mut Vec<Effect>) {
        if self.halted {
            return;
        }
        self.now = now.max(self.now);
        self.begin_turn();
        self.dispatch(event, out);
        self.settle(out);
        self.report_lag(out);
        self.zab.assert_invariants();
    }

    /// A driver that calls [`Self::step_all`] begins another turn, after which it sends and writes what it was given. What
    /// a leader proposes in a turn is limited, so that it soon comes to the messages of others.
    pub fn begin_turn(&mut self) {
        self.leadership.iter_mut().for_each(Leadership::begin_turn);
    }

    /// Handles several events in order. This is equivalent to a step for each, but clients' requests are gathered so
    /// that they are sent and written together.
    pub fn step_all(&mut self, events: impl IntoIterator<Item = Event>, now: Time, out: &mut Vec<Effect>) {
        self.now = now.max(self.now);
        for event in events {
            let is_batched = event.is_batched();
            if self.halted {
                return;
            }
            self.dispatch(event, out);
            if !is_batched {
                self.settle(out);
            }
        }
        self.settle(out);
        self.report_lag(out);
        self.zab.assert_invariants();
    }

    fn dispatch(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Start => self.start(out),
            Event::LinkUp { peer, channel } => self.link_up(peer, channel, out),
            Event::LinkDown { peer, channel } => self.link_down(peer, channel, out),
            Event::Received { from, channel, message } => self.received(from, channel, message, out),
            Event::Written { through } => self.written(through, out),
            Event::DiskFailed { reason } => self.halt(reason, out),
            Event::PieceReady { transfer, body, last } => {
                self.with_zab(|zab, outputs| zab.piece_is_ready(transfer, body, last, outputs));
            }
            Event::LogRead { transfer, entries } => {
                self.with_zab(|zab, outputs| zab.log_is_read(transfer, entries, outputs));
            }
            Event::Restored { ticket, failed } => self.restored(ticket, failed, out),
            Event::Continue => {
                self.continue_requested = false;
                self.continue_applying(out);
            }
            Event::Expired(timer) => self.expired(timer, out),
            Event::Attach { client, session, body } => self.attach(client, session, body, out),
            Event::Request { client, cxid, body } => self.request(client, cxid, body),
            Event::Read { client, cxid, body } => self.read(client, cxid, body, out),
            Event::Sync { client, cxid } => self.sync(client, cxid),
            Event::Touched { sessions } => self.touches.record(sessions),
            Event::Detach { client } => self.detach(client),
            Event::Transfer { to } => self.transfer_requested(to, out),
        }
    }

    /// Sets the wall clock, in milliseconds since 1970. It is recorded in transactions for people to read and decides
    /// nothing but the expiry of nodes with a time to live.
    pub fn set_wall_ms(&mut self, wall_ms: i64) {
        self.wall_ms = wall_ms;
    }

    pub fn zab(&self) -> &Zab {
        &self.zab
    }

    pub fn election(&self) -> &Election {
        &self.election
    }

    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Mutable access to the state machine, for the driver between two steps.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The last transaction applied to the state machine.
    pub fn applied(&self) -> Zxid {
        self.applied
    }

    /// The last elections and hand-overs as this server saw them, newest first.
    pub fn leadership_changes(&self) -> impl Iterator<Item = &LeadershipChange> {
        self.leadership_changes.iter()
    }

    /// The oracle in force.
    pub fn oracle(&self) -> &dyn Oracle {
        self.scoring.oracle()
    }

    /// Sets the oracle, chosen by the transaction at `version`.
    pub fn set_oracle(&mut self, oracle: Box<dyn Oracle>, version: Zxid) {
        self.scoring.set_oracle(oracle, version);
    }

    fn start(&mut self, out: &mut Vec<Effect>) {
        self.update_oracle(out);
        self.report_members(out);
        out.push(Effect::Arm { timer: Timer::Heartbeat, after: self.config.heartbeat });
        out.push(Effect::Arm { timer: Timer::Liveness, after: self.config.liveness });
        self.elect(Cause::Start, out);
    }

    fn link_up(&mut self, peer: ServerId, channel: Channel, out: &mut Vec<Effect>) {
        if !self.config.limits.joiners && !self.config.members.contains(peer) {
            return self.refuse(peer, channel, "not a member of this ensemble: check its configuration".into(), out);
        }
        match channel {
            Channel::Election => {
                self.election.link_up(peer);
                self.scoring.link_up(peer);
                let mut outputs = Vec::new();
                self.election.propose_to(peer, &mut outputs);
                self.carry_out_election(outputs, out);
                self.heartbeat(peer, out);
            }
            Channel::Quorum => {
                self.with_zab(|zab, outputs| zab.link_up(peer, outputs));
                if self.zab.phase() == Phase::Greeting && self.zab.leader() == Some(peer) && self.phase_since.is_some()
                {
                    // The leader cannot receive our Hello before now.
                    self.arm_phase_by_round_trips(out);
                }
            }
        }
    }

    fn link_down(&mut self, peer: ServerId, channel: Channel, out: &mut Vec<Effect>) {
        match channel {
            Channel::Election => {
                self.scoring.link_down(peer);
                self.with_election(out, |election, host, outputs| election.link_down(peer, host, outputs));
            }
            Channel::Quorum => {
                self.liveness.forget(peer);
                self.with_zab(|zab, outputs| zab.link_down(peer, outputs));
            }
        }
    }

    fn received(&mut self, from: ServerId, channel: Channel, message: Message, out: &mut Vec<Effect>) {
        if channel == Channel::Quorum {
            self.liveness.received(from, self.now);
        }
        match (channel, message) {
            (Channel::Election, Message::Election(message)) => {
                self.demote_blank(&message, out);
                let proposed = match &message {
                    pole_election::Message::Propose(propose) => Some(propose.round),
                    pole_election::Message::Vote(_) | pole_election::Message::Ask => None,
                };
                let may_retry = self.leader_is_silent() || self.awaits_leader(from);
                let retry = proposed.filter(|round| *round > self.election.round() && may_retry);
                if proposed.is_some() {
                    self.probe_seeker(from, out);
                }
                let is_elsewhere = proposed.is_some_and(|round| round < self.election.round());
                if proposed.is_some_and(|round| round > self.election.round()) {
                    self.leader_given_up();
                }
                let outcome =
                    self.with_election(out, |election, host, outputs| election.receive(from, message, host, outputs));
                match (outcome, retry) {
                    (Err(error), _) => self.refuse(from, channel, error.to_string(), out),
                    (Ok(()), Some(round)) => self.join_round(round, out),
                    (Ok(()), None) if is_elsewhere => self.elects_elsewhere(from, out),
                    (Ok(()), None) => drop(self.electing_elsewhere.remove(&from)),
                }
            }
            (Channel::Election, Message::Heartbeat { seq, members, report }) => {
                self.compare_members(from, members, out);
                self.record_lacking(from, report.standing.last_zxid);
                self.scoring.measurements.record_report(from, *report, self.now);
                out.push(Effect::Send { to: from, channel, message: Message::Echo { seq } });
                if self.quorum_moved_on() {
                    self.abandon("a quorum went on under another leader", Cause::Retry, out);
                }
            }
            (Channel::Election, Message::Members { version, members }) => self.learn_members(version, members, out),
            (Channel::Election, Message::Echo { seq }) => {
                if self.scoring.echoed(from, seq, self.now) {
                    self.heartbeat(from, out);
                }
                self.report_seeker(from, out);
                if self.election.is_electing() {
                    self.with_election(out, |election, host, outputs| election.score_ready(host, outputs));
                }
            }
            (Channel::Quorum, Message::Zab(message)) => {
                self.measure_transfer(from, &message);
                if let Err(error) = self.with_zab(|zab, outputs| zab.receive(from, message, outputs)) {
                    self.refuse(from, channel, error.to_string(), out);
                }
            }
            (Channel::Quorum, Message::Forward { epoch, requests }) => self.forwarded(from, epoch, requests),
            (Channel::Quorum, Message::Touch { epoch, id, sessions }) => self.touched(from, epoch, id, sessions, out),
            (Channel::Quorum, Message::TouchDone { epoch, id }) => self.touch_done(from, epoch, id, out),
            (Channel::Quorum, Message::SyncAsk { epoch, through }) => self.syncs_requested(from, epoch, through),
            (Channel::Quorum, Message::SyncDone { epoch, through, zxid }) => {
                self.syncs_done(from, epoch, through, zxid);
            }
            (Channel::Quorum, Message::Remaining { epoch, begins, sessions }) => {
                self.remaining_received(from, epoch, begins, sessions);
            }
            (Channel::Quorum, Message::Behind { epoch }) => self.is_behind(from, epoch),
            (Channel::Quorum, Message::TransferAsk { epoch, to }) => self.transfer_forwarded(from, epoch, to, out),
            (Channel::Quorum, Message::LeaderSought { epoch, by }) => {
                self.leader_sought(from, epoch, by, out);
            }
            (Channel::Quorum, Message::TransferRefused { epoch, refusal }) => {
                self.transfer_refused(from, epoch, refusal, out);
            }
            (Channel::Election, message @ (Message::Zab(_) | Message::Forward { .. } | Message::SyncAsk { .. }))
            | (Channel::Election, message @ (Message::SyncDone { .. } | Message::Touch { .. }))
            | (Channel::Election, message @ (Message::TouchDone { .. } | Message::TransferAsk { .. }))
            | (Channel::Election, message @ Message::Behind { .. })
            | (Channel::Election, message @ (Message::Remaining { .. } | Message::TransferRefused { .. }))
            | (Channel::Election, message @ Message::LeaderSought { .. })
            | (Channel::Quorum, message @ (Message::Election(_) | Message::Heartbeat { .. } | Message::Echo { .. }))
            | (Channel::Quorum, message @ Message::Members { .. }) => {
                let what = message.name();
                self.refuse(from, channel, alloc::format!("{what} does not belong on the {channel:?} link"), out);
            }
        }
    }

    /// Reports an invalid message of a peer and closes its link.
    pub(crate) fn refuse(&mut self, from: ServerId, channel: Channel, error: String, out: &mut Vec<Effect>) {
        out.push(Effect::Note(Note::BadPeer { from, error }));
        out.push(Effect::Reset { peer: from, channel });
        self.link_down(from, channel, out);
    }

    fn written(&mut self, through: Ticket, out: &mut Vec<Effect>) {
        if let Some(took) = self.disk.end(through, self.now) {
            self.scoring.measurements.record_fsync(took);
            if took > self.config.slow_write {
                out.push(Effect::Note(Note::SlowWrite { took }));
            }
        }
        self.arm_disk_watch(out);
        self.with_zab(|zab, outputs| zab.written(through, outputs));
    }

    fn arm_disk_watch(&mut self, out: &mut Vec<Effect>) {
        out.push(match self.disk.deadline(self.config.disk_timeout) {
            Some(deadline) => Effect::Arm { timer: Timer::Disk, after: deadline - self.now },
            None => Effect::Cancel(Timer::Disk),
        });
    }

    /// The disk does not respond: a leader steps down, and another server withdraws as a candidate.
    pub(crate) fn disk_expired(&mut self, out: &mut Vec<Effect>) {
        if !self.disk.check(self.now, self.config.disk_timeout) {
            return;
        }
        out.push(Effect::Note(Note::DiskHangs));
        if self.is_alone() {
            return; // no other server could lead, and nothing is acknowledged before it is written
        }
        if self.zab.leader() == Some(self.config.me) {
            self.abandon("the disk does not answer", Cause::QuorumLost, out);
        } else {
            let me = self.config.me;
            self.with_election(out, |election, host, outputs| election.demote(me, host, outputs));
        }
    }

    /// Whether the disk hangs, so that this server should not be elected.
    pub(crate) fn disk_hangs(&self) -> bool {
        self.disk.hangs()
    }

    /// Asks the driver to come back after other events.
    pub(crate) fn continue_later(&mut self, out: &mut Vec<Effect>) {
        if !core::mem::replace(&mut self.continue_requested, true) {
            out.push(Effect::Continue);
        }
    }

    pub(crate) fn halt(&mut self, reason: String, out: &mut Vec<Effect>) {
        self.halted = true;
        out.push(Effect::Halt { reason });
    }

    /// Records what a peer at `last` lacks of our history: the log after `last` if that is in memory, else a snapshot.
    fn record_lacking(&mut self, peer: ServerId, last: Zxid) {
        let log = self.zab.log();
        let bytes = if last >= log.base() {
            log.between(last, log.last()).map(|entry| entry.cost_bytes() as u64).sum()
        } else {
            self.machine.size_bytes()
        };
        self.scoring.measurements.record_lacking(peer, bytes);
    }

    /// Measures the bandwidth of a link by the history that is sent to us over it.
    fn measure_transfer(&mut self, from: ServerId, message: &pole_zab::Message) {
        use pole_zab::Message as Zab;
        if matches!(message, Zab::Entries { .. } | Zab::Snapshot(_)) {
            self.transfers.piece(from, message.size_bytes(), self.now);
        } else if matches!(message, Zab::NewLeader { .. } | Zab::PullEnd { .. })
            && let Some((bytes, took)) = self.transfers.end(from)
        {
            self.scoring.measurements.record_transfer(from, bytes, took);
        }
    }

    /// Calls the agreement and queues its outputs.
    pub(crate) fn with_zab<R>(&mut self, call: impl FnOnce(&mut Zab, &mut Vec<Output>) -> R) -> R {
        let mut outputs = core::mem::take(&mut self.zab_outputs);
        let result = call(&mut self.zab, &mut outputs);
        self.pending.extend(outputs.drain(..));
        self.zab_outputs = outputs;
        result
    }

    /// Calls the election and carries out its outputs.
    pub(crate) fn with_election<R>(
        &mut self,
        out: &mut Vec<Effect>,
        call: impl FnOnce(&mut Election, &mut ElectionHost<'_>, &mut Vec<pole_election::Output>) -> R,
    ) -> R {
        let standing = self.zab.standing();
        let mut host = ElectionHost { scoring: &mut self.scoring, now: self.now, standing, since: self.electing_since };
        let mut outputs = Vec::new();
        let result = call(&mut self.election, &mut host, &mut outputs);
        self.carry_out_election(outputs, out);
        result
    }

    /// Carries out all pending outputs and their consequences, until there are none.
    fn settle(&mut self, out: &mut Vec<Effect>) {
        loop {
            while let Some(output) = self.pending.pop_front() {
                self.carry_out(output, out);
                if self.halted {
                    return;
                }
            }
            self.seal_change(out);
            self.propose_inbox(out);
            self.forward_outbox(out);
            self.confirm_syncs(out);
            self.try_hand_over(out);
            if self.pending.is_empty() {
                self.with_zab(Zab::flush);
            }
            if self.pending.is_empty() {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output, out: &mut Vec<Effect>) {
        match output {
            Output::Send { to, message } => {
                out.push(Effect::Send { to, channel: Channel::Quorum, message: Message::Zab(message) });
            }
            Output::Write { ticket, op } => {
                self.disk.begin(ticket, self.now);
                self.arm_disk_watch(out);
                out.push(Effect::Write { ticket, op });
            }
            Output::Reset { peer } => {
                self.liveness.forget(peer);
                out.push(Effect::Reset { peer, channel: Channel::Quorum });
            }
            Output::Logged { after, through } => self.logged(after, through, out),
            Output::Truncated { to } => self.truncated(to),
            Output::Installed { zxid } => self.installed(zxid, out),
            Output::Restore { ticket, zxid } => out.push(Effect::Restore { ticket, zxid }),
            Output::OpenTransfer { transfer, after, state } => {
                out.push(Effect::OpenTransfer { transfer, after, state });
            }
            Output::NextPiece { transfer, bytes } => out.push(Effect::NextPiece { transfer, bytes }),
            Output::ReadLog { transfer, after, through, bytes } => {
                out.push(Effect::ReadLog { transfer, after, through, bytes });
            }
            Output::CloseTransfer { transfer } => out.push(Effect::CloseTransfer { transfer }),
            Output::Ready(_) => self.apply(out),
            Output::WantsSnapshot { to } => {
                let (zxid, body) = (self.applied, self.machine.snapshot());
                self.with_zab(|zab, outputs| zab.provide_snapshot(to, zxid, body, outputs));
            }
            Output::Joined { peer } => self.joined(peer),
            Output::Promised { .. } => {
                self.start_grace(out);
                self.progress(out);
                if self.zab.leader() != Some(self.config.me) {
                    self.leadership_changes.reached(Milestone::Discovered, self.now);
                }
            }
            Output::Discovered { .. } => {
                self.leadership_changes.reached(Milestone::Discovered, self.now);
                self.progress(out);
            }
            Output::Members { members, version } => self.members_changed(members, version, out),
            Output::Progress => self.progress(out),
            Output::Established { epoch } => self.established(epoch, out),
            Output::MayForward => self.outbox = self.unlogged_requests(),
            Output::Serving { epoch } => self.joined_leader(epoch, out),
            Output::LeaderLost { leader, reason } => self.leader_lost(leader, reason, out),
            Output::QuorumLost => {
                if self.is_leading_past_promises() {
                    self.abandon("the quorum is lost", Cause::QuorumLost, out);
                }
            }
            Output::CommittedDirectly => self.committed_directly += 1,
            Output::Outbid { .. } => self.outbid(out),
            Output::HandedOver { round, choice, asked } => self.handed_over(round, choice, asked, out),
        }
    }

    fn is_leading_past_promises(&self) -> bool {
        matches!(self.zab.phase(), Phase::Promising | Phase::Pulling | Phase::Synchronising | Phase::Established)
    }
}
