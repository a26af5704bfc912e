//! Serving clients: attachments, writes, reads and syncs, from the connection to the agreement and back.
//!
//! In: what clients ask; entries logged, cut and applied. Out: requests to the leader, proposals, answers.
//! Holds: a write is answered when this server has applied its transaction; a client does not notice a leader change,
//! because what is held is matched against the recovered history and the rest is sent again, in order.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{ServerId, Zxid};
use pole_zab::{Applied, Cxid, Entry, Epoch, Held, Origin, Phase, SessionId, Ticket};

use crate::checkpoints::SinceCheckpoint;
use crate::clients::Answer;
use crate::node::Node;
use crate::{AttachAnswer, Channel, ClientId, CloseReason, Effect, Machine, Message, Note, Request};

impl<M: Machine> Node<M> {
    /// A connection asks for a session. It opens when its attachment, a transaction, is applied here.
    pub(crate) fn attach(&mut self, client: ClientId, session: SessionId, body: Bytes, out: &mut Vec<Effect>) {
        if let Some(older) = self.clients.attach(client, session) {
            self.asked.forget(older);
            self.machine.forget(older);
            out.push(Effect::Close { client: older, reason: CloseReason::SessionAttachedAgain });
        }
        self.attachments = self.attachments.wrapping_add(1);
        // Another incarnation starts far from this one, lest an attachment of the last is taken for one of ours.
        let start = self.config.incarnation.wrapping_mul(0x9e37_79b1);
        let number = Cxid::attachment(self.config.me, start.wrapping_add(self.attachments));
        self.requests.attach(session, number, body.clone());
        if self.zab.serving_epoch().is_none() {
            self.start_grace(out);
        }
        self.submit(Request { origin: Origin { session, cxid: number }, floor: Zxid::ZERO, body });
    }

    /// A client's write.
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

    /// On its way to validation, if there is a leader; otherwise it is held until there is.
    fn submit(&mut self, request: Request) {
        match self.zab.phase() {
            Phase::Established => {
                self.expiry.touch(request.origin.session, self.now);
                self.inbox.push_back((self.config.me, request));
            }
            Phase::Serving => self.outbox.push(request),
            Phase::Looking
            | Phase::Greeting
            | Phase::Promised
            | Phase::Joining
            | Phase::TakingOver
            | Phase::Gathering
            | Phase::Promising
            | Phase::Pulling
            | Phase::Synchronising => {}
        }
    }

    /// What we hold that is in no log of ours.
    pub(crate) fn unlogged_requests(&self) -> Vec<Request> {
        let request = |held: &Held<Bytes>| Request {
            origin: Origin { session: held.session, cxid: held.cxid },
            floor: match held.cxid.is_attachment() {
                true => Zxid::ZERO,
                false => self.requests.floor(held.session).unwrap_or_default(),
            },
            body: held.request.clone(),
        };
        self.requests.unlogged().into_iter().map(request).collect()
    }

