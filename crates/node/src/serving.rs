//! Serving clients: attachments, writes, reads and syncs, from the connection to the agreement and back.
//!
//! Invariants:
//! - A write is answered when this server has applied its transaction.
//! - A client does not notice a leader change: held requests are matched against the recovered history, and those not
//!   found are sent again, in order.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_types::{Cxid, Epoch, Membership, ServerId, SessionId, Span, Zxid};
use pole_zab::{Applied, Entry, HeldRequest, Origin, Phase, Ticket};

use crate::checkpoints::SinceCheckpoint;
use crate::clients::Answer;
use crate::node::Node;
use crate::{AttachAnswer, Channel, ClientId, CloseReason, Effect, Machine, Message, Note, Request, Timer};

impl<M: Machine> Node<M> {
    /// Attaches a connection to a session. The session opens when its attachment, a transaction, is applied here.
    pub(crate) fn attach(&mut self, client: ClientId, session: SessionId, body: Bytes, out: &mut Vec<Effect>) {
        if let Some(older) = self.clients.attach(client, session) {
            self.pending_syncs.forget(older);
            self.machine.forget(older);
            out.push(Effect::Close { client: older, reason: CloseReason::SessionAttachedAgain });
        }
        self.attachments = self.attachments.wrapping_add(1);
        // Each incarnation starts at a different number, so that an attachment of an earlier one is not taken for one
        // of ours.
        let start = self.config.incarnation.wrapping_mul(0x9e37_79b1);
        let number = Cxid::attachment(self.config.me, start.wrapping_add(self.attachments));
        self.requests.attach(session, number, body.clone());
        if self.zab.serving_epoch().is_none() {
            self.start_grace(out);
        }
        self.submit(Request { origin: Origin { session, cxid: number }, floor: Zxid::ZERO, body });
    }

    /// Handles a client's write.
    pub(crate) fn request(&mut self, client: ClientId, cxid: Cxid, body: Bytes) {
        let Some(session) = self.clients.session(client) else { return };
        if self.requests.floor(session).is_none() {
            return; // it has no session yet
        }
        self.scoring.measurements.record_requests(1, self.now);
        if let Some(body) = self.clients.write(client, cxid, body) {
            self.hold(session, cxid, body);
        }
    }

    fn hold(&mut self, session: SessionId, cxid: Cxid, body: Bytes) {
        let Some(floor) = self.requests.floor(session) else { return };
        self.requests.hold(session, cxid, body.clone());
        self.submit(Request { origin: Origin { session, cxid }, floor, body });
    }

    /// Submits a request for validation if there is a leader. Otherwise it remains held until there is one.
    fn submit(&mut self, request: Request) {
        if let Some(leadership) = &mut self.leadership {
            leadership.submit(self.config.me, request, self.now);
        } else if self.zab.forwards_to().is_some() {
            self.outbox.push(request);
        }
    }

    /// The held requests that are not in our log.
    pub(crate) fn unlogged_requests(&self) -> Vec<Request> {
        let request = |held: &HeldRequest<Bytes>| Request {
            origin: Origin { session: held.session, cxid: held.cxid },
            floor: match held.cxid.is_attachment() {
                true => Zxid::ZERO,
                false => self.requests.floor(held.session).unwrap_or_default(),
            },
            body: held.request.clone(),
        };
        self.requests.unlogged().into_iter().map(request).collect()
    }

    /// Follower: forwards the requests of the step, in messages of bounded size.
    pub(crate) fn forward_outbox(&mut self, out: &mut Vec<Effect>) {
        if self.outbox.is_empty() {
            return;
        }
        let mut waiting = core::mem::take(&mut self.outbox).into_iter().peekable();
        let Some((to, epoch)) = self.zab.forwards_to() else { return };
        while let Some(first) = waiting.next() {
            let mut bytes = first.body.len();
            let mut requests = Vec::from([first]);
            while let Some(next) = waiting.next_if(|next| bytes + next.body.len() <= FORWARD_BYTES_MAX) {
                bytes += next.body.len();
                requests.push(next);
            }
            out.push(Effect::Send { to, channel: Channel::Quorum, message: Message::Forward { epoch, requests } });
        }
    }

