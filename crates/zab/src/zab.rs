//! One server's part in the agreement: its stored state, its role, and the entry points for events.
//!
//! The roles are types of their own (`following`, `leading`), so that a follower has no table of acknowledgements to
//! misuse.
//!
//! Invariants:
//! - `current_epoch <= accepted_epoch`.
//! - `base <= ready <= committed <= last`, where `base` and `last` are the bounds of the log.
//! - `ready <= durable` while we serve: what the state machine has seen is committed and on our own disk. After a
//!   snapshot was installed, nothing is ready and no client is served until the state is restored from it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Round, Standing};
use pole_types::{Epoch, ServerId, Voters, Zxid};

use crate::following::Following;
use crate::incoming::{Incoming, Restoring};
use crate::leading::Leading;
use crate::transfer::Transfer;
use crate::{
    Body, DiskOp, Entry, Error, Hello, Limits, Log, Message, Origin, Output, Phase, Recovered, Snapshot, Ticket,
    TransferId,
};

/// One server's part in the agreement. See the [crate] documentation for the order of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zab {
    pub(crate) me: ServerId,
    pub(crate) voters: Voters,
    pub(crate) limits: Limits,
    /// The last epoch promised. Its write may still be under way, but messages of older epochs are ignored already.
    pub(crate) accepted_epoch: Epoch,
    /// The last epoch adopted. Its write may still be under way; messages that report it wait for the write.
    pub(crate) current_epoch: Epoch,
    pub(crate) log: Log,
    /// The last position known to be committed. Never decreases, and the log is never truncated below it.
    pub(crate) committed: Zxid,
    /// The last position of the log that is on our disk.
    pub(crate) durable: Zxid,
    /// The last position released to the state machine.
    pub(crate) ready: Zxid,
    next_ticket: Ticket,
    /// Writes under way, oldest first, each with the action that follows when it is durable.
    pub(crate) writes: VecDeque<(Ticket, OnDurable)>,
    /// Peers to which a quorum link is open.
    pub(crate) links: BTreeSet<ServerId>,
    /// Followers that chose us while we do not lead (yet).
    pub(crate) waiting: BTreeMap<ServerId, Waiting>,
    /// A snapshot that is being received.
    pub(crate) incoming: Option<Incoming>,
    /// Set while the state is restored from an installed snapshot.
    pub(crate) restoring: Option<Restoring>,
    /// Transfers of our history, by receiver.
    pub(crate) transfers: BTreeMap<ServerId, Transfer>,
    pub(crate) next_transfer: TransferId,
    /// Servers that need a snapshot of our state.
    pub(crate) wants_snapshot: BTreeSet<ServerId>,
    pub(crate) role: Role,
}

/// The role that the last election gave us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Looking,
    Following(Following),
    Leading(Leading),
}

/// A follower that chose us before our own election ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) hello: Hello,
    pub(crate) taken_over: Option<(Epoch, Zxid)>,
}

/// What to do when a write is durable. It is checked against the state at that time: a newer promise may have made it
/// void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OnDurable {
    /// Nothing depends on the write.
    Nothing,
    /// The log is durable up to `last`. `received`: the entries belong to a difference, and their sender is sent a
    /// confirmation.
    Appended { last: Zxid, received: Option<(ServerId, Epoch)> },
    /// A part of a snapshot is staged.
    Received { from: ServerId, epoch: Epoch },
    /// The snapshot is installed.
    Installed { zxid: Zxid },
    /// The promise made to `leader` may be sent.
    Promised { epoch: Epoch, leader: ServerId, fresh: bool },
    /// The epoch of `leader` is adopted, with the history up to `last`.
    AdoptedEpoch { epoch: Epoch, leader: ServerId, last: Zxid },
    /// The hand-over to `leader` is accepted.
    TookOver { epoch: Epoch, leader: ServerId, last: Zxid },
}

impl Zab {
    /// Creates a server from the state found on its disk. Only its snapshot is known to be committed.
    ///
    /// # Panics
    /// If the recovered entries are not contiguous. The caller must have checked that.
    #[must_use]
    pub fn new(me: ServerId, voters: Voters, limits: Limits, disk: Recovered) -> Self {
        let committed = disk.snapshot_zxid();
        let log = recovered_log(&disk);
        Self {
            me,
            voters,
            limits,
            accepted_epoch: disk.accepted_epoch,
            current_epoch: disk.current_epoch,
            durable: log.last(),
            log,
            committed,
            ready: committed,
            next_ticket: Ticket(1),
            writes: VecDeque::new(),
            links: BTreeSet::new(),
            waiting: BTreeMap::new(),
            incoming: None,
            restoring: None,
            transfers: BTreeMap::new(),
            next_transfer: TransferId(1),
            wants_snapshot: BTreeSet::new(),
            role: Role::Looking,
        }
    }