    /// Follower: the requests of the step, in messages that are not too long for a link.
    pub(crate) fn forward_outbox(&mut self, out: &mut Vec<Effect>) {
        if self.outbox.is_empty() {
            return;
        }
        let mut waiting = core::mem::take(&mut self.outbox).into_iter().peekable();
        let (Phase::Serving, Some(to), Some(epoch)) = (self.zab.phase(), self.zab.leader(), self.zab.serving_epoch())
        else {
            return;
        };
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

    /// Leader: requests of a follower. Those of another epoch were sent before the follower was synchronised in ours,
    /// and it sends them again. So it does with those that come before it joined over this link: earlier ones may have
    /// been lost with the link before it.
    pub(crate) fn forwarded(&mut self, from: ServerId, epoch: Epoch, requests: Vec<Request>) {
        if self.zab.is_followed_by(from, epoch) {
            for request in requests {
                // Heard when it comes, however long it waits for its turn.
                self.expiry.touch(request.origin.session, self.now);
                self.inbox.push_back((from, request));
            }
        }
    }

    /// Leader: makes requests into transactions, as many as may be under way.
    pub(crate) fn propose_inbox(&mut self) {
        if self.zab.phase() != Phase::Established || self.is_frozen() {
            return;
        }
        // A request is validated against all that came before it, so that is applied first.
        if self.applied < self.zab.ready() || (self.inbox.is_empty() && self.chores.is_empty()) {
            return;
        }
        let mut batch = Vec::new();
        let first = self.zab.next_zxid();
        let mut room = self.config.outstanding_max.saturating_sub(self.under_way());
        while room > 0
            && !self.machine.is_waiting()
            && let Some(request) = self.next_request()
        {
            let zxid = Zxid::new(first.epoch(), first.counter() + batch.len() as u32);
            if request.origin.cxid != Cxid::OWN {
                self.expiry.touch(request.origin.session, self.now);
            } else if !self.expiry.is_silent(request.origin.session) {
                continue; // a word of it came before its end did
            }
            if let Some(body) = self.machine.prepare(zxid, &request, self.wall_ms) {
                batch.push((request.origin, body));
                room -= 1;
            }
        }
        self.with_zab(|zab, outputs| zab.propose(batch, outputs));
    }

    /// The next request to propose: a few of our own, then those of clients.
    fn next_request(&mut self) -> Option<Request> {
        if let Some(left) = self.chores_left.checked_sub(1)
            && let Some(request) = self.chores.pop_front()
        {
            self.chores_left = left;
            return Some(request);
        }
        self.inbox.pop_front().map(|(_, request)| request)
    }

    /// Proposals that are not yet committed.
    fn under_way(&self) -> usize {
        let (last, committed) = (self.zab.log().last(), self.zab.committed());
        let before = if last.epoch() == committed.epoch() { committed.counter() } else { 0 };
        (last.counter() - before) as usize
    }

    /// Entries were put into our log. If they answer a connection here out of its order, somebody else speaks in its name:
    /// the connection is closed, so that its client finds out what became of its requests, and a leader that proposed such
    /// a thing is left.
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
        // Of its followers a leader cannot tell which it was.
        if let Some(leader) = self.zab.leader().filter(|leader| *leader != self.config.me) {
            self.refuse(leader, Channel::Quorum, error, out);
        }
    }

    /// Our log was cut: what is cut was prepared for nothing, and what we hold of it is to be sent again.
    pub(crate) fn truncated(&mut self, to: Zxid) {
        self.requests.truncated(to);
        self.machine.forget_prepared();
    }

    /// Our history is replaced, and our state will be. A snapshot holds neither the answers that clients wait for nor
    /// what they watch.
    pub(crate) fn installed(&mut self, zxid: Zxid, out: &mut Vec<Effect>) {
        self.machine.forget_prepared();
        self.close_all_clients(CloseReason::SnapshotInstalled, out);
        out.push(Effect::Note(Note::Installed { zxid }));
    }

    /// Our state was replaced.
    pub(crate) fn restored(&mut self, ticket: Ticket, failed: Option<String>, out: &mut Vec<Effect>) {
        let Some(zxid) = self.with_zab(|zab, outputs| zab.restored(ticket, outputs)) else { return };
        if let Some(reason) = failed {
            return self.halt(format!("the snapshot at {zxid} cannot be read: {reason}; {START_AFRESH}"), out);
        }
        self.applied = zxid;
        self.since_checkpoint = SinceCheckpoint::after(zxid);
        self.oracle_decided(out);
    }

    /// More is committed and on our disk.
    pub(crate) fn apply(&mut self, out: &mut Vec<Effect>) {
        if !self.continues {
            self.apply_some(out);
        }
    }

    /// What was put off goes on.
    pub(crate) fn continue_applying(&mut self, out: &mut Vec<Effect>) {
        if core::mem::take(&mut self.continues) && !self.zab.is_restoring() {
            self.apply_some(out);
        }
    }

