//! Short texts for messages, events and notes: short enough for the label of an arrow.

use pole_node::{Channel, Event, Message, Note, Timer};
use pole_types::ServerId;

use super::StepKind;

pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Election(pole_election::Message::Propose(p)) => format!("P r{} for {}", p.round, p.choice.id),
        Message::Election(pole_election::Message::Ask) => "Ask".to_owned(),
        Message::Election(pole_election::Message::Vote(v)) => format!("V r{} for {}", v.round, v.choice.id),
        Message::Heartbeat { .. } => "heartbeat".to_owned(),
        Message::Echo { .. } => "echo".to_owned(),
        Message::Members { version, .. } => format!("Members of {version}"),
        Message::Zab(message) => zab_message(message),
        Message::Forward { requests, .. } => format!("Forward {} of clients", requests.len()),
        Message::Touch { sessions, .. } => format!("Touch {} sessions", sessions.len()),
        Message::TouchDone { .. } => "TouchDone".to_owned(),
        Message::SyncAsk { .. } => "SyncAsk".to_owned(),
        Message::SyncDone { zxid, .. } => format!("SyncDone {zxid}"),
        Message::Remaining { sessions, .. } => format!("Remaining of {} sessions", sessions.len()),
        Message::Behind { .. } => "Behind".to_owned(),
        Message::TransferAsk { to: Some(to), .. } => format!("TransferAsk {to}"),
        Message::TransferAsk { to: None, .. } => "TransferAsk".to_owned(),
        Message::LeaderSought { by, .. } => format!("LeaderSought by {by}"),
        Message::TransferRefused { .. } => "TransferRefused".to_owned(),
    }
}

fn zab_message(message: &pole_zab::Message) -> String {
    use pole_zab::Message as M;
    match message {
        M::Hello(hello) => format!("Hello r{}", hello.round),
        M::Decline => "Decline".to_owned(),
        M::NewEpoch { epoch } => format!("NewEpoch {epoch}"),
        M::AckEpoch(promise) if promise.fresh => format!("AckEpoch {}", promise.epoch),
        M::AckEpoch(promise) => format!("AckEpoch {}, of before", promise.epoch),
        M::RefuseEpoch { refused, accepted } => format!("RefuseEpoch {refused}, has {accepted}"),
        M::Pull { .. } => "Pull".to_owned(),
        M::Truncate { to } => format!("Truncate to {to}"),
        M::Snapshot(part) if part.last => format!("Snapshot {}, from {} to its end", part.zxid, part.offset),
        M::Snapshot(part) => format!("Snapshot {}, from {}", part.zxid, part.offset),
        M::Entries { entries, .. } => format!("Entries {}", crate::script::ranges(entries.iter())),
        M::Received => "Received".to_owned(),
        M::PullEnd { last } => format!("PullEnd {last}"),
        M::NewLeader { epoch, last } => format!("NewLeader {epoch} at {last}"),
        M::AckLeader { epoch, last } => format!("AckLeader {epoch} at {last}"),
        M::UpToDate { epoch, .. } => format!("UpToDate {epoch}"),
        M::Propose { entries, .. } => format!("Propose {}", crate::script::ranges(entries.iter())),
        M::Ack { zxid, .. } => format!("Ack {zxid}"),
        M::Commit { zxid, .. } => format!("Commit {zxid}"),
        M::Handover { next, choice, .. } => format!("Handover {next} to {}", choice.id),
        M::TakenOver { epoch, .. } => format!("TakenOver {epoch}"),
        M::Ping { .. } => "Ping".to_owned(),
        M::Pong { .. } => "Pong".to_owned(),
    }
}

/// Whether a message only signals liveness or measures latency. Such messages are sent periodically.
pub(super) fn is_upkeep(message: &Message) -> bool {
    use pole_zab::Message as M;
    match message {
        Message::Heartbeat { .. } | Message::Echo { .. } | Message::Touch { .. } | Message::TouchDone { .. } => true,
        Message::Zab(M::Ping { .. } | M::Pong { .. }) => true,
        Message::Election(_)
        | Message::Zab(_)
        | Message::Forward { .. }
        | Message::SyncAsk { .. }
        | Message::SyncDone { .. }
        | Message::Remaining { .. }
        | Message::Members { .. }
        | Message::Behind { .. }
        | Message::TransferAsk { .. }
        | Message::LeaderSought { .. }
        | Message::TransferRefused { .. } => false,
    }
}