    /// Starts to lead, as the election decided. `accepted` are epochs reported by votes, which saves asking for them.
    pub fn lead(&mut self, round: Round, accepted: impl IntoIterator<Item = (ServerId, Epoch)>, out: &mut Vec<Output>) {
        self.step_down(out);
        self.start_leading(round, accepted, out);
    }

    /// Starts to follow `leader`, as the election decided.
    pub fn follow(&mut self, leader: ServerId, round: Round, out: &mut Vec<Output>) {
        self.step_down(out);
        self.role = Role::Following(Following::new(leader, round));
        self.decline_waiting(round, out);
        self.send_hello(out);
    }

    /// Gives up the current role and closes the links that belong to it, so that the other side notices.
    pub fn step_down(&mut self, out: &mut Vec<Output>) {
        self.incoming = None;
        self.end_transfers(out);
        match core::mem::replace(&mut self.role, Role::Looking) {
            Role::Looking => {}
            Role::Following(following) => self.reset(following.leader, out),
            Role::Leading(leading) => {
                let me = self.me;
                leading.peers.keys().filter(|id| **id != me).for_each(|id| self.reset(*id, out));
            }
        }
    }

    /// Reports that the quorum link to `peer` is open.
    pub fn link_up(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        self.links.insert(peer);
        if self.leader() == Some(peer) {
            self.send_hello(out);
        }
    }

    /// Reports that the quorum link to `peer` is closed.
    pub fn link_down(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        self.links.remove(&peer);
        self.waiting.remove(&peer);
        self.end_transfer(peer, out);
        self.peer_left(peer, out);
    }

    /// The link to a peer was closed, by either side.
    pub(crate) fn peer_left(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        match &self.role {
            Role::Looking => {}
            Role::Following(following) if following.leader == peer => {
                out.push(Output::LeaderLost { leader: peer, reason: "its link is closed" });
            }
            Role::Following(_) => {}
            Role::Leading(_) => self.follower_left(peer, out),
        }
    }

    /// Handles a message from the quorum link to `from`. An error is the peer's fault: close the link.
    ///
    /// # Errors
    /// If the message is invalid regardless of what was lost or reordered before. The state has not changed then.
    pub fn receive(&mut self, from: ServerId, message: Message, out: &mut Vec<Output>) -> Result<(), Error> {
        if !self.voters.contains(from) {
            return Err(Error::Foreign(from));
        }
        match message {
            Message::Hello(hello) => self.on_hello(from, hello, out),
            Message::TakenOver { epoch, last } => self.on_taken_over(from, epoch, last, out),
            Message::AckEpoch(promise) => self.on_ack_epoch(from, promise, out),
            Message::RefuseEpoch { refused, accepted } => self.on_refuse_epoch(from, refused, accepted, out),
            Message::PullEnd { last } => self.on_pull_end(from, last, out),
            Message::AckLeader { epoch, last } => self.on_ack_leader(from, epoch, last, out),
            Message::Ack { epoch, zxid, server } => self.on_ack(from, epoch, zxid, server, out),
            Message::Pong { seq, accepted } => self.on_pong(from, seq, accepted),
            Message::Decline => self.on_decline(from, out),
            Message::NewEpoch { epoch } => self.on_new_epoch(from, epoch, out),
            Message::Pull { epochs } => self.on_pull(from, &epochs, out),
            Message::Truncate { to } => self.on_truncate(from, to, out),
            Message::Snapshot(part) => self.on_snapshot(from, part, out),
            Message::Received => {
                self.on_received(from, out);
                Ok(())
            }
            Message::Entries { prev, entries } => self.on_entries(from, prev, entries, out),
            Message::NewLeader { epoch, last } => self.on_new_leader(from, epoch, last, out),
            Message::UpToDate { epoch, committed } => self.on_up_to_date(from, epoch, committed, out),
            Message::Propose { epoch, prev, entries, committed } => {
                self.on_propose(from, epoch, prev, entries, committed, out)
            }
            Message::Commit { epoch, zxid } => self.on_commit(from, epoch, zxid, out),
            Message::Handover { epoch, next, last, round, choice, asked } => {
                self.on_handover(from, epoch, next, last, (round, choice, asked), out)
            }
            Message::Ping { seq } => self.on_ping(from, seq, out),
        }
    }