    /// Applies what is ready, and answers. Not more at once than takes a few milliseconds: after a restart, or behind a
    /// snapshot, much may be ready, and meanwhile others want to hear that we live.
    fn apply_some(&mut self, out: &mut Vec<Effect>) {
        let through = self.zab.ready();
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let has_room = bytes < APPLIED_BYTES;
            bytes += entry.body.len();
            has_room
        };
        let ready = self.zab.log().between(self.applied, through);
        let entries: Vec<Entry> = ready.take(APPLIED_AT_ONCE).take_while(fits).cloned().collect();
        let bytes = entries.iter().map(|entry| entry.body.len() as u64).sum();
        self.since_checkpoint.count(entries.len() as u64, bytes);
        if entries.last().is_some_and(|last| last.zxid < through) {
            self.continues = true;
            out.push(Effect::Continue);
        }
        for entry in entries {
            if let Err(reason) = self.apply_entry(&entry, out) {
                // Not whose it is: a session's number suffices to take the session over, and this is logged.
                return self
                    .halt(format!("the transaction at {} cannot be read: {reason}; {START_AFRESH}", entry.zxid), out);
            }
        }
        self.finish_syncs(out);
        self.keep_bounds();
    }

    fn apply_entry(&mut self, entry: &Entry, out: &mut Vec<Effect>) -> Result<(), String> {
        let (zxid, session) = (entry.zxid, entry.origin.session);
        let concerned = self.requests.applied(entry);
        let outcome = self.machine.apply(entry, matches!(concerned, Applied::Answers(_)))?;
        self.applied = zxid;
        if let Some((session, timeout)) = outcome.opened {
            self.expiry.track(session, timeout, self.now);
        }
        if outcome.oracle {
            self.oracle_decided(out);
        }
        out.extend(outcome.events.into_iter().map(|(client, body)| Effect::Notify { client, zxid, body }));
        match concerned {
            Applied::Foreign => {}
            Applied::Answers(held) => self.answer_held(&held, outcome.attached, outcome.reply, out),
            Applied::Supersedes(_) => self.close_session(session, CloseReason::SessionMoved, out),
        }
        if let Some(ended) = outcome.ended {
            self.expiry.forget(ended);
            self.touches.forget(ended);
            self.requests.detach(ended);
            self.close_session(ended, CloseReason::SessionEnded, out);
        }
        Ok(())
    }

    fn answer_held(&mut self, held: &Held<Bytes>, attached: Option<AttachAnswer>, reply: Bytes, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.client(held.session) else { return };
        if held.cxid.is_attachment() {
            let answer = attached.unwrap_or(AttachAnswer::Expired);
            out.push(Effect::Attached { client, zxid: self.applied, answer });
        } else {
            self.answer(client, held.cxid, reply, out);
        }
    }

    /// Snapshots now and then, and no more log in memory than is kept for differences.
    fn keep_bounds(&mut self) {
        if self.since_checkpoint.is_enough(&self.config) {
            self.since_checkpoint = SinceCheckpoint::after(self.applied);
            let body = self.machine.snapshot();
            let zxid = self.applied;
            self.with_zab(|zab, outputs| zab.checkpoint(zxid, body, outputs));
        }
        self.zab.trim(self.applied, self.config.retain_bytes);
    }

    /// The ensemble decided on its oracle, or had decided in a state that we take over. One that we cannot build is a
    /// newer version's: we say so, and keep ours.
    pub(crate) fn oracle_decided(&mut self, out: &mut Vec<Effect>) {
        let Some((text, version)) = self.machine.oracle() else { return };
        let spec = core::str::from_utf8(&text).map_err(|error| error.to_string());
        let oracle =
            spec.and_then(|spec| pole_oracle::Spec::parse(spec).and_then(|s| s.build()).map_err(|e| e.to_string()));
        match oracle {
            Ok(oracle) => self.set_oracle(oracle, version),
            Err(error) => out.push(Effect::Note(Note::BadOracle { version, error })),
        }
    }

    /// Leader: sessions that are silent are closed, and what is due by the calendar is done.
    pub(crate) fn look_at_sessions(&mut self, question: u64) {
        for session in self.touches.report_to_quorum(question, self.now) {
            self.expiry.touch(session, self.now);
        }
        if self.zab.phase() != Phase::Established {
            return;
        }
        let own = |session, body| Request { origin: Origin { session, cxid: Cxid::OWN }, floor: Zxid::ZERO, body };
        for session in self.expiry.advance(self.now) {
            self.chores.push_back(own(session, self.machine.closing()));
        }
        if self.now >= self.chores_at && self.chores.is_empty() {
            // A part of the state at each look.
            let (chores, next) = self.machine.chores(self.wall_ms, self.chores_from);
            self.chores_from = next.unwrap_or(0);
            if next.is_none() {
                self.chores_at = self.now + self.config.chores_every;
            }
            self.chores.extend(chores.into_iter().map(|body| own(SessionId(0), body)));
        }
    }

    /// Follower: tells the leader whose clients were heard.
    pub(crate) fn report_touches(&mut self, out: &mut Vec<Effect>) {
        if let (Phase::Serving, Some(to), Some(epoch)) = (self.zab.phase(), self.zab.leader(), self.zab.serving_epoch())
            && let Some((id, sessions)) = self.touches.report(self.now)
        {
            let message = Message::Touch { epoch, id, sessions };
            out.push(Effect::Send { to, channel: Channel::Quorum, message });
        }
    }

    /// Leader: a follower heard these.
    pub(crate) fn touched(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        id: u64,
        sessions: Vec<SessionId>,
        out: &mut Vec<Effect>,
    ) {
        if self.zab.is_followed_by(from, epoch) {
            sessions.into_iter().for_each(|session| self.expiry.touch(session, self.now));
            let message = Message::TouchDone { epoch, id };
            out.push(Effect::Send { to: from, channel: Channel::Quorum, message });
        }
    }

    /// The leader knows whose clients we heard.
    pub(crate) fn touch_done(&mut self, from: ServerId, epoch: Epoch, id: u64, out: &mut Vec<Effect>) {
        if self.zab.leader() == Some(from) && self.zab.serving_epoch() == Some(epoch) {
            out.extend(self.touches.answered(id).map(|at| Effect::Confirmed { at }));
        }
    }

    /// A client's read: at once, or behind the writes that came before it.
    pub(crate) fn read(&mut self, client: ClientId, cxid: Cxid, body: Bytes, out: &mut Vec<Effect>) {
        self.clients.read(client, cxid, body);
        self.tell(client, out);
    }

    /// A client's sync: the leader is asked at once, the answer keeps its place behind the writes before it.
    pub(crate) fn sync(&mut self, client: ClientId, cxid: Cxid, out: &mut Vec<Effect>) {
        if self.clients.session(client).is_none() {
            return;
        }
        self.clients.sync(client, cxid);
        let id = self.asked.ask(client, cxid);
        self.ask_leader(id, out);
    }

    fn ask_leader(&mut self, id: u64, out: &mut Vec<Effect>) {
        let Some(epoch) = self.zab.serving_epoch() else { return };
        match self.zab.leader() {
            Some(leader) if leader == self.config.me => self.sync_asked(leader, epoch, id),
            Some(to) => {
                out.push(Effect::Send { to, channel: Channel::Quorum, message: Message::SyncAsk { epoch, id } });
            }
            None => {}
        }
    }

    /// Syncs that the last leader did not answer.
    pub(crate) fn ask_syncs_again(&mut self, out: &mut Vec<Effect>) {
        for id in self.asked.unanswered() {
            self.ask_leader(id, out);
        }
    }

    /// Leader: a sync is asked.
    pub(crate) fn sync_asked(&mut self, from: ServerId, epoch: Epoch, id: u64) {
        let ours = from == self.config.me && self.zab.serving_epoch() == Some(epoch);
        if self.zab.phase() == Phase::Established && (ours || self.zab.is_followed_by(from, epoch)) {
            self.confirmations.ask(from, id, self.zab.log().last());
        }
    }

    /// Leader: begins a round for the syncs of this step, and answers those that are confirmed and committed.
    pub(crate) fn confirm_syncs(&mut self, out: &mut Vec<Effect>) {
        if self.confirmations.needs_round() {
            let round = self.with_zab(pole_zab::Zab::ping);
            self.confirmations.round_began(round);
        }
        let Some(epoch) = self.zab.serving_epoch() else { return };
        if self.zab.leader() == Some(self.config.me) {
            out.extend(self.touches.answered(self.zab.confirmed()).map(|at| Effect::Confirmed { at }));
        }
        while let Some((server, id, zxid)) = self.confirmations.done(self.zab.confirmed(), self.zab.committed()) {
            if server == self.config.me {
                self.sync_done(server, epoch, id, zxid);
            } else {
                let message = Message::SyncDone { epoch, id, zxid };
                out.push(Effect::Send { to: server, channel: Channel::Quorum, message });
            }
        }
        self.finish_syncs(out);
    }

    /// Answers the syncs whose position is applied; the writes behind them go on their way.
    fn finish_syncs(&mut self, out: &mut Vec<Effect>) {
        for (client, cxid) in self.asked.done(self.applied) {
            let deferred = self.clients.synced(client, cxid);
            self.tell(client, out);
            if let Some(session) = self.clients.session(client) {
                deferred.into_iter().for_each(|(cxid, body)| self.hold(session, cxid, body));
            }
        }
    }

    /// The leader's answer to a sync: done once we have applied that much.
    pub(crate) fn sync_done(&mut self, from: ServerId, epoch: Epoch, id: u64, zxid: Zxid) {
        if self.zab.leader() == Some(from) && self.zab.serving_epoch() == Some(epoch) {
            self.asked.answered(id, zxid);
        }
    }

    /// A connection is closed from outside.
    pub(crate) fn detach(&mut self, client: ClientId) {
        self.asked.forget(client);
        self.machine.forget(client);
        if let Some(session) = self.clients.remove(client) {
            self.requests.detach(session);
        }
    }

    fn close_session(&mut self, session: SessionId, reason: CloseReason, out: &mut Vec<Effect>) {
        if let Some(client) = self.clients.remove_session(session) {
            self.asked.forget(client);
            self.machine.forget(client);
            out.push(Effect::Close { client, reason });
        }
    }

    pub(crate) fn close_all_clients(&mut self, reason: CloseReason, out: &mut Vec<Effect>) {
        self.requests.clear();
        self.asked.clear();
        for client in self.clients.take_all() {
            self.machine.forget(client);
            out.push(Effect::Close { client, reason });
        }
    }

    fn answer(&mut self, client: ClientId, cxid: Cxid, reply: Bytes, out: &mut Vec<Effect>) {
        self.clients.answer(client, cxid, self.applied, reply);
        self.tell(client, out);
    }

    /// Tells a client all that can be told now, in order.
    fn tell(&mut self, client: ClientId, out: &mut Vec<Effect>) {
        let Some(session) = self.clients.session(client) else { return };
        let mut read_bytes = 0;
        while let Some((cxid, answer)) = self.clients.next(client) {
            let (zxid, body) = match answer {
                Answer::Known(zxid, reply) => (zxid, reply),
                Answer::Synced => (self.applied, Bytes::new()),
                Answer::Read(body) => {
                    let (zxid, told) = (self.applied, self.machine.read(client, session, &body));
                    out.extend(told.events.into_iter().map(|body| Effect::Notify { client, zxid, body }));
                    read_bytes += told.reply.len();
                    (zxid, told.reply)
                }
            };
            out.push(Effect::Reply { client, cxid, zxid, body });
            if read_bytes > READ_BYTES_MAX {
                return self.close_session(session, CloseReason::OutputLimit, out);
            }
        }
    }
}

/// What a message with requests for the leader holds at most, unless a single request is longer.
const FORWARD_BYTES_MAX: usize = 512 << 10;

/// What reads behind a write may return at once on the node's thread. A connection lets few large reads wait there, so
/// only a client that suddenly asks for much at once gets here; it loses its connection, and nobody waits for it.
const READ_BYTES_MAX: usize = 16 << 20;
/// Transactions that are applied at once at most: as many as are under way at most, so that in everyday life all are.
const APPLIED_AT_ONCE: usize = 1_000;

/// The same in bytes: a transaction may hold thousands of operations.
const APPLIED_BYTES: usize = 1 << 20;

/// What to do when a state cannot be had from what is stored here.
const START_AFRESH: &str = "a disk or a peer is damaged, or of another version; move the files of this server away \
                            and start it again, and the others send it their state";
