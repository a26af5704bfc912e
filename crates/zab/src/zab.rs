//! The entry points of the agreement: each event goes to the role that handles it.
//!
//! A server has its state (`state`) and a role (`role`). A handler stands on the role that may carry it out
//! (`following`, `leading`), so that a follower has no table of acknowledgements to misuse. A message for a role that
//! this server does not have is ignored: it was sent before the role changed.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Proposal, Round, Standing};
use pole_types::{Epoch, Membership, ServerId, Voters, Zxid};

use crate::following::Following;
use crate::leading::Leading;
use crate::members::Members;
use crate::role::Role;
use crate::state::{OnDurable, State, Waiting, send};
use crate::transfer::Progress;
use crate::{
    Body, DiskOp, Entry, Error, Hello, Limits, Log, MembersOf, Message, NotReady, Origin, Output, Phase, Recovered,
    Ticket, TransferId,
};

/// One server's part in the agreement. See the [crate] documentation for the order of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zab {
    state: State,
    role: Role,
}

/// Changes of role and of links.
impl Zab {
    /// Creates a server from the state found on its disk. Only its snapshot is known to be committed.
    ///
    /// # Panics
    /// If the recovered entries are not contiguous. The caller must have checked that.
    #[must_use]
    pub fn new(me: ServerId, members: impl Into<Membership>, limits: Limits, disk: Recovered) -> Self {
        Self::with_members(me, Members::new(MembersOf::NEVER, members.into(), Zxid::ZERO), limits, &disk)
    }

    /// Like [`Zab::new`], for a state machine whose transactions can change the members. `members` are those after the last
    /// change that the recovered snapshot holds, which has the position `version`; without one, those of the configuration,
    /// and zero.
    #[must_use]
    pub fn new_changing(
        me: ServerId,
        (members, version): (Membership, Zxid),
        members_of: MembersOf,
        limits: Limits,
        disk: Recovered,
    ) -> Self {
        Self::with_members(me, Members::new(members_of, members, version), limits, &disk)
    }

    fn with_members(me: ServerId, members: Members, limits: Limits, disk: &Recovered) -> Self {
        Self { state: State::new(me, members, limits, disk), role: Role::Looking }
    }

    /// Starts to lead, as the election decided. `accepted` are epochs reported by votes, which saves asking for them.
    pub fn lead(&mut self, round: Round, accepted: impl IntoIterator<Item = (ServerId, Epoch)>, out: &mut Vec<Output>) {
        self.step_down(out);
        self.role = Role::Leading(Leading::new(&mut self.state, round, accepted, out));
    }

    /// Starts to follow `leader`, as the election decided. `accepted` are epochs reported by votes: the leader will probably
    /// open the next one, which is promised without being asked. Empty if the leader was not elected just now.
    pub fn follow(
        &mut self,
        leader: ServerId,
        round: Round,
        accepted: impl IntoIterator<Item = (ServerId, Epoch)>,
        out: &mut Vec<Output>,
    ) {
        self.step_down(out);
        self.state.decline_waiting(round, out);
        let expected = self.state.plausible(accepted).values().max().map(|epoch| epoch.next());
        self.role = Role::Following(Following::new(&mut self.state, leader, round, expected, out));
    }

    /// Gives up the current role and closes the links that belong to it, so that the other side notices.
    pub fn step_down(&mut self, out: &mut Vec<Output>) {
        self.state.incoming = None;
        self.state.end_transfers(out);
        match core::mem::replace(&mut self.role, Role::Looking) {
            Role::Looking => {}
            Role::Following(following) => self.state.reset(following.leader, out),
            Role::Leading(leading) => {
                leading.followers(self.state.me).for_each(|(id, _)| self.state.reset(id, out));
            }
        }
    }

    /// Reports that the quorum link to `peer` is open.
    pub fn link_up(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        self.state.links.insert(peer);
        if let Some(following) = self.role.following(peer) {
            following.send_hello(&self.state, out);
        }
    }

    /// Reports that the quorum link to `peer` is closed.
    pub fn link_down(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        self.state.links.remove(&peer);
        self.state.waiting.remove(&peer);
        self.state.end_transfer(peer, out);
        self.peer_left(peer, out);
    }