    /// Reports that all writes up to `through` are durable.
    pub fn written(&mut self, through: Ticket, out: &mut Vec<Output>) {
        let mut appended = false;
        while self.writes.front().is_some_and(|(ticket, _)| *ticket <= through) {
            let (ticket, on_durable) = self.writes.pop_front().expect("there is a front");
            match on_durable {
                OnDurable::Nothing => {}
                OnDurable::Appended { last, received } => {
                    self.durable = self.durable.max(last);
                    appended = true;
                    if let Some((from, epoch)) = received {
                        self.confirm_received(from, epoch, out);
                    }
                }
                OnDurable::Received { from, epoch } => self.confirm_received(from, epoch, out),
                OnDurable::Installed { zxid } => self.snapshot_is_durable(ticket, zxid, out),
                OnDurable::Promised { epoch, leader, fresh } => self.promise_is_durable(epoch, leader, fresh, out),
                OnDurable::AdoptedEpoch { epoch, leader, last } => self.epoch_is_durable(epoch, leader, last, out),
                OnDurable::TookOver { epoch, leader, last } => self.take_over_is_durable(epoch, leader, last, out),
            }
        }
        if appended {
            self.log_is_durable(out);
        }
        self.report_ready(out);
    }

    /// Proposes transactions in order; the first gets [`Zab::next_zxid`].
    ///
    /// # Panics
    /// If this server is not an established leader.
    pub fn propose(&mut self, batch: Vec<(Origin, Bytes)>, out: &mut Vec<Output>) {
        if batch.is_empty() {
            return;
        }
        assert_eq!(self.phase(), Phase::Established, "only an established leader proposes");
        let after = self.log.last();
        let mut entries = Vec::with_capacity(batch.len());
        for (origin, body) in batch {
            let entry = Entry { zxid: self.next_zxid(), origin, body };
            self.log.push(entry.clone());
            entries.push(entry);
        }
        let last = self.log.last();
        out.push(Output::Logged { after, through: last });
        self.broadcast(after, &entries, out);
        self.write(DiskOp::Append(entries), OnDurable::Appended { last, received: None }, out);
    }

    /// The position of the next proposal in our epoch.
    #[must_use]
    pub fn next_zxid(&self) -> Zxid {
        let last = self.log.last();
        match &self.role {
            Role::Leading(leading) if last.epoch() < leading.epoch => Zxid::new(leading.epoch, 1),
            Role::Leading(_) | Role::Following(_) | Role::Looking => Zxid::new(last.epoch(), last.counter() + 1),
        }
    }

    /// Announces commits to the followers. Call this once after each batch of events.
    pub fn flush(&mut self, out: &mut Vec<Output>) {
        self.announce_commits(out);
    }

    /// Stores our own state at `zxid` on disk. The log in memory is kept until [`Zab::trim`].
    pub fn checkpoint(&mut self, zxid: Zxid, body: Body, out: &mut Vec<Output>) {
        let snapshot = self.snapshot_of(zxid, body);
        self.write(DiskOp::Checkpoint(snapshot), OnDurable::Nothing, out);
    }

    /// Provides the snapshot for `to` that [`Output::WantsSnapshot`] asked for. `zxid` must be the last position
    /// applied to the state.
    pub fn provide_snapshot(&mut self, to: ServerId, zxid: Zxid, body: Body, out: &mut Vec<Output>) {
        if self.wants_snapshot.remove(&to) {
            let snapshot = self.snapshot_of(zxid, body);
            self.send_state(to, snapshot, out);
        }
    }

    /// Drops entries in memory at or below `checkpoint`, which must be durable, until at most `bytes_max` bytes remain.
    pub fn trim(&mut self, checkpoint: Zxid, bytes_max: usize) {
        self.log.trim(checkpoint.min(self.ready), bytes_max);
    }

