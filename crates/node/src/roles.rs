//! Elections and roles: how a server becomes leader or follower, and when it gives up.
//!
//! Inputs are the result of the election, milestones of the agreement, silence of peers and expired time limits.
//!
//! Invariants:
//! - A server takes part in the broadcast of the one server that it chose last, and of no other.
//! - A server that gives up a role closes the links of that role, which notifies the other side.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use pole_election::{Cause, Elected, Round, Standing};
use pole_oracle::Decision;
use pole_types::{Epoch, ServerId, Span, Zxid};
use pole_zab::{Phase, Zab};

use crate::leadership::Leadership;
use crate::leadership_changes::Milestone;
use crate::liveness;
use crate::node::Node;
use crate::sessions::Expiry;
use crate::{Channel, Effect, Machine, Message, Note, Timer};

impl<M: Machine> Node<M> {
    /// Starts an election.
    pub(crate) fn elect(&mut self, cause: Cause, out: &mut Vec<Effect>) {
        self.elect_in(None, cause, out);
    }

    /// Starts an election, in the round of another server if one is given.
    fn elect_in(&mut self, round: Option<Round>, cause: Cause, out: &mut Vec<Effect>) {
        self.step_down(out);
        self.electing_since = self.now;
        if self.zab.is_restoring() || cause != Cause::Start && (self.disk_hangs() || !self.reaches_quorum()) {
            let me = self.config.me;
            self.with_election(out, |election, host, outputs| election.demote(me, host, outputs));
        }
        // Scores are based on smoothed round trips, which follow a slower path only after seconds.
        if cause != Cause::Start && self.scoring.measurements.quorum_is_farther(SUDDEN_DISTANCE, self.now) {
            self.election.withdraw();
        }
        // Recorded before the election starts, because it may end at once.
        let next = round.unwrap_or(Round { epoch: self.election.round().epoch + 1, failed: 0 });
        self.leadership_changes.begin(cause, next, self.now);
        // Measures the round trips now: the answers arrive in time for the limits that apply after the election.
        let reachable: Vec<_> = self.scoring.reachable().collect();
        reachable.into_iter().for_each(|peer| self.heartbeat(peer, out));
        out.push(Effect::Note(Note::Electing { cause, round: next }));
        self.with_election(out, |election, host, outputs| match round {
            Some(round) => election.start_in(round, cause, host, outputs),
            None => election.start(cause, host, outputs),
        });
    }

    /// Demotes a server without a history beside one that has a history: it could lead only after a whole history was
    /// sent to it. It does so itself, and so does every server that has a history.
    pub(crate) fn demote_blank(&mut self, message: &pole_election::Message, out: &mut Vec<Effect>) {
        let pole_election::Message::Propose(propose) = message else { return };
        if !self.election.is_electing() || self.config.limits.trust_blank {
            return;
        }
        let is_blank = |standing: Standing| standing.current_epoch == Epoch(0) && standing.last_zxid == Zxid::ZERO;
        let (ours, theirs) = (self.zab.standing(), propose.own.standing);
        let blank = match (is_blank(ours), is_blank(theirs)) {
            (true, false) => self.config.me,
            (false, true) => propose.own.id,
            (true, true) | (false, false) => return,
        };
        self.with_election(out, |election, host, outputs| election.demote(blank, host, outputs));
    }

    /// Gives up the current role. Requests of our own clients remain held.
    fn step_down(&mut self, out: &mut Vec<Effect>) {
        self.start_grace(out);
        self.with_zab(Zab::step_down);
        self.end_leadership(out);
        self.remaining.clear();
        self.liveness.clear();
        out.push(Effect::Cancel(Timer::Phase));
    }

    /// Starts the time limit of clients that wait for a leader.
    pub(crate) fn start_grace(&mut self, out: &mut Vec<Effect>) {
        if !self.grace && !self.clients.is_empty() {
            self.grace = true;
            out.push(Effect::Arm { timer: Timer::Grace, after: self.config.patience });
        }
    }

