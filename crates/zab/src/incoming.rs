//! Receiving history, as a difference or as a snapshot, and restoring the state from a snapshot.
//!
//! Parts arrive in order on one link; a part that does not continue the previous ones is refused and the link is
//! closed. No bytes are kept here: each part is written to disk at once, and the state is restored from disk in the
//! background.

use alloc::vec::Vec;
use pole_types::{Epoch, ServerId, Zxid};

use crate::state::{OnDurable, State};
use crate::{DiskOp, Entry, Epochs, Error, Log, Output, SnapshotPart, Ticket};

/// The progress of a snapshot that is being received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incoming {
    from: ServerId,
    zxid: Zxid,
    epochs: Epochs,
    /// The byte offset at which the next part must begin.
    offset: usize,
}

/// The history was replaced by a snapshot whose state has not been restored yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Restoring {
    /// The write that installs the snapshot. It identifies this restoration.
    ticket: Ticket,
    pub(crate) zxid: Zxid,
    /// The sender, and the promise under which it sent. Its last part is confirmed when the state is restored.
    pub(crate) from: ServerId,
    pub(crate) epoch: Epoch,
    /// An epoch that is durable but must not be acknowledged before the state is restored, because a server that has
    /// acknowledged serves clients. Epoch, leader, last position.
    pub(crate) held: Option<(Epoch, ServerId, Zxid)>,
}

impl Incoming {
    /// Records a part. Returns false if it does not continue the previous ones.
    fn take(slot: &mut Option<Self>, from: ServerId, part: &SnapshotPart) -> bool {
        if part.offset == 0 {
            *slot = Some(Self { from, zxid: part.zxid, epochs: part.epochs.clone(), offset: 0 });
        }
        let Some(incoming) = slot.as_mut() else { return false };
        let continues = incoming.from == from && incoming.zxid == part.zxid && incoming.offset == part.offset;
        let end = incoming.offset.checked_add(part.body.len());
        match end.filter(|_| continues) {
            Some(end) => {
                incoming.offset = end;
                true
            }
            None => false,
        }
    }
}

impl State {
    /// Truncates the log to what we share with the sender.
    pub(crate) fn on_truncate(&mut self, from: ServerId, to: Zxid, out: &mut Vec<Output>) -> Result<(), Error> {
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
        let received = Some((from, self.accepted_epoch));
        self.append(from, "Entries", prev, entries, received, out)?;
        out.push(Output::Progress);
        Ok(())
    }

    /// Handles a part of the snapshot that replaces our history: stages it on disk.
    pub(crate) fn on_snapshot(
        &mut self,
        from: ServerId,
        part: SnapshotPart,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if part.zxid < self.committed {
            return Err(Error::CutsCommitted { from, to: part.zxid, committed: self.committed });
        }
        self.check_history(from, "Snapshot", part.zxid.epoch())?;
        let (zxid, last) = (part.zxid, self.log.last());
        if !Incoming::take(&mut self.incoming, from, &part) {
            return Err(Error::Gap { from, message: "Snapshot", prev: zxid, last });
        }
        let SnapshotPart { offset, body, last: is_last, epochs, .. } = part;
        // The last part is confirmed when the state is restored.
        let on_durable =
            if is_last { OnDurable::Nothing } else { OnDurable::Received { from, epoch: self.accepted_epoch } };
        self.write(DiskOp::Receive { zxid, offset, body }, on_durable, out);
        if is_last {
            self.incoming = None;
            self.install(from, zxid, epochs, out);
        }
        out.push(Output::Progress);
        Ok(())
    }

    /// Replaces our history by the snapshot that was received. Appends still under way no longer make anything of the
    /// new log durable.
    fn install(&mut self, from: ServerId, zxid: Zxid, epochs: Epochs, out: &mut Vec<Output>) {
        self.log = Log::after_snapshot(zxid, epochs);
        self.committed = zxid;
        // What the snapshot says of the members is known when the state is restored; until then we do not lead.
        self.members.truncated(Zxid::ZERO);
        self.update_members(out);
        self.ready = zxid;
        self.durable = Zxid::ZERO;
        for on_durable in self.writes.iter_mut() {
            if let OnDurable::Appended { last, .. } | OnDurable::Installed { zxid: last } = on_durable {
                *last = Zxid::ZERO;
            }
        }
        let ticket = self.write(DiskOp::Install { zxid }, OnDurable::Installed { zxid }, out);
        self.restoring = Some(Restoring { ticket, zxid, from, epoch: self.accepted_epoch, held: None });
        out.push(Output::Installed { zxid });
    }

    /// The snapshot is durable: asks the driver to restore the state from it.
    pub(crate) fn snapshot_is_durable(&mut self, through: Ticket, zxid: Zxid, out: &mut Vec<Output>) {
        self.durable = self.durable.max(zxid);
        if let Some(restoring) = self.restoring.as_ref().filter(|restoring| restoring.ticket == through) {
            out.push(Output::Restore { ticket: restoring.ticket, zxid: restoring.zxid });
        }
    }

    /// Takes the restoration that `ticket` began, unless another snapshot has replaced it since.
    pub(crate) fn take_restored(&mut self, ticket: Ticket) -> Option<Restoring> {
        self.restoring.take_if(|restoring| restoring.ticket == ticket)
    }

    /// Requests a snapshot of our state for `to`, as soon as the state is restored.
    pub(crate) fn request_snapshot(&mut self, to: ServerId, out: &mut Vec<Output>) {
        self.wants_snapshot.insert(to);
        self.request_snapshots(out);
    }

    pub(crate) fn request_snapshots(&mut self, out: &mut Vec<Output>) {
        if self.restoring.is_none() {
            out.extend(self.wants_snapshot.iter().map(|to| Output::WantsSnapshot { to: *to }));
        }
    }
}