    /// The epochs and the last position of this server.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing { accepted_epoch: self.accepted_epoch, current_epoch: self.current_epoch, last_zxid: self.log.last() }
    }

    /// The phase of the protocol that this server is in.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match &self.role {
            Role::Looking => Phase::Looking,
            Role::Following(following) => following.phase(),
            Role::Leading(leading) => leading.phase(),
        }
    }

    /// The chosen leader, established or not.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.role {
            Role::Looking => None,
            Role::Following(following) => Some(following.leader),
            Role::Leading(_) => Some(self.me),
        }
    }

    /// The epoch in which clients are served now, if they are.
    #[must_use]
    pub fn serving_epoch(&self) -> Option<Epoch> {
        match self.phase() {
            Phase::Serving | Phase::Established => Some(self.current_epoch),
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
        &self.log
    }

    /// The last position known to be committed.
    #[must_use]
    pub fn committed(&self) -> Zxid {
        self.committed
    }

    /// The last position released to the state machine, see [`Output::Ready`].
    #[must_use]
    pub fn ready(&self) -> Zxid {
        self.ready
    }

    /// The last position on our disk.
    #[must_use]
    pub fn durable(&self) -> Zxid {
        self.durable
    }

    /// Whether the quorum link to `peer` is open.
    #[must_use]
    pub fn is_linked(&self, peer: ServerId) -> bool {
        self.links.contains(&peer)
    }

    /// Whether a write is under way.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Checks the order of epochs and positions.
    ///
    /// # Panics
    /// If an invariant is broken, which is a bug of this crate.
    pub fn assert_invariants(&self) {
        assert!(
            self.current_epoch <= self.accepted_epoch,
            "took over {} but promised {}",
            self.current_epoch,
            self.accepted_epoch
        );
        assert!(
            self.log.base() <= self.ready
                && self.ready <= self.committed
                && self.committed <= self.log.last()
                && self.durable <= self.log.last(),
            "base {} <= ready {} <= committed {} <= last {}, durable {} <= last",
            self.log.base(),
            self.ready,
            self.committed,
            self.log.last(),
            self.durable
        );
    }

    /// Whether this server never adopted a history, and so may have been wiped. Its log does not matter: it may hold a
    /// part of a history whose transfer was interrupted.
    pub(crate) fn is_blank(&self) -> bool {
        self.current_epoch == Epoch(0) && !self.limits.trust_blank
    }

    /// Issues a write.
    pub(crate) fn write(&mut self, op: DiskOp, on_durable: OnDurable, out: &mut Vec<Output>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket = Ticket(ticket.0 + 1);
        self.writes.push_back((ticket, on_durable));
        out.push(Output::Write { ticket, op });
        ticket
    }

    /// Voids the promises that are still being written: they answer older requests. Only the newest request is
    /// answered, when its own write is durable, because that write is behind everything that the answer reports.
    pub(crate) fn void_promises(&mut self) {
        for (_, on_durable) in &mut self.writes {
            if matches!(on_durable, OnDurable::Promised { .. }) {
                *on_durable = OnDurable::Nothing;
            }
        }
    }

    /// Appends entries sent by a leader or by the source of a pull.
    pub(crate) fn append(
        &mut self,
        from: ServerId,
        message: &'static str,
        prev: Zxid,
        entries: Vec<Entry>,
        received: Option<(ServerId, Epoch)>,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let after = self.log.last();
        if prev != after {
            return Err(Error::Gap { from, message, prev, last: after });
        }
        if !crate::log::is_contiguous(prev, &entries) {
            return Err(Error::NotContiguous { from, message, prev });
        }
        self.check_history(from, message, entries.last().map_or(prev, |e| e.zxid).epoch())?;
        if entries.is_empty() {
            return Ok(());
        }
        entries.iter().for_each(|entry| self.log.push(entry.clone()));
        let last = self.log.last();
        out.push(Output::Logged { after, through: last });
        self.write(DiskOp::Append(entries), OnDurable::Appended { last, received }, out);
        Ok(())
    }

    /// Truncates the log. Writes still under way must not release acknowledgements of what is removed.
    pub(crate) fn cut(&mut self, from: ServerId, to: Zxid, out: &mut Vec<Output>) -> Result<(), Error> {
        if to < self.committed {
            return Err(Error::CutsCommitted { from, to, committed: self.committed });
        }
        if !self.log.reaches(to) {
            return Err(Error::WrongEnd { from, message: "Truncate", claimed: to, last: self.log.last() });
        }
        self.log.truncate(to);
        self.durable = self.durable.min(to);
        for (_, on_durable) in &mut self.writes {
            if let OnDurable::Appended { last, .. } = on_durable {
                *last = to.min(*last);
            }
        }
        self.write(DiskOp::Truncate { to }, OnDurable::Nothing, out);
        out.push(Output::Truncated { to });
        Ok(())
    }

    /// Marks everything up to `zxid` as committed and releases what is durable to the state machine.
    pub(crate) fn commit(&mut self, zxid: Zxid, out: &mut Vec<Output>) {
        self.committed = self.committed.max(zxid);
        self.report_ready(out);
    }

    pub(crate) fn send(to: ServerId, message: Message, out: &mut Vec<Output>) {
        out.push(Output::Send { to, message });
    }

    pub(crate) fn unexpected(&self, from: ServerId, message: &'static str) -> Error {
        Error::Unexpected { from, message, phase: self.phase() }
    }

    /// Checks an epoch named by a peer. Epochs grow one by one, so one far above ours is a mistake, and accepting it
    /// would exhaust the 32 bits. So would many smaller leaps in a row, so the limit is much lower in the upper half of
    /// the range.
    pub(crate) fn check_epoch(&self, from: ServerId, message: &'static str, epoch: Epoch) -> Result<(), Error> {
        let leap_max = if epoch.0 <= u32::MAX / 2 { EPOCH_LEAP_MAX } else { HIGH_EPOCH_LEAP_MAX };
        if epoch.0.saturating_sub(self.accepted_epoch.0) > leap_max {
            let reason = "it is too far above the epoch promised here";
            return Err(Error::ImpossibleEpoch { from, message, epoch, reason });
        }
        Ok(())
    }

    /// Checks the epoch of history sent by a peer: it must not exceed the epoch that we promised.
    pub(crate) fn check_history(&self, from: ServerId, message: &'static str, epoch: Epoch) -> Result<(), Error> {
        if epoch > self.accepted_epoch {
            let reason = "history is not newer than the epoch promised before it is sent";
            return Err(Error::ImpossibleEpoch { from, message, epoch, reason });
        }
        if matches!(&self.role, Role::Leading(leading) if epoch >= leading.epoch) {
            let reason = "nobody but this server proposes in its epoch";
            return Err(Error::ImpossibleEpoch { from, message, epoch, reason });
        }
        Ok(())
    }

    /// Closes the link to a peer, so that it starts over.
    pub(crate) fn reset(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        self.waiting.remove(&peer);
        self.end_transfer(peer, out);
        if self.links.remove(&peer) {
            out.push(Output::Reset { peer });
        }
    }

    /// Declines servers that chose us, except those of a later round: a hand-over may still make us the leader of it.
    pub(crate) fn decline_waiting(&mut self, round: Round, out: &mut Vec<Output>) {
        self.waiting.retain(|peer, waiting| {
            let later = waiting.hello.round > round;
            if !later {
                Self::send(*peer, Message::Decline, out);
            }
            later
        });
    }

    fn snapshot_of(&self, zxid: Zxid, body: Body) -> Snapshot {
        assert!(zxid <= self.committed, "a snapshot at {zxid} of what is committed to {} only", self.committed);
        let mut epochs = self.log.epochs().clone();
        epochs.truncate(zxid);
        Snapshot { zxid, epochs, body }
    }

    pub(crate) fn report_ready(&mut self, out: &mut Vec<Output>) {
        if self.restoring.is_some() {
            return; // entries above the snapshot wait until its state is restored
        }
        let through = self.committed.min(self.durable);
        if through > self.ready {
            self.ready = through;
            out.push(Output::Ready(through));
        }
    }
}