    /// Leader: accepts requests of a follower. Those of another epoch were sent before the follower was synchronised in
    /// ours, and it sends them again. The same holds for those that arrive before it joined over this link: earlier
    /// ones may have been lost with the previous link. Those that arrive before we are established wait for that, which
    /// saves a round trip after a leader change.
    pub(crate) fn forwarded(&mut self, from: ServerId, epoch: Epoch, requests: Vec<Request>) {
        if !self.zab.has_joined(from, epoch) {
            return;
        }
        match &mut self.leadership {
            Some(leadership) => {
                requests.into_iter().for_each(|request| leadership.submit(from, request, self.now));
            }
            None => self.early_requests.extend(requests.into_iter().map(|request| (from, request))),
        }
    }

    /// Leader: turns requests into transactions, up to the limits of transactions under way and of work in one turn.
    pub(crate) fn propose_inbox(&mut self, out: &mut Vec<Effect>) {
        let mut room = self.config.outstanding_max.saturating_sub(self.under_way());
        let Some(leadership) = &mut self.leadership else { return };
        room = room.min(leadership.pace.room(self.now));
        if self.zab.phase() != Phase::Established || leadership.is_frozen() || leadership.is_idle() {
            return;
        }
        if self.zab.is_changing_members() {
            return; // nothing is proposed behind a change that is not committed
        }
        // A request is validated against everything before it, so that must be applied first.
        if self.applied < self.zab.ready() {
            return;
        }
        let mut batch = Vec::new();
        let mut sources = BTreeSet::new();
        let first = self.zab.next_zxid();
        let log = self.zab.log();
        let under_way = log.between(self.zab.committed(), log.last()).map(|entry| entry.body.len());
        let mut bytes: usize = under_way.sum();
        while room > 0
            && bytes < UNDER_WAY_BYTES_MAX
            && !self.machine.is_waiting()
            && let Some((source, request)) = leadership.next_request(self.config.me)
        {
            let zxid = Zxid::new(first.epoch(), first.counter() + batch.len() as u32);
            if request.origin.cxid != Cxid::OWN {
                leadership.expiry.touch(request.origin.session, self.now);
            } else if !leadership.expiry.is_silent(request.origin.session) {
                continue; // the session was active before its end was proposed
            }
            let may_change = |members: &Membership| self.zab.could_change_to(members.voters());
            if let Some(body) = self.machine.prepare(zxid, &request, self.wall_ms, &may_change) {
                let is_change = (M::MEMBERS_OF.0)(&body).is_some();
                bytes += body.len();
                batch.push((request.origin, body));
                sources.insert(source);
                room -= 1;
                if is_change {
                    break;
                }
            }
        }
        let listeners = sources.intersection(&leadership.listeners).copied().collect();
        leadership.pace.record(batch.len());
        if !leadership.is_idle() {
            if let Some(after) = leadership.pace.wait(self.now) {
                out.push(Effect::Arm { timer: Timer::Pace, after });
            } else if leadership.is_exhausted() {
                self.continue_later(out);
            }
        }
        self.with_zab(|zab, outputs| zab.propose(batch, listeners, outputs));
    }

    /// Proposals that are not yet committed.
    fn under_way(&self) -> usize {
        let (last, committed) = (self.zab.log().last(), self.zab.committed());
        let before = if last.epoch() == committed.epoch() { committed.counter() } else { 0 };
        (last.counter() - before) as usize
    }

