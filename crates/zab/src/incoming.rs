//! A snapshot that is being received, and the state that is being restored from it.
//!
//! Parts come in order on one link; whatever does not continue what is there is refused, and the link closed. The bytes
//! are not kept here: each part goes to the disk at once, and the state is restored from there, beside the protocol.

use alloc::vec::Vec;
use pole_election::{Epoch, ServerId, Zxid};

use crate::zab::Then;
use crate::{DiskOp, Epochs, Error, Log, Message, Output, SnapshotPart, Ticket, Zab};

/// How much of a snapshot has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incoming {
    from: ServerId,
    zxid: Zxid,
    epochs: Epochs,
    /// Where the next part begins.
    offset: usize,
}

/// The history was replaced by a snapshot; the state that belongs to it is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Restoring {
    /// The write that puts the snapshot in place: names this restoration.
    ticket: Ticket,
    zxid: Zxid,
    /// Who sent it, and under which promise: hears of the last part when the state is there.
    from: ServerId,
    epoch: Epoch,
    /// An epoch that is durable, but must not be taken over before the state is there: whoever does so serves.
    pub(crate) held: Option<(Epoch, ServerId, Zxid)>,
}

impl Incoming {
    /// Takes note of a part. False if it does not continue the others.
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

impl Zab {
    /// A part of what replaces our history. It goes to the disk, beside what is there.
    pub(crate) fn on_snapshot(
        &mut self,
        from: ServerId,
        part: SnapshotPart,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if !self.is_synchronised_by(from) {
            return Ok(());
        }
        self.check_snapshot(from, &part)?;
        let (zxid, last) = (part.zxid, self.log.last());
        if !Incoming::take(&mut self.incoming, from, &part) {
            return Err(Error::Gap { from, message: "Snapshot", prev: zxid, last });
        }
        let SnapshotPart { offset, body, last: is_last, epochs, .. } = part;
        // The last one is confirmed when the state is restored.
        let then = if is_last { Then::Nothing } else { Then::Received { from, epoch: self.accepted_epoch } };
        self.write(DiskOp::Receive { zxid, offset, body }, then, out);
        if is_last {
            self.incoming = None;
            self.install(from, zxid, epochs, out);
        }
        out.push(Output::Progress);
        Ok(())
    }

    fn check_snapshot(&self, from: ServerId, part: &SnapshotPart) -> Result<(), Error> {
        if part.zxid < self.committed {
            return Err(Error::CutsCommitted { from, to: part.zxid, committed: self.committed });
        }
        self.check_history(from, "Snapshot", part.zxid.epoch())?;
        if !part.epochs.is_well_formed() || part.epochs.last().unwrap_or(Zxid::ZERO) != part.zxid {
            return Err(Error::MalformedHistory(from));
        }
        Ok(())
    }

    /// Replaces our history by the snapshot that was received.
    fn install(&mut self, from: ServerId, zxid: Zxid, epochs: Epochs, out: &mut Vec<Output>) {
        self.log = Log::after_snapshot(zxid, epochs);
        self.committed = zxid;
        self.ready = zxid;
        self.durable = Zxid::ZERO;
        for (_, then) in &mut self.writes {
            if let Then::Appended { last, .. } | Then::Installed { zxid: last } = then {
                *last = Zxid::ZERO;
            }
        }
        let ticket = self.write(DiskOp::Install { zxid }, Then::Installed { zxid }, out);
        self.restoring = Some(Restoring { ticket, zxid, from, epoch: self.accepted_epoch, held: None });
        out.push(Output::Installed { zxid });
    }

    /// The snapshot is in place: the state can be restored from it.
    pub(crate) fn snapshot_is_durable(&mut self, through: Ticket, zxid: Zxid, out: &mut Vec<Output>) {
        self.durable = self.durable.max(zxid);
        if let Some(restoring) = self.restoring.as_ref().filter(|restoring| restoring.ticket == through) {
            out.push(Output::Restore { ticket: restoring.ticket, zxid: restoring.zxid });
        }
    }

    /// The state of the snapshot that `ticket` put in place is there, as [`Output::Restore`] asked. Returns its
    /// position, or none if another snapshot has replaced it since.
    pub fn restored(&mut self, ticket: Ticket, out: &mut Vec<Output>) -> Option<Zxid> {
        let Restoring { zxid, from, epoch, held, .. } =
            self.restoring.take_if(|restoring| restoring.ticket == ticket)?;
        self.confirm_received(from, epoch, out);
        if let Some((epoch, leader, last)) = held {
            self.epoch_is_durable(epoch, leader, last, out);
        }
        self.ask_for_snapshots(out);
        self.tell_ready(out);
        Some(zxid)
    }

    /// Whether the state is being restored: this server can neither serve nor lead until that is done.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.restoring.is_some()
    }

    /// Confirms a message of a transfer, if the sender still waits for that.
    pub(crate) fn confirm_received(&mut self, from: ServerId, epoch: Epoch, out: &mut Vec<Output>) {
        if self.accepted_epoch == epoch && self.is_synchronised_by(from) {
            Self::send(from, Message::Received, out);
            out.push(Output::Progress);
        }
    }

    /// `to` needs a snapshot of our state; it is asked for as soon as there is one.
    pub(crate) fn want_snapshot(&mut self, to: ServerId, out: &mut Vec<Output>) {
        self.wants_snapshot.insert(to);
        self.ask_for_snapshots(out);
    }

    fn ask_for_snapshots(&mut self, out: &mut Vec<Output>) {
        if self.restoring.is_none() {
            out.extend(self.wants_snapshot.iter().map(|to| Output::WantsSnapshot { to: *to }));
        }
    }
}