/// How far an epoch may be above our own promise: about one year of elections, one every two seconds.
const EPOCH_LEAP_MAX: u32 = 1 << 24;

/// The same in the upper half of the range, which is reached only by mistake: a few minutes of an ensemble that cannot
/// agree. A faulty peer would need eight million such leaps to exhaust the range.
const HIGH_EPOCH_LEAP_MAX: u32 = 1 << 8;

/// The log as it was found on disk. Entries below the snapshot are kept for differences if they reach up to it. What
/// came before the first of them is unknown, so the first one only marks the base of the log.
fn recovered_log(disk: &Recovered) -> Log {
    let snapshot = disk.snapshot_zxid();
    let newer = disk.entries.iter().filter(|entry| entry.zxid > snapshot);
    match (&disk.snapshot, disk.entries.first()) {
        (Some(_), Some(first)) if first.zxid <= snapshot && disk.entries.iter().any(|e| e.zxid == snapshot) => {
            let mut log = Log::starting_at(first.zxid);
            disk.entries.iter().skip(1).for_each(|entry| log.push(entry.clone()));
            log
        }
        (Some(found), _) => {
            let mut log = Log::after_snapshot(snapshot, found.epochs.clone());
            newer.for_each(|entry| log.push(entry.clone()));
            log
        }
        (None, _) => {
            let mut log = Log::starting_at(Zxid::ZERO);
            newer.for_each(|entry| log.push(entry.clone()));
            log
        }
    }
}