    /// Handles entries appended to our log. If they answer a connection here out of order, another server sent requests
    /// in its name. The connection is closed, so that its client can find out what became of its requests, and a leader
    /// that proposed such an entry is abandoned.
    pub(crate) fn logged(&mut self, after: Zxid, through: Zxid, out: &mut Vec<Effect>) {
        let mut wrong = Vec::new();
        for entry in self.zab.log().between(after, through) {
            if let Err(error) = self.requests.logged(entry) {
                self.requests.detach(entry.origin.session);
                wrong.push((entry.origin.session, error));
            }
        }
        for (session, _) in &wrong {
            self.close_session(*session, CloseReason::SessionMoved, out);
        }
        let Some((_, error)) = wrong.first() else { return };
        let error = error.to_string();
        out.push(Effect::Note(Note::OutOfOrder { error: error.clone() }));
        // A leader cannot tell which of its followers sent them.
        if let Some(leader) = self.zab.leader().filter(|leader| *leader != self.config.me) {
            self.refuse(leader, Channel::Quorum, error, out);
        }
    }

    /// Handles a truncation of our log. The prepared transactions are void, and held requests that were removed will be
    /// sent again.
    pub(crate) fn truncated(&mut self, to: Zxid) {
        self.requests.truncated(to);
        self.machine.forget_prepared();
    }

    /// Our history was replaced, and our state will be. A snapshot contains neither the replies that clients wait for
    /// nor their watches, so all client connections are closed.
    pub(crate) fn installed(&mut self, zxid: Zxid, out: &mut Vec<Effect>) {
        self.machine.forget_prepared();
        self.close_all_clients(CloseReason::SnapshotInstalled, out);
        out.push(Effect::Note(Note::Installed { zxid }));
    }

    /// Our state was replaced by that of a snapshot.
    pub(crate) fn restored(&mut self, ticket: Ticket, failed: Option<String>, out: &mut Vec<Effect>) {
        let members = self.machine.members().and_then(|(members, at)| Some((M::parse_members(&members)?, at)));
        let Some(zxid) = self.with_zab(|zab, outputs| zab.restored(ticket, members, outputs)) else { return };
        if let Some(reason) = failed {
            return self.halt(format!("the snapshot at {zxid} cannot be read: {reason}; {RECOVERY_HINT}"), out);
        }
        self.applied = zxid;
        self.since_checkpoint = SinceCheckpoint::after(zxid);
        self.update_oracle(out);
        self.report_members(out);
    }

    /// Handles newly committed and durable entries.
    pub(crate) fn apply(&mut self, out: &mut Vec<Effect>) {
        if !self.applies_later {
            self.apply_batch(out);
        }
    }

    /// Continues with entries that were deferred.
    pub(crate) fn continue_applying(&mut self, out: &mut Vec<Effect>) {
        if core::mem::take(&mut self.applies_later) && !self.zab.is_restoring() {
            self.apply_batch(out);
        }
    }

    /// Tells the leader if this server applies too slowly.
    pub(crate) fn report_lag(&mut self, out: &mut Vec<Effect>) {
        self.lag.record(self.zab.ready(), self.applied, self.now);
        if self.lag.must_report(self.now)
            && let Some((leader, epoch)) = self.serving()
        {
            self.lag_reports += 1;
            if leader == self.config.me {
                self.is_behind(leader, epoch);
            } else {
                out.push(Effect::Send { to: leader, channel: Channel::Quorum, message: Message::Behind { epoch } });
            }
        }
    }

    /// Leader: a server applies too slowly.
    pub(crate) fn is_behind(&mut self, from: ServerId, epoch: Epoch) {
        let ours = from == self.config.me && self.zab.serving_epoch() == Some(epoch);
        if let Some(leadership) = &mut self.leadership
            && (ours || self.zab.is_followed_by(from, epoch))
        {
            leadership.pace.slow_down(self.now);
        }
    }