    /// The link to a peer was closed, by either side.
    fn peer_left(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Following(following) if following.leader == peer => {
                out.push(Output::LeaderLost { leader: peer, reason: "its link is closed" });
            }
            Role::Following(following) => following.peer_left(peer),
            Role::Looking => {}
            Role::Leading(leading) => leading.follower_left(&mut self.state, peer, out),
        }
    }
}

/// Messages and completed writes.
impl Zab {
    /// Handles a message from the quorum link to `from`. An error is the peer's fault: close the link.
    ///
    /// # Errors
    /// If the message is invalid regardless of what was lost or reordered before. The state has not changed then.
    pub fn receive(&mut self, from: ServerId, message: Message, out: &mut Vec<Output>) -> Result<(), Error> {
        self.state.check(from, &message)?;
        let Self { state, role } = self;
        match (message, &mut *role) {
            (Message::Hello(hello), _) => self.on_hello(from, hello, out),
            (Message::TakenOver { epoch, last }, _) => self.on_taken_over(from, epoch, last, out),

            (Message::AckEpoch(promise), Role::Leading(leading)) => leading.promised(state, from, promise, None, out),
            (Message::AckEpoch(promise), _) => state.promised_ahead(from, promise),
            (Message::RefuseEpoch { refused, accepted }, Role::Leading(leading)) => {
                leading.on_refuse_epoch(state, from, refused, accepted, out);
            }
            (Message::PullEnd { last }, Role::Leading(leading)) => leading.on_pull_end(state, from, last, out)?,
            (Message::AckLeader { epoch, last }, Role::Leading(leading)) => {
                leading.on_ack_leader(state, from, epoch, last, out)?;
            }
            (Message::Ack { epoch, zxid, .. }, Role::Leading(leading)) => {
                leading.on_ack(state, from, epoch, zxid, out)?;
            }
            (Message::Pong { seq, accepted }, Role::Leading(leading)) => leading.on_pong(from, seq, accepted),

            (Message::Decline, Role::Following(following)) if following.leader == from => following.on_decline(out),
            (Message::NewEpoch { epoch }, Role::Following(following)) if following.leader == from => {
                following.on_new_epoch(state, epoch, out);
            }
            (Message::Pull { epochs }, Role::Following(following)) if following.leader == from => {
                following.on_pull(state, &epochs, out)?;
            }
            (Message::NewLeader { epoch, last }, Role::Following(following)) if following.leader == from => {
                following.on_new_leader(state, epoch, last, out)?;
            }
            (Message::UpToDate { epoch, committed }, Role::Following(following)) if following.leader == from => {
                following.on_up_to_date(state, epoch, committed, out)?;
            }
            (Message::Propose { epoch, prev, entries, committed, listeners }, Role::Following(following))
                if following.leader == from =>
            {
                following.on_propose(state, epoch, (prev, entries), committed, listeners, out)?;
            }
            (Message::Ack { epoch, zxid, .. }, Role::Following(following)) => {
                following.on_ack(state, from, epoch, zxid, out);
            }
            (Message::Commit { epoch, zxid }, Role::Following(following)) if following.leader == from => {
                following.on_commit(state, epoch, zxid, out)?;
            }
            (Message::Handover { epoch, next, last, round, choice, asked }, Role::Following(following))
                if following.leader == from =>
            {
                if let Some(after) = following.on_handover(state, epoch, next, last, (round, choice, asked), out)? {
                    *role = after;
                }
            }
            (Message::Ping { seq }, Role::Following(following)) if following.leader == from => {
                following.on_ping(state, seq, out);
            }

            (Message::Truncate { to }, role) if role.is_synchronised_by(from) => state.on_truncate(from, to, out)?,
            (Message::Entries { prev, entries }, role) if role.is_synchronised_by(from) => {
                role.check_history(from, "Entries", entries.last().map_or(prev, |entry| entry.zxid).epoch())?;
                state.on_entries(from, prev, entries, out)?;
            }
            (Message::Snapshot(part), role) if role.is_synchronised_by(from) => {
                role.check_history(from, "Snapshot", part.zxid.epoch())?;
                state.on_snapshot(from, part, out)?;
            }
            (Message::Received, _) => {
                let progress = state.on_received(from, out);
                self.transfer_progressed(progress, out);
            }

            // Sent before our role changed.
            (
                Message::RefuseEpoch { .. }
                | Message::PullEnd { .. }
                | Message::AckLeader { .. }
                | Message::Ack { .. }
                | Message::Pong { .. }
                | Message::Decline
                | Message::NewEpoch { .. }
                | Message::Pull { .. }
                | Message::NewLeader { .. }
                | Message::UpToDate { .. }
                | Message::Propose { .. }
                | Message::Commit { .. }
                | Message::Handover { .. }
                | Message::Ping { .. }
                | Message::Truncate { .. }
                | Message::Entries { .. }
                | Message::Snapshot(_),
                _,
            ) => {}
        }
        Ok(())
    }

