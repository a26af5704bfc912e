//! Executes the effects of a step in the order in which the node returned them.

use pole_node::{AttachAnswer, Channel, ClientId, CloseReason, Effect, Event, Message, Note};
use pole_types::ServerId;

use super::checker::{CheckResult, Response};
use super::disk::CrashPoint;
use super::hosts::{CrashKind, InboxItem, acknowledges};
use super::network::Fate;
use super::scripting::Observation;
use super::workload::ServerMessage;
use super::world::{SimEvent, World};
use super::{MS, Mark, trace};
use crate::kv::{Answer, Refusal};
use crate::recording::{Delivery, StepKind};

impl World {
    pub(crate) fn execute(&mut self, server: usize, effects: Vec<Effect>) -> CheckResult {
        for effect in effects {
            if self.setup.tree {
                self.hosts[server].contract.carried_out(&effect);
            }
            let is_ack = acknowledges(&effect);
            if is_ack && self.reaches_crash_point(server, Some(CrashPoint::BeforeAck)) {
                return Ok(());
            }
            self.execute_effect(server, effect)?;
            if is_ack {
                self.reaches_crash_point(server, Some(CrashPoint::AfterAck));
            }
            if self.is_down(server) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn execute_effect(&mut self, server: usize, effect: Effect) -> CheckResult {
        match effect {
            Effect::Send { to, channel, message } => self.send(server, to, channel, message),
            Effect::Write { ticket, op } => {
                self.check_session_expiry(server, &op)?;
                self.record_write(server, &op);
                let host = &mut self.hosts[server];
                if self.trace.is_on() {
                    self.trace.line(self.now, server + 1, format_args!("writes {}", trace::disk_op(&op)));
                }
                self.checker.writes(server, &op, &host.disk.durable)?;
                let wait = host.disk.submit(ticket, op);
                self.schedule_disk_step(server, wait);
                Ok(())
            }
            Effect::OpenTransfer { .. }
            | Effect::NextPiece { .. }
            | Effect::ReadLog { .. }
            | Effect::CloseTransfer { .. }
            | Effect::Restore { .. } => {
                self.start_background_work(server, effect);
                Ok(())
            }
            Effect::Continue => self.deliver(server, InboxItem::Event(Event::Continue)),
            Effect::Reset { peer, channel } => {
                self.reset(server, peer, channel);
                Ok(())
            }
            Effect::Arm { timer, after } => {
                self.arm(server, timer, after.0);
                Ok(())
            }
            Effect::Cancel(timer) => {
                self.cancel(server, timer);
                Ok(())
            }
            Effect::Attached { .. } | Effect::Reply { .. } | Effect::Notify { .. } | Effect::Confirmed { .. }
                if self.setup.tree =>
            {
                self.pass_to_connection(server, effect)
            }
            Effect::Close { reason, .. } if self.setup.tree => {
                self.mark_close(reason);
                self.pass_to_connection(server, effect)
            }
            Effect::Attached { client, zxid, answer } => {
                let answer = match answer {
                    AttachAnswer::Opened { .. } => Answer::Session,
                    AttachAnswer::Expired => Answer::Refused(Refusal::NoSession),
                };
                let body = answer.encode();
                self.send_to_client(server, client, ServerMessage::Attached(Response { zxid, body }));
                Ok(())
            }
            Effect::Reply { client, cxid, zxid, body } => {
                self.send_to_client(server, client, ServerMessage::Reply(cxid, Response { zxid, body }));
                Ok(())
            }
            // The key-value machine has no watches, and its sessions do not expire.
            Effect::Notify { .. } | Effect::Confirmed { .. } => Ok(()),
            Effect::Close { client, reason } => {
                self.mark_close(reason);
                self.send_to_client(server, client, ServerMessage::Closed(reason));
                self.hosts[server].clients.remove(&client.0);
                Ok(())
            }
            // The simulator has no operator who waits for the answer; the note of the leader is recorded.
            // Every two simulated servers are linked.
            Effect::TransferRefused(_) | Effect::Members { .. } => Ok(()),
            Effect::Note(note) => {
                self.handle_note(server, &note);
                Ok(())
            }
            Effect::Halt { reason } => {
                self.trace.line(self.now, server + 1, format_args!("halts: {reason}"));
                self.record(|| Some(StepKind::Noted { who: server, text: format!("halts: {reason}") }));
                self.crash(server, CrashKind::Killed);
                if self.is_scripted() {
                    self.observe(|_| Some(Observation::Halted { server, reason }));
                    return Ok(());
                }
                let wait = self.faults.rng.between(200, 2_000) * MS;
                self.queue.push(self.now + wait, SimEvent::Start(server));
                Ok(())
            }
        }
    }

    fn mark_close(&mut self, reason: CloseReason) {
        if reason == CloseReason::SessionMoved {
            self.report.marks.hit(Mark::Superseded);
        } else if reason == CloseReason::NoLeader {
            self.report.marks.hit(Mark::ClosedByPatience);
        }
    }

    fn send(&mut self, server: usize, to: ServerId, channel: Channel, message: Message) -> CheckResult {
        self.observe(|_| Observation::of_message(server, to, &message));
        let host = &self.hosts[server];
        if let Message::Zab(message) = &message {
            self.checker.sends(server, message, &host.disk.durable)?;
            mark_message(&mut self.report.marks, message);
            let follows = host.node.as_ref().is_some_and(|n| n.zab().leader() == Some(to));
            if matches!(message, pole_zab::Message::Snapshot(_)) && follows {
                self.report.marks.hit(Mark::SnapshotPull);
            }
        }
        *self.report.messages.entry(message.name()).or_default() += 1;
        let Some((link, end)) = self.network.find(server, to, channel) else {
            return Err(format!("server {} sends to {to}, which does not exist", server + 1));
        };
        if self.election_muted && matches!(message, Message::Election(_)) {
            return Ok(());
        }
        let departs = self.now + host.step_cost;
        let (other, generation) = (1 - end, self.network.links[link].generation);
        let fate = self.network.send(link, other, &message, departs);
        let delivery = match fate {
            Fate::Arrives(..) => Delivery::Sent,
            Fate::Stalls { .. } => Delivery::Held,
            Fate::Lost | Fate::Breaks { .. } => Delivery::Lost,
        };
        self.record_message(server, to, &message, delivery);
        if self.trace.is_on() && !matches!(fate, Fate::Arrives(..)) {
            self.trace.line(self.now, server + 1, format_args!("-> {to} {} {fate:?}", trace::message(&message)));
        }
        match fate {
            Fate::Arrives(at, again) => {
                if let Some(again) = again {
                    let message = message.clone();
                    self.queue.push(again, SimEvent::Arrives { link, end: other, generation, message });
                }
                self.queue.push(at, SimEvent::Arrives { link, end: other, generation, message });
            }
            Fate::Stalls { breaks_at } => {
                self.queue.push(breaks_at, SimEvent::Stalled { link, end: other, generation });
            }
            Fate::Lost => {}
            Fate::Breaks { at } => self.queue.push(at, SimEvent::Breaks { link, generation }),
        }
        Ok(())
    }

    fn send_to_client(&mut self, server: usize, client: ClientId, message: ServerMessage) {
        if let Some(index) = self.hosts[server].clients.get(&client.0).copied() {
            let at = self.now + self.hosts[server].step_cost + self.clients[index].delay;
            self.queue.push(at, SimEvent::ServerMessage { client: index, connection: client.0, message });
        }
    }

    fn handle_note(&mut self, server: usize, note: &Note) {
        self.observe(|world| Some(world.observation_of_note(server, note)));
        self.record_note(server, note);
        if self.trace.is_on() {
            self.trace.line(self.now, server + 1, format_args!("note: {}", trace::note(note)));
        }
        match note {
            Note::Serving { leader, .. } if leader.0 == server as u64 + 1 => self.report.elections += 1,
            Note::Elected(record) => drop(self.elected.insert(server, record.clone())),
            Note::HandedOver { .. } => self.report.marks.hit(Mark::HandedOver),
            Note::Unreached { .. } => self.report.marks.hit(Mark::Unreached),
            Note::ResignationAborted { .. } => self.report.marks.hit(Mark::HandoverAborted),
            Note::Members { members, .. } => {
                self.report.marks.hit(Mark::MembersChanged);
                self.hosts[server].members.push((self.now, members.clone()));
            }
            Note::DiskHangs => self.report.marks.hit(Mark::DiskHung),
            Note::Abandoned { .. } => self.report.marks.hit(Mark::QuorumLost),
            Note::BadPeer { error, .. } => {
                let text = format!("bad peer: {}", error.split(|c: char| c.is_ascii_digit()).next().unwrap_or(""));
                *self.report.closed.entry(text).or_default() += 1;
            }
            // Servers here are not Byzantine, so this is a bug of one of them.
            Note::OutOfOrder { error } => self.fail(format!("server {}: {error}", server + 1)),
            Note::Electing { .. } => self.checker.session_activity.election_started(server),
            Note::Serving { .. }
            | Note::Leading { .. }
            | Note::Following { .. }
            | Note::Resigning { .. }
            | Note::InvalidScore { .. }
            | Note::BadOracle { .. }
            | Note::Installed { .. }
            | Note::SlowWrite { .. } => {}
        }
    }
}

fn mark_message(marks: &mut super::Marks, message: &pole_zab::Message) {
    use pole_zab::Message as M;
    match message {
        M::Truncate { .. } => marks.hit(Mark::Truncated),
        M::Snapshot(_) => marks.hit(Mark::SnapshotSync),
        M::Pull { .. } => marks.hit(Mark::Pull),
        M::RefuseEpoch { .. } => marks.hit(Mark::Refused),
        M::Decline => marks.hit(Mark::Declined),
        M::AckEpoch(promise) => {
            if !promise.fresh {
                marks.hit(Mark::AlreadyPromised);
            }
            if promise.blank {
                marks.hit(Mark::Blank);
            }
        }
        M::Hello(_)
        | M::NewEpoch { .. }
        | M::Entries { .. }
        | M::Received
        | M::PullEnd { .. }
        | M::NewLeader { .. }
        | M::AckLeader { .. }
        | M::UpToDate { .. }
        | M::Propose { .. }
        | M::Ack { .. }
        | M::Commit { .. }
        | M::Handover { .. }
        | M::TakenOver { .. }
        | M::Ping { .. }
        | M::Pong { .. } => {}
    }
}