    /// Applies entries that are ready, and sends replies. A batch takes a few milliseconds at most: after a restart or
    /// a snapshot, much may be ready, and liveness messages must be sent meanwhile.
    fn apply_batch(&mut self, out: &mut Vec<Effect>) {
        let through = self.zab.ready();
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let has_room = bytes < APPLIED_BYTES_PER_STEP_MAX;
            bytes += entry.body.len();
            has_room
        };
        let ready = self.zab.log().between(self.applied, through);
        let entries: Vec<Entry> = ready.take(APPLIED_PER_STEP_MAX).take_while(fits).cloned().collect();
        let (effects, mut bytes, mut count) = (out.len(), 0, 0);
        for entry in entries {
            if out.len() - effects > APPLIED_EFFECTS_PER_STEP_MAX {
                break;
            }
            bytes += entry.body.len() as u64;
            count += 1;
            if let Err(reason) = self.apply_entry(&entry, out) {
                // The session is left out because this is logged: knowing its number suffices to take it over.
                return self
                    .halt(format!("the transaction at {} cannot be read: {reason}; {RECOVERY_HINT}", entry.zxid), out);
            }
        }
        self.since_checkpoint.count(count, bytes);
        if self.applied < through {
            self.applies_later = true;
            self.continue_later(out);
        }
        self.finish_syncs(out);
        self.checkpoint_and_trim();
    }

    fn apply_entry(&mut self, entry: &Entry, out: &mut Vec<Effect>) -> Result<(), String> {
        let (zxid, session) = (entry.zxid, entry.origin.session);
        let applied = self.requests.applied(entry);
        let outcome = self.machine.apply(entry, matches!(applied, Applied::Answers(_)))?;
        self.applied = zxid;
        if let (Some((session, timeout)), Some(leadership)) = (outcome.opened, &mut self.leadership) {
            leadership.expiry.track(session, timeout, self.now);
        }
        if outcome.members {
            self.report_members(out);
            let reachable: Vec<_> = self.scoring.reachable().collect();
            reachable.into_iter().for_each(|peer| self.heartbeat(peer, out));
        }
        if outcome.oracle {
            self.update_oracle(out);
        }
        out.extend(outcome.events.into_iter().map(|(client, body)| Effect::Notify { client, zxid, body }));
        match applied {
            Applied::Foreign => {}
            Applied::Answers(held) => self.answer_held(&held, outcome.attached, outcome.reply, out),
            Applied::Supersedes(_) => self.close_session(session, CloseReason::SessionMoved, out),
        }
        if let Some(ended) = outcome.ended {
            if let Some(leadership) = &mut self.leadership {
                leadership.expiry.forget(ended);
            }
            self.touches.forget(ended);
            self.requests.detach(ended);
            self.close_session(ended, CloseReason::SessionEnded, out);
        }
        Ok(())
    }

    fn answer_held(
        &mut self,
        held: &HeldRequest<Bytes>,
        attached: Option<AttachAnswer>,
        reply: Bytes,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.client(held.session) else { return };
        if held.cxid.is_attachment() {
            let answer = attached.unwrap_or(AttachAnswer::Expired);
            out.push(Effect::Attached { client, zxid: self.applied, answer });
        } else {
            self.answer(client, held.cxid, reply, out);
        }
    }

    /// Takes a snapshot if one is due, and trims the log in memory.
    fn checkpoint_and_trim(&mut self) {
        if self.since_checkpoint.is_due(&self.config) {
            self.since_checkpoint = SinceCheckpoint::after(self.applied);
            let body = self.machine.snapshot();
            let zxid = self.applied;
            self.with_zab(|zab, outputs| zab.checkpoint(zxid, body, outputs));
        }
        self.zab.trim(self.applied, self.config.retain_bytes);
    }

    /// Adopts the oracle that the ensemble chose, in a transaction or in a restored state. If this server cannot build
    /// it, because it belongs to a newer version, it reports that and keeps its own.
    pub(crate) fn update_oracle(&mut self, out: &mut Vec<Effect>) {
        let Some((text, version)) = self.machine.oracle() else { return };
        let spec = core::str::from_utf8(&text).map_err(|error| error.to_string());
        let oracle =
            spec.and_then(|spec| pole_oracle::Spec::parse(spec).and_then(|s| s.build()).map_err(|e| e.to_string()));
        match oracle {
            Ok(oracle) => self.set_oracle(oracle, version),
            Err(error) => out.push(Effect::Note(Note::BadOracle { version, error })),
        }
    }

    /// Leader: closes expired sessions, and does what is due by the wall clock.
    pub(crate) fn check_sessions(&mut self, ping: u64) {
        let active = self.touches.report_to_quorum(ping, self.now);
        let Some(leadership) = &mut self.leadership else { return };
        leadership.touch(active, self.now);
        let own = |session, body| Request { origin: Origin { session, cxid: Cxid::OWN }, floor: Zxid::ZERO, body };
        for session in leadership.expiry.advance(self.now) {
            leadership.chores.push_back(own(session, self.machine.closing()));
        }
        if self.now >= leadership.chores_at && leadership.chores.is_empty() {
            // Each check scans a part of the state.
            let (mut chores, next) = self.machine.chores(self.wall_ms, leadership.chores_from);
            let limit =
                ContainerLimit { per_minute: self.config.containers_per_minute, every: self.config.chores_every };
            let (from, after) = limit.apply(&mut chores, leadership.chores_from, next);
            leadership.chores_from = from;
            leadership.chores_at = self.now + after;
            leadership.chores.extend(chores.into_iter().map(|body| own(SessionId(0), body)));
        }
    }

    /// Follower: reports to the leader whose clients were active.
    pub(crate) fn report_touches(&mut self, out: &mut Vec<Effect>) {
        if let (Phase::Serving, Some(to), Some(epoch)) = (self.zab.phase(), self.zab.leader(), self.zab.serving_epoch())
            && let Some((id, sessions)) = self.touches.report(self.now)
        {
            let message = Message::Touch { epoch, id, sessions };
            out.push(Effect::Send { to, channel: Channel::Quorum, message });
        }
    }

    /// Leader: handles a follower's report of active clients.
    pub(crate) fn touched(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        id: u64,
        sessions: Vec<SessionId>,
        out: &mut Vec<Effect>,
    ) {
        if let Some(leadership) = &mut self.leadership
            && self.zab.is_followed_by(from, epoch)
        {
            leadership.touch(sessions, self.now);
            let message = Message::TouchDone { epoch, id };
            out.push(Effect::Send { to: from, channel: Channel::Quorum, message });
        }
    }

    /// The leader confirms a report of active clients.
    pub(crate) fn touch_done(&mut self, from: ServerId, epoch: Epoch, id: u64, out: &mut Vec<Effect>) {
        if self.serving() == Some((from, epoch)) {
            out.extend(self.touches.answered(id).map(|at| Effect::Confirmed { at }));
        }
    }

    /// Handles a client's read: answers it at once, or after the writes that came before it.
    pub(crate) fn read(&mut self, client: ClientId, cxid: Cxid, body: Bytes, out: &mut Vec<Effect>) {
        self.clients.read(client, cxid, body);
        self.send_answers(client, out);
    }

    /// Handles a client's sync. The leader is asked at the end of the step; the reply keeps its place after the writes
    /// before it.
    pub(crate) fn sync(&mut self, client: ClientId, cxid: Cxid) {
        if self.clients.session(client).is_none() {
            return;
        }
        self.clients.sync(client, cxid);
        self.pending_syncs.add(client, cxid);
    }

    /// Asks the leader to answer the syncs of this step.
    fn ask_syncs(&mut self, out: &mut Vec<Effect>) {
        let Some((leader, epoch)) = self.serving() else { return };
        let Some(through) = self.pending_syncs.take_question() else { return };
        if leader == self.config.me {
            self.syncs_requested(leader, epoch, through);
        } else {
            let message = Message::SyncAsk { epoch, through };
            out.push(Effect::Send { to: leader, channel: Channel::Quorum, message });
        }
    }

    /// Leader: handles the syncs of a server.
    pub(crate) fn syncs_requested(&mut self, from: ServerId, epoch: Epoch, through: u64) {
        let ours = from == self.config.me && self.zab.serving_epoch() == Some(epoch);
        if let Some(leadership) = &mut self.leadership
            && (ours || self.zab.is_followed_by(from, epoch))
        {
            leadership.confirmations.add(from, through, self.zab.log().last());
        }
    }

    /// Forwards the syncs of this step. The leader starts a round of pings for those that it received, and answers those that
    /// are confirmed and committed.
    pub(crate) fn confirm_syncs(&mut self, out: &mut Vec<Effect>) {
        self.ask_syncs(out);
        if self.leadership.as_ref().is_some_and(|leadership| leadership.confirmations.needs_round()) {
            let round = self.with_zab(pole_zab::Zab::ping);
            self.leadership.iter_mut().for_each(|leadership| leadership.confirmations.round_began(round));
        }
        if let (Some(epoch), Some(leadership)) = (self.zab.serving_epoch(), &mut self.leadership) {
            let (confirmed, committed) = (self.zab.confirmed(), self.zab.committed());
            out.extend(self.touches.answered(confirmed).map(|at| Effect::Confirmed { at }));
            while let Some((server, through, zxid)) = leadership.confirmations.done(confirmed, committed) {
                if server == self.config.me {
                    self.pending_syncs.answered(through, zxid);
                } else {
                    let message = Message::SyncDone { epoch, through, zxid };
                    out.push(Effect::Send { to: server, channel: Channel::Quorum, message });
                }
            }
        }
        self.finish_syncs(out);
    }

    /// Answers the syncs whose position is applied, and submits the writes that waited for them.
    fn finish_syncs(&mut self, out: &mut Vec<Effect>) {
        while let Some((client, cxid)) = self.pending_syncs.done(self.applied) {
            let deferred = self.clients.synced(client, cxid);
            self.send_answers(client, out);
            if let Some(session) = self.clients.session(client) {
                deferred.into_iter().for_each(|(cxid, body)| self.hold(session, cxid, body));
            }
        }
    }

    /// Handles the leader's answer to syncs, which complete when that position is applied here.
    pub(crate) fn syncs_done(&mut self, from: ServerId, epoch: Epoch, through: u64, zxid: Zxid) {
        if self.serving() == Some((from, epoch)) {
            self.pending_syncs.answered(through, zxid);
        }
    }

    /// Handles a connection that was closed by the driver.
    pub(crate) fn detach(&mut self, client: ClientId) {
        self.pending_syncs.forget(client);
        self.machine.forget(client);
        if let Some(session) = self.clients.remove(client) {
            self.requests.detach(session);
        }
    }

    fn close_session(&mut self, session: SessionId, reason: CloseReason, out: &mut Vec<Effect>) {
        if let Some(client) = self.clients.remove_session(session) {
            self.pending_syncs.forget(client);
            self.machine.forget(client);
            out.push(Effect::Close { client, reason });
        }
    }

    pub(crate) fn close_all_clients(&mut self, reason: CloseReason, out: &mut Vec<Effect>) {
        self.requests.clear();
        self.pending_syncs.clear();
        for client in self.clients.take_all() {
            self.machine.forget(client);
            out.push(Effect::Close { client, reason });
        }
    }

    fn answer(&mut self, client: ClientId, cxid: Cxid, reply: Bytes, out: &mut Vec<Effect>) {
        self.clients.answer(client, cxid, self.applied, reply);
        self.send_answers(client, out);
    }

    /// Sends a client all replies that are due, in order.
    fn send_answers(&mut self, client: ClientId, out: &mut Vec<Effect>) {
        let Some(session) = self.clients.session(client) else { return };
        let mut read_bytes = 0;
        while let Some((cxid, answer)) = self.clients.next(client) {
            let (zxid, body) = match answer {
                Answer::Known(zxid, reply) => (zxid, reply),
                Answer::Synced => (self.applied, Bytes::new()),
                Answer::Read(body) => {
                    let (zxid, result) = (self.applied, self.machine.read(client, session, &body));
                    out.extend(result.events.into_iter().map(|body| Effect::Notify { client, zxid, body }));
                    read_bytes += result.reply.len();
                    (zxid, result.reply)
                }
            };
            out.push(Effect::Reply { client, cxid, zxid, body });
            if read_bytes > READ_BYTES_MAX {
                return self.close_session(session, CloseReason::OutputLimit, out);
            }
        }
    }
}