    /// A server chose us. Unless we lead, it waits: we may still be electing, or a hand-over to us may be under way on
    /// another link.
    fn on_hello(&mut self, from: ServerId, hello: Hello, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Leading(leading) => leading.admit(&mut self.state, from, hello, out),
            Role::Following(following) if hello.round <= following.round => send(from, Message::Decline, out),
            Role::Following(_) | Role::Looking => {
                self.state.waiting.insert(from, Waiting { hello, taken_over: None, promise: None });
            }
        }
    }

    /// A follower reports that it has durably accepted the hand-over to us.
    fn on_taken_over(&mut self, from: ServerId, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        if let Some(waiting) = self.state.waiting.get_mut(&from) {
            waiting.taken_over = Some((epoch, last));
        } else if let Role::Leading(leading) = &mut self.role {
            leading.taken_over(&mut self.state, from, epoch, last, out);
        }
    }

    /// Reports that all writes up to `through` are durable.
    pub fn written(&mut self, through: Ticket, out: &mut Vec<Output>) {
        let mut appended = false;
        while let Some((ticket, on_durable)) = self.state.writes.pop_durable(through) {
            match on_durable {
                OnDurable::Nothing => {}
                OnDurable::Appended { last, received } => {
                    self.state.durable = self.state.durable.max(last);
                    appended = true;
                    if let Some((from, epoch)) = received {
                        self.confirm_received(from, epoch, out);
                    }
                }
                OnDurable::Received { from, epoch } => self.confirm_received(from, epoch, out),
                OnDurable::Installed { zxid } => self.state.snapshot_is_durable(ticket, zxid, out),
                OnDurable::Promised { epoch, leader, fresh } => self.promise_is_durable(epoch, leader, fresh, out),
                OnDurable::AdoptedEpoch { epoch, leader, last } => self.epoch_is_durable(epoch, leader, last, out),
                OnDurable::TookOver { epoch, leader, last } => self.take_over_is_durable(epoch, leader, last, out),
            }
        }
        if appended {
            match &mut self.role {
                Role::Looking => {}
                Role::Following(following) => following.log_is_durable(&mut self.state, out),
                Role::Leading(leading) => leading.own_log_is_durable(&mut self.state, out),
            }
        }
        self.state.report_ready(out);
    }

    /// The promise made to `leader` is durable. It is void if our role has changed since.
    fn promise_is_durable(&mut self, epoch: Epoch, leader: ServerId, fresh: bool, out: &mut Vec<Output>) {
        let Self { state, role } = self;
        let promise = state.promise(epoch, fresh);
        match role {
            Role::Leading(leading) if leader == state.me => leading.promised(state, leader, promise, None, out),
            Role::Following(following) if leader == following.leader => following.promise_is_durable(promise, out),
            Role::Leading(_) | Role::Following(_) | Role::Looking => {}
        }
    }

    /// History and epoch are durable: acknowledges them, or defers that while the state is being restored.
    fn epoch_is_durable(&mut self, epoch: Epoch, leader: ServerId, last: Zxid, out: &mut Vec<Output>) {
        let Self { state, role } = self;
        if let Some(restoring) = &mut state.restoring {
            restoring.held = Some((epoch, leader, last));
            return; // a server that acknowledges must serve, and there is no state to serve from yet
        }
        match role {
            Role::Leading(leading) if leader == state.me => leading.became_level(state, leader, epoch, last, out),
            Role::Following(following) if leader == following.leader => {
                following.epoch_is_durable(state, epoch, last, out);
            }
            Role::Leading(_) | Role::Following(_) | Role::Looking => {}
        }
    }

    /// The hand-over to `leader` is durable here.
    fn take_over_is_durable(&mut self, epoch: Epoch, leader: ServerId, last: Zxid, out: &mut Vec<Output>) {
        let Self { state, role } = self;
        match role {
            Role::Leading(leading) if leader == state.me => leading.taken_over(state, leader, epoch, last, out),
            Role::Following(following) if leader == following.leader => {
                following.take_over_is_durable(state, epoch, last, out);
            }
            Role::Leading(_) | Role::Following(_) | Role::Looking => {}
        }
    }

    /// Confirms a message of a transfer, if its sender still synchronises us.
    fn confirm_received(&mut self, from: ServerId, epoch: Epoch, out: &mut Vec<Output>) {
        if self.state.accepted_epoch == epoch && self.role.is_synchronised_by(from) {
            send(from, Message::Received, out);
            out.push(Output::Progress);
        }
    }

    /// Reports that the state of the snapshot installed by `ticket` was restored, as [`Output::Restore`] asked. Returns
    /// its position, or `None` if another snapshot has replaced it since.
    ///
    /// `members` are those that the state holds, with the position of their change, if there was one.
    pub fn restored(
        &mut self,
        ticket: Ticket,
        members: Option<(Membership, Zxid)>,
        out: &mut Vec<Output>,
    ) -> Option<Zxid> {
        let restored = self.state.take_restored(ticket)?;
        if let Some((members, version)) = members {
            self.learn_members(members, version, out);
        }
        self.confirm_received(restored.from, restored.epoch, out);
        if let Some((epoch, leader, last)) = restored.held {
            self.epoch_is_durable(epoch, leader, last, out);
        }
        self.state.request_snapshots(out);
        self.state.report_ready(out);
        Some(restored.zxid)
    }

    /// Stores our own state at `zxid` on disk. The log in memory is kept until [`Zab::trim`].
    pub fn checkpoint(&mut self, zxid: Zxid, body: Body, out: &mut Vec<Output>) {
        let snapshot = self.state.snapshot_of(zxid, body);
        self.state.write(DiskOp::Checkpoint(snapshot), OnDurable::Nothing, out);
    }

    /// Drops entries in memory at or below `checkpoint`, which must be durable, until at most `bytes_max` bytes remain.
    pub fn trim(&mut self, checkpoint: Zxid, bytes_max: usize) {
        self.state.log.trim(checkpoint.min(self.state.ready), bytes_max);
    }
}