/// The step for an event, if it is recorded: messages, timers, closed links, client requests.
pub(super) fn event(who: usize, event: &Event, upkeep: bool) -> Option<StepKind> {
    let noted = |text: String| Some(StepKind::Noted { who, text });
    match event {
        Event::Received { message: content, .. } if is_upkeep(content) && !upkeep => None,
        Event::Received { from, message: content, .. } => {
            Some(StepKind::Received { from: index_of(*from), to: who, label: message(content), sent: None })
        }
        Event::LinkDown { peer, channel } => noted(format!("loses its {} link to {peer}", link(*channel))),
        Event::LinkUp { peer, channel } if upkeep => noted(format!("has an {} link to {peer}", link(*channel))),
        Event::DiskFailed { reason } => noted(format!("is failed by its disk: {reason}")),
        Event::Expired(Timer::Liveness | Timer::Heartbeat) if !upkeep => None,
        Event::Expired(timer) => Some(StepKind::Expired { who, timer: timer_label(*timer) }),
        Event::Attach { .. } => noted("is asked for a session".to_owned()),
        Event::Request { .. } => noted("is asked to write".to_owned()),
        Event::Read { .. } => noted("is asked to read".to_owned()),
        Event::Sync { .. } => noted("is asked to sync".to_owned()),
        Event::Transfer { to: Some(to) } => noted(format!("is asked to hand over to {to}")),
        Event::Transfer { to: None } => noted("is asked to hand over".to_owned()),
        Event::Restored { .. } => noted("has restored its state from the snapshot".to_owned()),
        Event::Start
        | Event::LinkUp { .. }
        | Event::Written { .. }
        | Event::PieceReady { .. }
        | Event::LogRead { .. }
        | Event::Continue
        | Event::Touched { .. }
        | Event::Detach { .. } => None,
    }
}

fn link(channel: Channel) -> &'static str {
    match channel {
        Channel::Election => "election",
        Channel::Quorum => "agreement",
    }
}

fn timer_label(timer: Timer) -> &'static str {
    use pole_election::Timer as T;
    match timer {
        Timer::Election(T::Wait) => "long enough for proposals",
        Timer::Election(T::Retry) => "proposes again",
        Timer::Election(T::Score) => "long enough for its score",
        Timer::Phase => "long enough in this phase",
        Timer::Liveness => "who is silent?",
        Timer::Heartbeat => "measures",
        Timer::Disk => "is the disk alive?",
        Timer::Drain => "long enough to drain",
        Timer::Reopen => "may open a higher epoch",
        Timer::Grace => "long enough without a leader",
        Timer::Pace => "may propose more",
    }
}

/// A note, as the rest of a sentence about its server. Roles that every view shows anyway are left out.
pub(super) fn note(note: &Note) -> Option<String> {
    Some(match note {
        Note::Electing { cause, round } => format!("elects in round {round}: {cause}"),
        Note::Elected(record) => format!("elects {} by {}", record.winner, record.decided_by),
        Note::Serving { leader, epoch } => format!("serves under {leader} in epoch {epoch}"),
        Note::Members { members, version } => format!("has other members from {version} on: {members}"),
        Note::Resigning { to, cause } => format!("resigns for {to}: {cause}"),
        Note::Unreached { voter, heard_by } => format!("does not reach {voter}, which {heard_by} hears"),
        Note::ResignationAborted { refusal } => format!("does not resign: {refusal}"),
        Note::HandedOver { to } => format!("hands over to {to}"),
        Note::Abandoned { reason } => format!("gives up: {reason}"),
        Note::BadPeer { from, error } => format!("closes its link to {from}: {error}"),
        Note::OutOfOrder { error } => format!("closes a connection: {error}"),
        Note::InvalidScore { from, reason } => format!("ranks {from} as unknown: {reason}"),
        Note::BadOracle { version, error } => format!("cannot build the oracle of {version}: {error}"),
        Note::Installed { zxid } => format!("installs a snapshot at {zxid}"),
        Note::DiskHangs => "finds its disk hanging".to_owned(),
        Note::SlowWrite { took } => format!("waits {} ms for its disk", took.as_us() / 1_000),
        Note::Leading { .. } | Note::Following { .. } => return None,
    })
}

/// The index of a server: ids start with 1.
pub(super) fn index_of(id: ServerId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX).saturating_sub(1)
}