/// The maximum size of a message with forwarded requests, unless a single request is larger.
const FORWARD_BYTES_MAX: usize = 512 << 10;

/// The maximum size of the replies to reads that waited for a write, sent at once on the node's thread. A connection
/// lets only few large reads wait there, so only a client that suddenly requests much reaches this limit. It is
/// disconnected, so that others need not wait.
const READ_BYTES_MAX: usize = 16 << 20;
/// The maximum number of transactions applied in one step. It equals the default limit of transactions under way, so
/// that small ones are applied at once in normal operation.
const APPLIED_PER_STEP_MAX: usize = 1_000;

/// The same limit in bytes: a transaction may hold thousands of operations.
const APPLIED_BYTES_PER_STEP_MAX: usize = 256 << 10;

/// The same limit in replies and events of watches: many clients may watch what is written.
const APPLIED_EFFECTS_PER_STEP_MAX: usize = 4_000;

/// The size of the transactions that are proposed and not yet committed; the last one may be larger. What waits longer waits in
/// the inbox, where small requests pass large ones: in the logs and on the links they cannot. Enough for a thousand
/// transactions of 1 KiB, and for 10 MB a second over a round trip of 100 ms.
const UNDER_WAY_BYTES_MAX: usize = 1 << 20;

/// Advice to the operator when the state cannot be restored from what is stored here.
const RECOVERY_HINT: &str = "a disk or a peer is damaged, or of another version; move the files of this server away \
                            and start it again, and the others send it their state";