/// History that is sent to others.
impl Zab {
    /// Provides the snapshot for `to` that [`Output::WantsSnapshot`] asked for. `zxid` must be the last position
    /// applied to the state.
    pub fn provide_snapshot(&mut self, to: ServerId, zxid: Zxid, body: Body, out: &mut Vec<Output>) {
        if self.state.wants_snapshot.remove(&to) {
            let snapshot = self.state.snapshot_of(zxid, body);
            let progress = self.state.send_state(to, snapshot, out);
            self.transfer_progressed(progress, out);
        }
    }

    /// Takes the next piece of the state passed to [`Output::OpenTransfer`]. `last`: there are no more.
    pub fn piece_is_ready(&mut self, transfer: TransferId, body: Bytes, last: bool, out: &mut Vec<Output>) {
        let progress = self.state.piece_is_ready(transfer, body, last, out);
        self.transfer_progressed(progress, out);
    }

    /// Takes the entries that [`Output::ReadLog`] requested; they must be contiguous. An empty list means that they
    /// could not be read: the receiver's link is closed and it starts over.
    pub fn log_is_read(&mut self, transfer: TransferId, entries: Vec<Entry>, out: &mut Vec<Output>) {
        let progress = self.state.log_is_read(transfer, entries, out);
        self.transfer_progressed(progress, out);
    }