    /// Drops the work that a leader has under way and will not finish.
    pub(crate) fn end_leadership(&mut self, out: &mut Vec<Effect>) {
        self.machine.forget_prepared();
        self.outbox.clear();
        self.early_requests.clear();
        if self.leadership.take().is_some_and(|leadership| leadership.transfer.is_some()) {
            out.push(Effect::Cancel(Timer::Drain));
        }
    }

    /// Gives up the role for a reason, and starts an election.
    pub(crate) fn abandon(&mut self, reason: &str, cause: Cause, out: &mut Vec<Effect>) {
        self.abandon_for(None, reason, cause, out);
    }

    /// Gives up a leader that was elected and stays silent, and joins the round that another server has begun instead.
    /// It joins exactly that round: with a round of its own, two servers could outbid each other without end.
    pub(crate) fn join_round(&mut self, round: Round, out: &mut Vec<Effect>) {
        self.abandon_for(Some(round), "another server tries again", Cause::Retry, out);
    }

    fn abandon_for(&mut self, round: Option<Round>, reason: &str, cause: Cause, out: &mut Vec<Effect>) {
        self.leadership_changes.fail(reason);
        out.push(Effect::Note(Note::Abandoned { reason: reason.to_string() }));
        self.elect_in(round, cause, out);
    }

    /// Handles the loss of the leader, as a follower.
    pub(crate) fn leader_lost(&mut self, leader: ServerId, reason: &str, out: &mut Vec<Effect>) {
        if self.zab.leader() == Some(leader) && leader != self.config.me {
            let cause = if self.zab.phase() == Phase::Serving { Cause::LeaderLost } else { Cause::Retry };
            self.abandon(reason, cause, out);
        }
    }

    pub(crate) fn carry_out_election(&mut self, outputs: Vec<pole_election::Output>, out: &mut Vec<Effect>) {
        use pole_election::Output;
        for output in outputs {
            match output {
                Output::Send { to, message } => {
                    if matches!(message, pole_election::Message::Propose(_)) {
                        self.leadership_changes.reached(Milestone::Proposed, self.now);
                    }
                    out.push(Effect::Send { to, channel: Channel::Election, message: Message::Election(message) });
                }
                Output::Arm { timer, after } => out.push(Effect::Arm { timer: Timer::Election(timer), after }),
                Output::Cancel(timer) => out.push(Effect::Cancel(Timer::Election(timer))),
                Output::Elected(elected) => self.elected(elected, out),
                Output::Invalid { from, reason } => out.push(Effect::Note(Note::InvalidScore { from, reason })),
            }
        }
    }

    /// Takes the role that the election decided.
    fn elected(&mut self, elected: Elected, out: &mut Vec<Effect>) {
        let Elected { leader, round, standings, record } = elected;
        let cause = record.cause;
        self.electing_elsewhere.clear();
        self.leadership_changes.decided(record.clone(), self.now);
        out.push(Effect::Note(Note::Elected(Box::new(record))));
        let accepted = standings.into_iter().map(|(id, standing)| (id, standing.accepted_epoch));
        if leader == self.config.me {
            self.with_zab(|zab, outputs| zab.lead(round, accepted, outputs));
            out.push(Effect::Note(Note::Leading { round }));
        } else {
            // Promised ahead only where clients wait and all servers know the same epochs: at the first attempt after a
            // leader was lost. An ensemble that cannot have a leader must not use up epochs.
            let lost_leader = cause == Cause::LeaderLost && self.election.awaits_elected_leader();
            let accepted = accepted.filter(|_| lost_leader && round.failed == 0);
            self.with_zab(|zab, outputs| zab.follow(leader, round, accepted, outputs));
            self.liveness.expect(leader, self.now);
            out.push(Effect::Note(Note::Following { leader }));
        }
        if self.zab.is_changing_members() {
            // The promises of voters are needed that do not know yet that they are voters.
            self.announce_leader(out);
        }
        self.arm_phase_by_round_trips(out);
    }

