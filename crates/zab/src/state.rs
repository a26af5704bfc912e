//! What a server has in every role: epochs, log, writes under way, links and transfers.
//!
//! The roles get the state as an argument of their handlers (`following`, `leading`). The state knows nothing of them,
//! and what only one role may do is not here.
//!
//! Invariants:
//! - `current_epoch <= accepted_epoch`.
//! - `base <= ready <= committed <= last`, where `base` and `last` are the bounds of the log.
//! - `ready <= durable` while we serve: what the state machine has seen is committed and on our own disk. After a
//!   snapshot was installed, nothing is ready and no client is served until the state is restored from it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pole_election::{Round, Standing};
use pole_types::{Epoch, ServerId, Voters, Zxid};

use crate::incoming::{Incoming, Restoring};
use crate::members::Members;
use crate::transfer::Transfer;
use crate::writes::Writes;
use crate::{
    Body, DiskOp, Entry, Error, Hello, Limits, Log, Message, Output, Promise, Recovered, Snapshot, Ticket, TransferId,
};

/// What a server has in every role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) me: ServerId,
    pub(crate) members: Members,
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
    pub(crate) writes: Writes,
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
}

/// A follower that chose us before our own election ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) hello: Hello,
    pub(crate) taken_over: Option<(Epoch, Zxid)>,
    /// What it promised ahead.
    pub(crate) promise: Option<Promise>,
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

impl State {
    /// The state found on disk. Only its snapshot is known to be committed.
    pub(crate) fn new(me: ServerId, members: Members, limits: Limits, disk: &Recovered) -> Self {
        let committed = disk.snapshot_zxid();
        let log = recovered_log(disk);
        let mut members = members;
        log.between(committed, log.last()).for_each(|entry| members.logged(entry.zxid, &entry.body));
        members.update(log.last());
        Self {
            me,
            members,
            limits,
            accepted_epoch: disk.accepted_epoch,
            current_epoch: disk.current_epoch,
            durable: log.last(),
            log,
            committed,
            ready: committed,
            writes: Writes::new(),
            links: BTreeSet::new(),
            waiting: BTreeMap::new(),
            incoming: None,
            restoring: None,
            transfers: BTreeMap::new(),
            next_transfer: TransferId(1),
            wants_snapshot: BTreeSet::new(),
        }
    }

    pub(crate) fn voters(&self) -> &Voters {
        self.members.in_force().voters()
    }

    /// Reports members that have changed.
    pub(crate) fn update_members(&mut self, out: &mut Vec<Output>) {
        if self.members.update(self.log.last()) {
            out.push(Output::Members { members: self.members.in_force().clone(), version: self.members.version() });
        }
    }

    /// Adds an entry to the log in memory.
    pub(crate) fn log_entry(&mut self, entry: Entry, out: &mut Vec<Output>) {
        let (zxid, was_settled) = (entry.zxid, self.members.is_settled());
        self.members.logged(zxid, &entry.body);
        self.log.push(entry);
        if !was_settled || !self.members.is_settled() {
            self.update_members(out);
        }
    }

    /// Whether this server never adopted a history, and so may have been wiped. Its log does not matter: it may hold a
    /// part of a history whose transfer was interrupted.
    pub(crate) fn is_blank(&self) -> bool {
        self.current_epoch == Epoch(0) && !self.limits.trust_blank
    }

    /// Issues a write.
    pub(crate) fn write(&mut self, op: DiskOp, on_durable: OnDurable, out: &mut Vec<Output>) -> Ticket {
        let ticket = self.writes.push(on_durable);
        out.push(Output::Write { ticket, op });
        ticket
    }

    /// Voids the promises that are still being written: they answer older requests. Only the newest request is
    /// answered, when its own write is durable, because that write is behind everything that the answer reports.
    pub(crate) fn void_promises(&mut self) {
        for on_durable in self.writes.iter_mut() {
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
        entries.iter().for_each(|entry| self.log_entry(entry.clone(), out));
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
        self.members.truncated(to);
        self.update_members(out);
        self.durable = self.durable.min(to);
        for on_durable in self.writes.iter_mut() {
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
        if !self.members.is_settled() {
            self.members.committed(self.committed);
            self.update_members(out);
        }
        self.report_ready(out);
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
                send(*peer, Message::Decline, out);
            }
            later
        });
    }

    /// A snapshot of our own state.
    pub(crate) fn snapshot_of(&self, zxid: Zxid, body: Body) -> Snapshot {
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

    /// The epochs and the last position of this server.
    pub(crate) fn standing(&self) -> Standing {
        Standing { accepted_epoch: self.accepted_epoch, current_epoch: self.current_epoch, last_zxid: self.log.last() }
    }

    /// Checks the order of epochs and positions.
    pub(crate) fn assert_invariants(&self) {
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

    /// Our promise of `epoch`, with the history that we report along with it.
    pub(crate) fn promise(&self, epoch: Epoch, fresh: bool) -> Promise {
        Promise {
            epoch,
            fresh,
            current_epoch: self.current_epoch,
            last_zxid: self.log.last(),
            epochs: self.log.epochs().clone(),
            blank: self.is_blank(),
            ahead: false,
        }
    }

    /// A follower that waits for our election to end promises the epoch that it expects.
    pub(crate) fn promised_ahead(&mut self, from: ServerId, promise: Promise) {
        if let Some(waiting) = self.waiting.get_mut(&from) {
            waiting.promise = Some(promise);
        }
    }

    /// Queues the write of `current_epoch` behind the history that it refers to.
    pub(crate) fn adopt_epoch(&mut self, epoch: Epoch, leader: ServerId, out: &mut Vec<Output>) {
        self.current_epoch = epoch;
        let last = self.log.last();
        self.write(DiskOp::CurrentEpoch(epoch), OnDurable::AdoptedEpoch { epoch, leader, last }, out);
    }
}

pub(crate) fn send(to: ServerId, message: Message, out: &mut Vec<Output>) {
    out.push(Output::Send { to, message });
}

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