    fn transfer_progressed(&mut self, progress: Progress, out: &mut Vec<Output>) {
        match progress {
            Progress::Continues => {}
            Progress::Complete { to } => match &mut self.role {
                Role::Looking => {}
                Role::Following(following) => following.history_is_sent(&self.state, out),
                Role::Leading(leading) => leading.history_is_sent(&self.state, to, out),
            },
            Progress::Unreadable { to } => {
                self.state.reset(to, out);
                self.peer_left(to, out);
            }
        }
    }
}

/// What a leader does. On a server that does not lead these do nothing.
impl Zab {
    /// Proposes transactions in order; the first gets [`Zab::next_zxid`]. `listeners` are followers that count the
    /// acknowledgements themselves, so that they need not wait for the announcement of the commit.
    ///
    /// # Panics
    /// If this server is not an established leader.
    pub fn propose(&mut self, batch: Vec<(Origin, Bytes)>, listeners: Vec<ServerId>, out: &mut Vec<Output>) {
        if batch.is_empty() {
            return;
        }
        let leading = self.role.leading_mut().expect("only an established leader proposes");
        leading.propose(&mut self.state, batch, listeners, out);
    }

    /// The position of the next proposal in our epoch.
    #[must_use]
    pub fn next_zxid(&self) -> Zxid {
        let epoch = self.role.leading().map_or(Epoch(0), |leading| leading.epoch);
        self.state.log.next_zxid(epoch)
    }

    /// Announces commits to the followers. Call this once after each batch of events.
    pub fn flush(&mut self, out: &mut Vec<Output>) {
        if let Some(leading) = self.role.leading_mut() {
            leading.announce_commits(&self.state, out);
        }
    }

    /// Asks all followers whether they still follow us. Returns the sequence number of the ping, or 0 if we do not
    /// lead.
    pub fn ping(&mut self, out: &mut Vec<Output>) -> u64 {
        self.role.leading_mut().map_or(0, |leading| leading.ping(self.state.me, out))
    }

    /// The last ping that a quorum answered as followers of this established epoch. When that ping was sent, no higher
    /// epoch was established. Returns 0 if there is none.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.role.leading().map_or(0, |leading| leading.confirmed(&self.state))
    }

    /// Whether we are established in `epoch` and `peer` has joined it over its present link. Only then are its syncs and
    /// reports accepted.
    #[must_use]
    pub fn is_followed_by(&self, peer: ServerId, epoch: Epoch) -> bool {
        self.phase() == Phase::Established && self.has_joined(peer, epoch)
    }

    /// Whether we lead in `epoch`, established or not, and `peer` has joined it over its present link. Only then are
    /// forwarded requests of its clients accepted.
    #[must_use]
    pub fn has_joined(&self, peer: ServerId, epoch: Epoch) -> bool {
        self.role.leading().is_some_and(|leading| leading.has_joined(peer, epoch))
    }

    /// Whether we lead and have chosen the history of our epoch, so that followers may have adopted it.
    #[must_use]
    pub fn has_chosen_history(&self) -> bool {
        self.role.leading().is_some_and(Leading::has_chosen_history)
    }

    /// Our followers and the last position that each of them has acknowledged.
    pub fn followers(&self) -> impl Iterator<Item = (ServerId, Zxid)> + '_ {
        self.role.leading().into_iter().flat_map(|leading| leading.followers(self.state.me))
    }

    /// Whether the promises missing for a quorum may still arrive: from ourselves, and from followers that were asked
    /// and for which `is_alive` returns true.
    #[must_use]
    pub fn awaits_promises_of(&self, is_alive: impl Fn(ServerId) -> bool) -> bool {
        self.role.leading().is_some_and(|leading| leading.awaits_promises_of(&self.state, is_alive))
    }

    /// Opens a higher epoch with the present followers, without an election: to admit a server that promised a higher
    /// one to a failed candidate, and before the zxid counter overflows.
    pub fn reopen(&mut self, out: &mut Vec<Output>) {
        if let Some(leading) = self.role.leading_mut() {
            leading.reopen(&mut self.state, out);
        }
    }

    /// Whether the counter of our epoch has reached [`counter_max`](Limits::counter_max).
    #[must_use]
    pub fn needs_new_epoch(&self) -> bool {
        self.phase() == Phase::Established && self.state.log.last().counter() >= self.state.limits.counter_max
    }

    /// Whether a change of the members is under way. Until it is committed, nothing else can be proposed.
    #[must_use]
    pub fn is_changing_members(&self) -> bool {
        self.state.voters().is_joint()
    }

    /// Checks whether the ensemble could go on with these voters: a quorum of them has the history of this leader, so that
    /// it can acknowledge at once. This server need not be one of them: it hands over when the change is committed.
    #[must_use]
    pub fn could_change_to(&self, voters: &Voters) -> bool {
        self.role.leading().is_some_and(|leading| leading.could_change_to(voters))
    }

    /// Checks whether `target` could take over now.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn can_hand_over(&self, target: ServerId) -> Result<(), NotReady> {
        self.role.leading().ok_or(NotReady::NotLeading)?.can_hand_over(&self.state, target)
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
        let leading = self.role.leading().ok_or(NotReady::NotLeading)?;
        leading.can_hand_over(&self.state, choice.id)?;
        self.role = leading.hand_over(&mut self.state, round, choice, asked, out);
        Ok(())
    }
}