    /// Tells servers that do not vote who leads.
    fn announce_leader(&mut self, out: &mut Vec<Effect>) {
        let mut announcements = Vec::new();
        self.election.announce(&mut announcements);
        self.carry_out_election(announcements, out);
    }

    /// Starts the time limit of a phase that takes a few round trips.
    pub(crate) fn arm_phase_by_round_trips(&mut self, out: &mut Vec<Effect>) {
        self.phase_since = Some(self.now);
        out.push(Effect::Arm { timer: Timer::Phase, after: self.phase_limit() });
    }

    /// Starts the time limit of a phase in which data is transferred: `initLimit` without progress.
    fn arm_phase_by_progress(&mut self, out: &mut Vec<Effect>) {
        self.phase_since = None;
        out.push(Effect::Arm { timer: Timer::Phase, after: self.config.init_limit });
    }

    /// The time limit of a phase of a few round trips, by present measurements. It is computed again when it expires,
    /// because the link may have become slower since the phase began.
    fn phase_limit(&self) -> Span {
        let gather = self.time_to_gather();
        let timeout = self.config.election_timeout;
        match self.zab.leader().filter(|leader| *leader != self.config.me) {
            // The leader may decide later than we did, by as much as an election waits, and may be far away.
            Some(leader) => {
                let round_trip = self.scoring.round_trip_now(leader, self.now).unwrap_or_default();
                gather.max(round_trip.saturating_mul(3)).saturating_add(timeout)
            }
            // Our followers may receive the proposal of the farthest voter later than we did, and choose us only then.
            // They may also have to reopen their links, which takes two round trips.
            None => {
                let skew = self.scoring.slowest_round_trip(self.now).unwrap_or(timeout);
                let skew = Span(skew.0 / 2 * 3).min(timeout);
                let round_trip = self.scoring.quorum_round_trip(self.now).unwrap_or_default();
                let relinking = if self.reaches_quorum() { Span::ZERO } else { round_trip.saturating_mul(2) };
                gather.saturating_add(skew).saturating_add(relinking)
            }
        }
    }

    /// How long a chosen leader may take to gather its quorum. Doubled for every failed attempt, up to a ceiling: an
    /// ensemble that is slower than measured gets enough time, and one that cannot have a leader does not exhaust the
    /// epochs.
    pub(crate) fn time_to_gather(&self) -> Span {
        let known = self.scoring.time_to_gather(self.now, self.config.disk_timeout);
        let once = known.unwrap_or(self.config.election_timeout).max(self.config.establish_floor);
        // A server that adopts an incumbent is in the incumbent's round, which has not failed, so its own attempts
        // count as well.
        let failed = self.election.round().failed.max(self.failed_attempts).min(DOUBLINGS_MAX);
        once.max(once.saturating_mul(1 << failed).min(GATHER_MAX))
    }

    /// Restarts the time limit after progress of the synchronisation.
    pub(crate) fn progress(&mut self, out: &mut Vec<Effect>) {
        match self.zab.phase() {
            Phase::Serving | Phase::Established | Phase::Looking => {}
            // A leader that opens a higher epoch gathers its quorum again.
            Phase::Gathering | Phase::Promising => self.arm_phase_by_round_trips(out),
            Phase::Greeting
            | Phase::Promised
            | Phase::Joining
            | Phase::TakingOver
            | Phase::Pulling
            | Phase::Synchronising => self.arm_phase_by_progress(out),
        }
    }

