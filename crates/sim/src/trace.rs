//! The trace: one line per event, the same bytes for the same seed.

use std::fmt;

use pole_node::{Event, Message, Note, Timer};
use pole_zab::DiskOp;

/// Receives the lines of a trace.
pub type Sink = Box<dyn FnMut(&str)>;

/// A trace. Without a sink nothing is formatted.
pub(crate) struct Trace(Option<Sink>);

impl Trace {
    pub(crate) fn new(sink: Option<Sink>) -> Self {
        Self(sink)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes a line about a server; 0 stands for everything outside the servers.
    pub(crate) fn line(&mut self, now: u64, server: usize, what: fmt::Arguments<'_>) {
        if let Some(sink) = &mut self.0 {
            let (ms, us) = (now / 1_000_000, now / 1_000 % 1_000);
            match server {
                0 => sink(&format!("{ms:>6}.{us:03} ms  -  {what}")),
                id => sink(&format!("{ms:>6}.{us:03} ms  {id}  {what}")),
            }
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.is_on()).finish()
    }
}

/// A one-line description of a message.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Election(m) => format!("election {m:?}"),
        Message::Heartbeat { seq, .. } => format!("heartbeat {seq}"),
        Message::Echo { seq } => format!("echo {seq}"),
        Message::Members { version, .. } => format!("Members version={version}"),
        Message::Zab(m) => zab_message(m),
        Message::Forward { epoch, requests } => {
            let origins: Vec<_> = requests.iter().map(|r| r.origin.to_string()).collect();
            format!("Forward epoch={epoch} [{}]", origins.join(" "))
        }
        Message::Touch { epoch, id, sessions } => format!("Touch epoch={epoch} id={id} sessions={}", sessions.len()),
        Message::TouchDone { epoch, id } => format!("TouchDone epoch={epoch} id={id}"),
        Message::SyncAsk { epoch, through } => format!("SyncAsk epoch={epoch} through={through}"),
        Message::SyncDone { epoch, through, zxid } => format!("SyncDone epoch={epoch} through={through} zxid={zxid}"),
        Message::Remaining { epoch, sessions, .. } => format!("Remaining epoch={epoch} sessions={}", sessions.len()),
        Message::Behind { epoch } => format!("Behind epoch={epoch}"),
        Message::TransferAsk { epoch, to } => format!("TransferAsk epoch={epoch} to={to:?}"),
        Message::LeaderSought { epoch, by } => format!("LeaderSought epoch={epoch} by={by}"),
        Message::TransferRefused { epoch, refusal } => format!("TransferRefused epoch={epoch} {refusal}"),
    }
}

fn zab_message(message: &pole_zab::Message) -> String {
    use pole_zab::Message as M;
    match message {
        M::Entries { prev, entries } => {
            format!("Entries after {prev} to {:?}", entries.last().map(|e| e.zxid.to_string()))
        }
        M::Propose { epoch, prev, entries, committed, listeners } => {
            let last = entries.last().map_or(*prev, |e| e.zxid);
            let direct = if listeners.is_empty() { String::new() } else { format!(" direct to {listeners:?}") };
            format!("Propose epoch={epoch} after {prev} to {last} committed={committed}{direct}")
        }
        M::Snapshot(part) => {
            let end = if part.last { ", the last" } else { "" };
            format!("Snapshot {} at {}{end}", part.zxid, part.offset)
        }
        M::Truncate { to } => format!("Truncate to={to}"),
        M::Ack { epoch, zxid, .. } => format!("Ack epoch={epoch} {zxid}"),
        M::Commit { epoch, zxid } => format!("Commit epoch={epoch} {zxid}"),
        M::NewLeader { epoch, last } => format!("NewLeader epoch={epoch} last={last}"),
        M::AckLeader { epoch, last } => format!("AckLeader epoch={epoch} last={last}"),
        M::UpToDate { epoch, committed } => format!("UpToDate epoch={epoch} committed={committed}"),
        M::AckEpoch(p) => format!(
            "AckEpoch epoch={} fresh={} current={} last={} blank={}",
            p.epoch, p.fresh, p.current_epoch, p.last_zxid, p.blank
        ),
        M::Hello(_)
        | M::Decline
        | M::NewEpoch { .. }
        | M::RefuseEpoch { .. }
        | M::Pull { .. }
        | M::Received
        | M::PullEnd { .. }
        | M::Handover { .. }
        | M::TakenOver { .. }
        | M::Ping { .. }
        | M::Pong { .. } => format!("{message:?}"),
    }
}

/// A one-line description of an event.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Received { from, message: m, .. } => format!("<- {from} {}", message(m)),
        Event::Start
        | Event::LinkUp { .. }
        | Event::LinkDown { .. }
        | Event::Written { .. }
        | Event::DiskFailed { .. }
        | Event::Restored { .. }
        | Event::Continue
        | Event::Expired(_)
        | Event::Touched { .. }
        | Event::Detach { .. }
        | Event::Sync { .. }
        | Event::Transfer { .. } => format!("{event:?}"),
        Event::PieceReady { transfer, body, last } => {
            format!("PieceReady transfer={} bytes={} last={last}", transfer.0, body.len())
        }
        Event::LogRead { transfer, entries } => {
            format!("LogRead transfer={} to {:?}", transfer.0, entries.last().map(|e| e.zxid.to_string()))
        }
        Event::Attach { client, session, .. } => format!("Attach client={} session={session}", client.0),
        Event::Request { client, cxid, .. } => format!("Request client={} #{cxid}", client.0),
        Event::Read { client, cxid, .. } => format!("Read client={} #{cxid}", client.0),
    }
}

/// A one-line description of a disk operation.
pub(crate) fn disk_op(op: &DiskOp) -> String {
    match op {
        DiskOp::Append(entries) => {
            let (first, last) = (entries.first().map(|e| e.zxid), entries.last().map(|e| e.zxid));
            match (first, last) {
                (Some(first), Some(last)) => format!("append {first} to {last}"),
                (None, _) | (_, None) => "append nothing".to_owned(),
            }
        }
        DiskOp::Truncate { to } => format!("truncate to {to}"),
        DiskOp::AcceptedEpoch(epoch) => format!("accepted epoch {epoch}"),
        DiskOp::CurrentEpoch(epoch) => format!("current epoch {epoch}"),
        DiskOp::TakeOver(epoch) => format!("take over epoch {epoch}"),
        DiskOp::Receive { zxid, offset, .. } => format!("receive {zxid} at {offset}"),
        DiskOp::Install { zxid } => format!("install {zxid}"),
        DiskOp::Checkpoint(snapshot) => format!("checkpoint {}", snapshot.zxid),
    }
}

/// A one-line description of a note.
pub(crate) fn note(note: &Note) -> String {
    match note {
        Note::Elected(record) => format!("elected: {record:?}"),
        Note::Electing { .. }
        | Note::Leading { .. }
        | Note::Following { .. }
        | Note::Serving { .. }
        | Note::Members { .. }
        | Note::Resigning { .. }
        | Note::Unreached { .. }
        | Note::ResignationAborted { .. }
        | Note::HandedOver { .. }
        | Note::Abandoned { .. }
        | Note::BadPeer { .. }
        | Note::OutOfOrder { .. }
        | Note::InvalidScore { .. }
        | Note::BadOracle { .. }
        | Note::Installed { .. }
        | Note::DiskHangs
        | Note::SlowWrite { .. } => format!("{note:?}"),
    }
}

/// Whether a timer expires too often to be traced.
pub(crate) fn is_quiet(timer: Timer) -> bool {
    matches!(timer, Timer::Liveness | Timer::Heartbeat)
}