/// What a follower does.
impl Zab {
    /// The leader that takes requests of our clients, and the epoch in which it does.
    #[must_use]
    pub fn forwards_to(&self) -> Option<(ServerId, Epoch)> {
        match &self.role {
            Role::Following(following) => Some(following.leader).zip(following.forwarding_epoch()),
            Role::Looking | Role::Leading(_) => None,
        }
    }

    /// Sends the leader an unsolicited sign of life, if this server follows one.
    pub fn send_keepalive(&mut self, out: &mut Vec<Output>) {
        if let Role::Following(following) = &self.role {
            following.send_keepalive(&self.state, out);
        }
    }
}

/// The members of the ensemble.
impl Zab {
    /// Takes over a committed change of the members that our history does not hold yet, from a server that knows of it.
    pub fn learn_members(&mut self, members: Membership, version: Zxid, out: &mut Vec<Output>) {
        self.state.members.learned(version, members);
        self.state.update_members(out);
    }

    /// The members that count now. While a change of them is not committed, these are the members before and after it.
    #[must_use]
    pub fn members(&self) -> &Membership {
        self.state.members.in_force()
    }

    /// The position of the last change of the members, or zero.
    #[must_use]
    pub fn members_version(&self) -> Zxid {
        self.state.members.version()
    }
}

/// Questions.
impl Zab {
    /// The epochs and the last position of this server.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.state.standing()
    }

    /// The phase of the protocol that this server is in.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.role.phase()
    }

    /// The chosen leader, established or not.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking => None,
            Role::Following(following) => Some(following.leader),
            Role::Leading(_) => Some(self.state.me),
        }
    }

    /// The epoch in which clients are served now, if they are.
    #[must_use]
    pub fn serving_epoch(&self) -> Option<Epoch> {
        match self.phase() {
            Phase::Serving | Phase::Established => Some(self.state.current_epoch),
            Phase::Looking
            | Phase::Greeting
            | Phase::Promised
            | Phase::Joining
            | Phase::TakingOver
            | Phase::Gathering
            | Phase::Promising
            | Phase::Pulling
            | Phase::Synchronising => None,
        }
    }

    /// The log in memory.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.state.log
    }

    /// The last position known to be committed.
    #[must_use]
    pub fn committed(&self) -> Zxid {
        self.state.committed
    }

    /// The last position released to the state machine, see [`Output::Ready`].
    #[must_use]
    pub fn ready(&self) -> Zxid {
        self.state.ready
    }

    /// The last position on our disk.
    #[must_use]
    pub fn durable(&self) -> Zxid {
        self.state.durable
    }

    /// Whether the quorum link to `peer` is open.
    #[must_use]
    pub fn is_linked(&self, peer: ServerId) -> bool {
        self.state.links.contains(&peer)
    }

    /// Whether a write is under way.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.state.writes.is_empty()
    }

    /// Whether the state is being restored. Until that is done, this server can neither serve nor lead.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.state.restoring.is_some()
    }

    /// Checks the order of epochs and positions.
    ///
    /// # Panics
    /// If an invariant is broken, which is a bug of this crate.
    pub fn assert_invariants(&self) {
        self.state.assert_invariants();
    }
}