    /// We lead, and a quorum has adopted our history.
    pub(crate) fn established(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        self.machine.forget_prepared();
        self.scoring.became_leader(self.now);
        let remaining = core::mem::take(&mut self.remaining);
        let expiry = Expiry::begin(self.now, self.config.tick, self.machine.sessions(), &remaining);
        // Requests found in the history need nothing more; the others are proposed now.
        let unlogged = self.unlogged_requests();
        let chores_at = self.now + self.config.chores_every;
        let mut leadership = Leadership::new(self.config.me, unlogged, expiry, chores_at);
        let early = core::mem::take(&mut self.early_requests);
        early.into_iter().for_each(|(from, request)| leadership.submit(from, request, self.now));
        self.leadership = Some(leadership);
        self.update_listeners();
        self.serve(self.config.me, epoch, out);
        self.pending_syncs.ask_again();
    }

    /// We follow an established leader and have its history.
    pub(crate) fn joined_leader(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        let Some(leader) = self.zab.leader() else { return };
        self.serve(leader, epoch, out);
        self.pending_syncs.ask_again();
    }

    fn serve(&mut self, leader: ServerId, epoch: Epoch, out: &mut Vec<Effect>) {
        self.leadership_changes.reached(Milestone::Synchronised, self.now);
        self.leadership_changes.established(epoch, self.now);
        self.election.established(epoch);
        self.announce_leader(out);
        self.scoring.set_leader(leader);
        self.touches.leader_changed();
        self.failed_attempts = 0;
        self.serving_since = self.now;
        self.lag.begin();
        out.push(Effect::Cancel(Timer::Phase));
        if core::mem::take(&mut self.grace) {
            out.push(Effect::Cancel(Timer::Grace));
        }
        out.push(Effect::Note(Note::Serving { leader, epoch }));
    }

    /// The leader accepted a follower: what came over its older links is void, and the follower will send it again.
    pub(crate) fn joined(&mut self, peer: ServerId) {
        self.liveness.watch(peer, self.now);
        self.electing_elsewhere.remove(&peer);
        self.early_requests.retain(|(from, _)| *from != peer);
        if let Some(leadership) = &mut self.leadership {
            leadership.forget(peer);
        }
    }

    /// A server promised a higher epoch to another candidate: opens one above it, limited by `reopen_pause`.
    pub(crate) fn outbid(&mut self, out: &mut Vec<Effect>) {
        let earliest = self.reopened.map(|at| at + self.config.reopen_pause);
        match earliest.filter(|earliest| *earliest > self.now) {
            Some(earliest) => out.push(Effect::Arm { timer: Timer::Reopen, after: earliest - self.now }),
            None => self.reopen(out),
        }
    }

    /// Opens a higher epoch without an election. Everything under way is treated as after a leader change.
    pub(crate) fn reopen(&mut self, out: &mut Vec<Effect>) {
        self.reopened = Some(self.now);
        self.end_leadership(out);
        self.with_zab(Zab::reopen);
    }

    pub(crate) fn expired(&mut self, timer: Timer, out: &mut Vec<Effect>) {
        match timer {
            Timer::Election(timer) => {
                self.with_election(out, |election, host, outputs| election.expired(timer, host, outputs));
            }
            Timer::Phase => self.phase_expired(out),
            Timer::Liveness => self.liveness_expired(out),
            Timer::Heartbeat => self.heartbeat_expired(out),
            Timer::Disk => self.disk_expired(out),
            Timer::Drain => self.drain_expired(out),
            Timer::Reopen => {
                if self.zab.leader() == Some(self.config.me) {
                    self.reopen(out);
                }
            }
            Timer::Grace => self.grace_expired(out),
            Timer::Pace => self.leadership.iter_mut().for_each(|leadership| leadership.pace.waited()),
        }
    }