/// Limits how many containers and nodes with a time to live are deleted in a minute.
struct ContainerLimit {
    /// `znode.container.maxPerMinute`.
    per_minute: u64,
    /// The interval between two scans of the whole state.
    every: Span,
}

impl ContainerLimit {
    /// Shortens the deletions that a scan from `from` found to what may be deleted at once, a second's worth. Returns
    /// where the next scan begins and after how much time: a shortened scan is repeated, and finds the rest again.
    fn apply(&self, due: &mut Vec<Bytes>, from: u32, next: Option<u32>) -> (u32, Span) {
        let burst = usize::try_from(self.per_minute.div_ceil(60)).unwrap_or(usize::MAX);
        let is_shortened = due.len() > burst;
        due.truncate(burst);
        let pause = Span::from_us(60_000_000_u64.saturating_mul(due.len() as u64) / self.per_minute.max(1));
        match next {
            _ if is_shortened => (from, pause),
            Some(next) => (next, pause),
            None => (0, pause.max(self.every)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_containers_are_deleted_in_a_minute_than_the_limit_allows() {
        let limit = ContainerLimit { per_minute: 600, every: Span::from_ms(60_000) };
        let due = |count: usize| alloc::vec![Bytes::new(); count];
        let mut many = due(25);
        assert_eq!(limit.apply(&mut many, 7, Some(9)), (7, Span::from_ms(1_000)), "the rest is found again from 7");
        assert_eq!(many.len(), 10);
        assert_eq!(limit.apply(&mut due(5), 7, Some(9)), (9, Span::from_ms(500)));
        assert_eq!(limit.apply(&mut due(0), 7, Some(9)), (9, Span::ZERO), "an empty part costs no time");
        assert_eq!(limit.apply(&mut due(3), 7, None), (0, Span::from_ms(60_000)), "the scan is complete");
    }
}