    /// The phase has exceeded its time limit: demotes a server that could not do its part, and starts an election.
    fn phase_expired(&mut self, out: &mut Vec<Effect>) {
        let me = self.config.me;
        if self.is_alone() {
            // No other server could lead, and another attempt would only add work for the disk.
            return self.arm_phase_by_progress(out);
        }
        if let Some(left) = self.phase_time_left() {
            return out.push(Effect::Arm { timer: Timer::Phase, after: left.min(PHASE_CHECK) });
        }
        if self.zab.is_restoring() {
            // The duration depends on the size of the state, and a new leader would have to send it again.
            return out.push(Effect::Arm { timer: Timer::Phase, after: self.config.init_limit });
        }
        let unable = match self.zab.phase() {
            Phase::Serving | Phase::Established | Phase::Looking => return,
            // We did not gather a quorum.
            Phase::Gathering | Phase::Promising => Some(me),
            // We chose it over an open link, and it did not ask us for a promise.
            Phase::Greeting => self.zab.leader().filter(|leader| self.zab.is_linked(*leader)),
            Phase::Promised | Phase::Joining | Phase::TakingOver | Phase::Pulling | Phase::Synchronising => None,
        };
        if let Some(id) = unable {
            self.with_election(out, |election, host, outputs| election.demote(id, host, outputs));
        }
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        self.abandon("no progress within the time limit", Cause::Retry, out);
    }

    /// The rest of the time limit of this phase, by present measurements; `None` if it has expired.
    fn phase_time_left(&self) -> Option<Span> {
        let since = self.phase_since?;
        let spent = self.now - since;
        let left = |limit: Span, spent: Span| (limit > spent).then(|| Span(limit.0 - spent.0));
        // Followers that answer and whose promises are not durable yet are waiting for their disks. Another leader
        // would have to wait for the same promises.
        let waits_for_disks = self.zab.phase() == Phase::Promising
            && spent < self.config.init_limit
            && self.zab.awaits_promises_of(|peer| self.liveness.has_received(peer));
        // The answer to an outstanding heartbeat will show how long the round trip is now. But an elected leader that is
        // slower to answer than a quorum of the others is not worth waiting for.
        let awaited = self.zab.leader().filter(|leader| *leader != self.config.me);
        let is_slower_than_others = self.zab.phase() == Phase::Greeting
            && self.election.awaits_elected_leader()
            && self.quorum_answers_without(awaited);
        let patience = if is_slower_than_others { Span::ZERO } else { self.probe_patience() };
        let probes = self.scoring.reachable().filter(|peer| awaited.is_none_or(|leader| leader == *peer));
        let probes = probes.filter_map(|peer| left(patience, self.scoring.unanswered_for(peer, self.now)?));
        let measured = left(self.phase_limit(), spent);
        measured.or_else(|| probes.max()).or_else(|| waits_for_disks.then(|| self.time_to_gather()))
    }

    /// Whether a quorum has answered heartbeats since this server began its election, without the server left out.
    fn quorum_answers_without(&self, left_out: Option<ServerId>) -> bool {
        let answers = |id: &ServerId| self.scoring.has_answered_since(*id, self.electing_since);
        let voters = self.config.voters();
        voters.is_quorum(voters.iter().filter(|id| *id == self.config.me || left_out != Some(*id) && answers(id)))
    }

    /// How long an unanswered heartbeat may indicate a slow link: the round trip on a link that became slower each way
    /// by as much as failure detection tolerates. After that, the peer is considered dead.
    fn probe_patience(&self) -> Span {
        Span(self.config.liveness_timeout.0.saturating_sub(self.config.liveness.0)).saturating_mul(2)
    }

    /// Whether this server has elected a leader and not heard from it since. If another server gives up waiting for that
    /// leader and begins a new round, there is nothing to wait for here either.
    pub(crate) fn leader_is_silent(&self) -> bool {
        self.zab.phase() == Phase::Greeting
            && self.election.awaits_elected_leader()
            && self.zab.leader().is_some_and(|leader| !self.liveness.has_received(leader))
    }

    /// Whether this server has chosen `peer` and waits for its first request. If the peer itself begins a newer round, it
    /// leads no longer: our Hello reached it, or will, while it elects, and would wait there for the end of an election in
    /// which this server may be needed for a quorum.
    pub(crate) fn awaits_leader(&self, peer: ServerId) -> bool {
        self.zab.phase() == Phase::Greeting && self.zab.leader() == Some(peer)
    }

    /// Another server holds an election in a newer round than ours: it has given up the leader that we follow, or the
    /// target of a hand-over that we wait for.
    pub(crate) fn leader_given_up(&mut self) {
        if matches!(self.zab.phase(), Phase::Serving | Phase::TakingOver)
            && let Some(leader) = self.zab.leader()
        {
            self.liveness.given_up(leader);
        }
    }

    /// Another server holds an election in an older round than ours: it does not follow the leader that we chose, which
    /// may be this server, and cannot learn of it from a quorum of votes if too few are left to vote. This happens when
    /// most servers were restarted during an election and begin with the first round again.
    pub(crate) fn elects_elsewhere(&mut self, peer: ServerId, out: &mut Vec<Effect>) {
        let leader = self.zab.leader();
        let waits = match self.zab.phase() {
            Phase::Gathering | Phase::Promising => true,
            Phase::Greeting => leader.is_some_and(|leader| !self.liveness.has_received(leader)),
            Phase::Looking | Phase::Promised | Phase::Joining | Phase::TakingOver | Phase::Pulling => false,
            Phase::Synchronising | Phase::Serving | Phase::Established => false,
        };
        if !waits {
            return;
        }
        self.electing_elsewhere.insert(peer);
        let left = self.config.voters().iter().filter(|id| !self.electing_elsewhere.contains(id));
        let is_enough = self.config.voters().is_quorum(left);
        if leader == Some(peer) || !is_enough {
            self.abandon("too many servers hold another election", Cause::Retry, out);
        }
    }

    /// Whether a quorum continued without the leader that we chose and that is not established, so that waiting for it
    /// is useless. An epoch is opened above all that a quorum promised, so a quorum above ours got there later.
    pub(crate) fn quorum_moved_on(&self) -> bool {
        let ours = self.zab.standing().accepted_epoch;
        let reported = |id| self.scoring.measurements.last_report(id).map(|(report, _)| report.standing.current_epoch);
        let is_ahead = |epoch: Epoch| match self.zab.phase() {
            // No server can have adopted our epoch from us yet, so another server leads in it.
            Phase::Promising | Phase::Pulling if !self.zab.has_chosen_history() => epoch >= ours,
            Phase::Promising | Phase::Pulling | Phase::Synchronising => epoch > ours,
            Phase::Greeting | Phase::Promised => epoch > ours && Some(epoch) > self.zab.leader().and_then(reported),
            Phase::Looking | Phase::Gathering | Phase::Joining | Phase::TakingOver => false,
            Phase::Serving | Phase::Established => false,
        };
        self.config.voters().is_quorum(self.config.voters().iter().filter(|id| reported(*id).is_some_and(is_ahead)))
    }

    /// Leader: pings the followers and disconnects those that are silent. Follower: sends a sign of life, and gives up
    /// a silent leader.
    fn liveness_expired(&mut self, out: &mut Vec<Effect>) {
        out.push(Effect::Arm { timer: Timer::Liveness, after: self.config.liveness });
        let leads = self.zab.leader() == Some(self.config.me);
        // A paused leader gets no grace: its followers have probably left it.
        let paused = self.liveness.check_for_pause(self.now, self.config.liveness.saturating_mul(4), !leads);
        let floor = self.config.liveness_timeout;
        for peer in self.liveness.silent(self.now, floor, |peer| self.liveness_timeout(peer)) {
            out.push(Effect::Reset { peer, channel: Channel::Quorum });
            self.liveness.forget(peer);
            self.with_zab(|zab, outputs| zab.link_down(peer, outputs));
        }
        if leads && !paused {
            let ping = self.with_zab(Zab::ping);
            self.check_sessions(ping);
            self.hand_over_for_unreached(out);
        }
        self.with_zab(Zab::send_keepalive);
        self.report_touches(out);
        if self.zab.needs_new_epoch() {
            self.outbid(out);
        }
    }

    fn liveness_timeout(&self, peer: ServerId) -> Span {
        let round_trip = self.scoring.measurements.slowest_recent(peer, self.now);
        liveness::timeout(self.config.liveness_timeout, self.config.sync_limit, round_trip)
    }

    /// Sends heartbeats and, as leader, considers whether another server would be better.
    fn heartbeat_expired(&mut self, out: &mut Vec<Effect>) {
        out.push(Effect::Arm { timer: Timer::Heartbeat, after: self.config.heartbeat });
        let peers: Vec<_> = self.config.members.linked(self.config.me).collect();
        for peer in peers {
            self.heartbeat(peer, out);
        }
        self.update_listeners();
        if self.zab.serving_epoch().is_some() && self.now - self.serving_since >= DEMOTIONS_LAST {
            self.election.forget_demotions();
        }
        if self.leadership.as_ref().is_some_and(|leadership| leadership.transfer.is_none()) {
            let (pause, epoch) = (self.time_to_gather(), self.election.round().epoch + 1);
            let standing = self.zab.standing();
            let followers = self.followers();
            let decision = self.scoring.consider_resignation(self.now, &followers, standing, epoch, pause);
            if let Decision::Resign { to, .. } = decision {
                self.transfer(Some(to), None, out);
            }
        }
    }

    /// Leader: decides from the measured round trips for which followers direct acknowledgements pay.
    fn update_listeners(&mut self) {
        let standing = self.zab.standing();
        if let Some(leadership) = &mut self.leadership {
            leadership.listeners = self.scoring.listeners(self.now, standing);
        }
    }

    pub(crate) fn heartbeat(&mut self, peer: ServerId, out: &mut Vec<Effect>) {
        let seq = self.scoring.heartbeat(peer, self.now);
        let report = self.scoring.report(self.now, self.zab.standing(), self.election.round().epoch + 1);
        let message = Message::Heartbeat { seq, members: self.applied_members(), report: Box::new(report) };
        out.push(Effect::Send { to: peer, channel: Channel::Election, message });
    }

    /// No leader was established in time: clients should try another server.
    fn grace_expired(&mut self, out: &mut Vec<Effect>) {
        self.grace = false;
        if self.zab.serving_epoch().is_none() {
            self.close_all_clients(crate::CloseReason::NoLeader, out);
        }
    }

    /// Whether this server is the only one that may lead.
    pub(crate) fn is_alone(&self) -> bool {
        self.config.voters().may_lead(self.config.me)
            && self.config.voters().peers(self.config.me).all(|id| !self.config.voters().may_lead(id))
    }

    fn reaches_quorum(&self) -> bool {
        let me = self.config.me;
        self.config.voters().is_quorum(self.config.voters().iter().filter(|id| *id == me || self.zab.is_linked(*id)))
    }
}

/// A server whose quorum is suddenly farther away than this does not stand in an election that starts now. A new leader
/// needs five round trips until its clients can write; at this distance they take half a second.
const SUDDEN_DISTANCE: Span = Span::from_ms(100);

/// How long a server serves until it forgets which servers were found unable to lead: longer than an election that fails.
const DEMOTIONS_LAST: Span = Span::from_ms(2_000);

/// How soon a time limit that was extended is compared with the round trips again. After a pause of this server they look
/// like seconds, and a moment later like what they are.
const PHASE_CHECK: Span = Span::from_ms(100);

/// Longer than any ensemble needs for two round trips, and short enough for a quick recovery after a fault ends.
const GATHER_MAX: Span = Span::from_ms(8_000);

/// Enough to reach [`GATHER_MAX`] from the shortest time limit.
const DOUBLINGS_MAX: u32 = 10;
