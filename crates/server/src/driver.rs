//! The node's thread: feeds events to the node and carries out its effects.
//!
//! Commands from the mailbox, messages from peers and expired timers become events. Effects become disk writes,
//! messages, replies and log lines.
//!
//! The node has one thread with its own runtime, so that a message from a peer reaches it without a thread switch. One
//! turn processes everything that has arrived and sends the results together, with one system call per link and per
//! connection.
//!
//! Effects are carried out in the order given. Other threads can read a change of the tree only after its watch events
//! have been queued on their connections.
//!
//! Protocol decisions are made in `node`, not here.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_node::{ClientId, Contract, Effect, Event, Message, Node, ReplySizes, Timer, Znodes};
use pole_storage::Writer;
use pole_tree::Tree;
use pole_types::{Span, Time, Zxid};
use pole_zab::{DiskOp, Ticket};
use tracing::{info, warn};

use crate::admin::PendingTransfer;
use crate::audit::Record;
use crate::background::{Background, drop_in_background};
use crate::client::Handle;
use crate::clock::wall_ms;
use crate::config::{Members, dynamic};
use crate::log::{
    self,
    target::{DISK, NODE, PEER},
};
use crate::mailbox::Command;
use crate::metrics::{Counter, NodeMeter};
use crate::peer::{Arrival, Delays, Inbox, Peers};
use crate::server::addresses;
use crate::shared::{Shared, SharedTree};
use crate::tally::RequestKind;
use crate::timeline;
use crate::write_placement::WritePlacement;

/// Runs the node and carries out its effects.
pub(crate) struct Driver {
    pub(crate) node: Node<Znodes<SharedTree>>,
    pub(crate) shared: Arc<Shared>,
    /// `None` on a standalone server.
    pub(crate) peers: Option<Peers>,
    inbox: Inbox,
    disk: Writer,
    background: Background,
    clients: HashMap<ClientId, Arc<Handle>>,
    timers: BTreeMap<Timer, Time>,
    /// Scratch buffers, reused to avoid reallocation.
    commands: Vec<Command>,
    pub(crate) events: Vec<Event>,
    effects: Vec<Effect>,
    writes: Vec<(Ticket, DiskOp)>,
    write_placement: WritePlacement,
    /// The node has asked for `Event::Continue`: it has more work than it does in one step.
    must_continue: bool,
    /// Hand-overs that somebody waits for.
    pub(crate) transfers: Vec<PendingTransfer>,
    pub(crate) longest_turn: Duration,
    /// Connections with output to send at the end of the turn.
    dirty: Vec<Arc<Handle>>,
    /// Set when a leader was told to stop: it waits until then at most for its hand-over to finish.
    hand_over_deadline: Option<Time>,
    stopping: Option<Exit>,
    meter: NodeMeter,
    contract: ContractChecker,
}

/// Checks the driver's contract with the node in builds with debug assertions, that is, in tests.
#[derive(Default)]
struct ContractChecker(Contract);

impl ContractChecker {
    fn events(&mut self, events: &[Event]) {
        if cfg!(debug_assertions) {
            events.iter().for_each(|event| self.0.event(event).expect("the driver keeps its contract"));
        }
    }

    fn given(&mut self, effects: &[Effect]) {
        if cfg!(debug_assertions) {
            effects.iter().for_each(|effect| self.0.given(effect));
        }
    }

    fn carried_out(&mut self, effect: &Effect) {
        if cfg!(debug_assertions) {
            self.0.carried_out(effect);
        }
    }

    fn published(&self) {
        if cfg!(debug_assertions) {
            self.0.published().expect("the driver keeps its contract");
        }
    }
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to stop.
    Stopped,
    /// It could not continue, for this reason.
    Halted(String),
}

impl Driver {
    pub(crate) fn new(
        node: Node<Znodes<SharedTree>>,
        shared: Arc<Shared>,
        peers: Option<Peers>,
        inbox: Inbox,
        disk: Writer,
    ) -> Self {
        Self {
            background: Background::new(Arc::clone(&shared), &disk),
            meter: NodeMeter::new(shared.settings.me),
            node,
            shared,
            peers,
            inbox,
            disk,
            clients: HashMap::new(),
            timers: BTreeMap::new(),
            commands: Vec::new(),
            events: Vec::from([Event::Start]),
            effects: Vec::new(),
            writes: Vec::new(),
            write_placement: WritePlacement::default(),
            must_continue: false,
            transfers: Vec::new(),
            longest_turn: Duration::ZERO,
            dirty: Vec::new(),
            hand_over_deadline: None,
            stopping: None,
            contract: ContractChecker::default(),
        }
    }

    /// Replaces the emulated delays of the links to other servers.
    fn set_delays(&mut self, delays: Delays) {
        if let Some(peers) = &mut self.peers {
            peers.set_delays(Some(delays));
        }
    }

    /// Runs until the server is told to stop or cannot continue.
    pub(crate) async fn run(mut self) -> Exit {
        loop {
            self.write_placement.turn_begins();
            self.turn();
            // A write on this thread has finished, which is a new event.
            while !self.events.is_empty() && self.stopping.is_none() {
                self.turn();
            }
            if let Some(exit) = self.stopping.take() {
                self.disk.stop();
                return exit;
            }
            if self.must_continue || !self.inbox.is_empty() {
                // There is more to do, but the tasks of the links must get a chance to read and write.
                tokio::task::yield_now().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// Processes everything that has happened since the last turn.
    fn turn(&mut self) {
        let (now, began) = (self.shared.clock.now(), Instant::now());
        let wall_ms = wall_ms();
        self.node.set_wall_ms(wall_ms);
        self.meter.set_wall_ms(wall_ms);
        self.take_commands();
        self.take_expired(now);
        self.node.begin_turn();
        self.step(now);
        // One message at a time, because an effect may reset a link, which discards what else arrived on it.
        while began.elapsed() < TURN_MAX
            && let Some(arrival) = self.inbox.pop()
        {
            self.take_arrival(arrival);
            self.step(now);
        }
        if mem::take(&mut self.must_continue) {
            self.events.push(Event::Continue);
            self.step(now);
        }
        self.write_placement.inputs_taken();
        // Replies to a few clients go first because they cost little. Many of them would delay the other servers and
        // their clients.
        if self.dirty.len() <= CLIENTS_FIRST_MAX {
            self.publish();
            self.flush();
        } else {
            self.flush();
            self.publish();
        }
        self.write();
        self.audit_ended_sessions();
        self.settle_transfers();
        self.longest_turn = self.longest_turn.max(began.elapsed());
        // No hand-over in progress also means that no server could take over.
        let is_done = |until: Time| now >= until || !self.leads() || self.node.hand_over().is_none();
        if self.hand_over_deadline.is_some_and(is_done) {
            self.stopping.get_or_insert(Exit::Stopped);
        }
    }

    /// Queues the ephemeral nodes of ended sessions for the audit log.
    fn audit_ended_sessions(&mut self) {
        let Some(audit) = self.shared.audit.get() else { return };
        for (session, paths) in self.node.machine_mut().take_ended() {
            audit.add(Record::SessionEnd { session: session.0, paths });
        }
    }

    /// Sends the messages queued for other servers.
    fn flush(&mut self) {
        if let Some(peers) = &mut self.peers
            && peers.flush()
        {
            timeline::step("has sent to other servers");
        }
    }

    /// Feeds the collected events to the node and carries out the effects.
    fn step(&mut self, now: Time) {
        if self.events.is_empty() {
            return;
        }
        let mut effects = mem::take(&mut self.effects);
        self.contract.events(&self.events);
        let status = &self.shared.status;
        for event in &self.events {
            timeline::event(event);
            self.meter.event(event, now, status);
        }
        self.node.step_all(self.events.drain(..), now, &mut effects);
        self.meter.follow(self.node.serving(), self.node.zab().committed());
        self.contract.given(&effects);
        for effect in effects.drain(..) {
            self.contract.carried_out(&effect);
            timeline::effect(&effect);
            self.carry_out(effect, now);
        }
        self.effects = effects;
        self.meter.advanced(self.node.zab().committed(), self.node.applied(), now, &self.shared.status);
        self.meter.end_step(now, &self.shared.status);
    }

    /// Starts the writes of this turn.
    fn write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        if !self.write_placement.is_here(&self.writes) {
            return self.disk.write_all(self.writes.drain(..));
        }
        let began = Instant::now();
        timeline::step("writes and syncs its log");
        if let Some(through) = self.disk.write_here(&mut self.writes) {
            self.write_placement.wrote_here(began.elapsed());
            self.events.push(Event::Written { through });
        }
    }

    /// Begins to stop the server. A leader with followers hands over first.
    fn begin_stop(&mut self) {
        if self.leads() && !self.shared.is_standalone() {
            self.events.push(Event::Transfer { to: None });
            self.hand_over_deadline = Some(self.shared.clock.now() + HAND_OVER_LIMIT);
        } else {
            self.stopping = Some(Exit::Stopped);
        }
    }

    fn leads(&self) -> bool {
        self.node.zab().leader() == Some(self.shared.settings.me)
    }

    async fn wait(&mut self) {
        let timers = self.timers.values().copied().chain(self.hand_over_deadline).min();
        let timers = timers.map(|at| self.shared.clock.instant(at));
        let next = timers.into_iter().chain(self.peers.as_ref().and_then(Peers::next_flush)).min();
        let sleep = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.shared.mailbox.arrived() => {}
            () = self.inbox.arrived() => {}
            () = sleep => {}
        }
    }

    fn take_commands(&mut self) {
        let mut commands = mem::take(&mut self.commands);
        self.shared.mailbox.take(&mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Event(event) => {
                    if let Event::Detach { client } = &event {
                        self.clients.remove(client);
                    } else if let Event::Written { .. } = &event {
                        self.write_placement.disk_finished();
                    } else if matches!(event, Event::Request { .. } | Event::Read { .. } | Event::Sync { .. }) {
                        self.write_placement.arrived();
                    }
                    self.events.push(event);
                }
                Command::Attach { handle, event } => {
                    self.clients.insert(handle.id, handle);
                    self.events.push(event);
                }
                Command::Ask(question) => self.answer(question),
                Command::SetDelays(delays) => self.set_delays(delays),
                Command::Serve(connection) => drop(tokio::task::spawn_local(connection)),
                Command::Restored { ticket, zxid, tree } => self.install_restored(ticket, zxid, tree),
                Command::LogInfo(text) => info!(target: DISK, what = text, "disk"),
                Command::LogWarning(text) => warn!(target: DISK, what = text, "disk"),
                Command::Stop => self.begin_stop(),
            }
        }
        self.commands = commands;
    }

    /// Replaces the node's tree with the restored one, unless a newer restore has been requested since.
    fn install_restored(&mut self, ticket: Ticket, zxid: Zxid, tree: Result<Box<Tree>, String>) {
        if !self.background.finish_restore(ticket) {
            return drop_in_background(tree);
        }
        let failed = match tree {
            Ok(tree) => {
                drop_in_background(self.node.machine_mut().replace(zxid, *tree));
                None
            }
            Err(reason) => Some(reason),
        };
        self.events.push(Event::Restored { ticket, failed });
    }

    fn take_arrival(&mut self, arrival: Arrival) {
        self.events.push(match arrival {
            Arrival::Up { peer, channel, .. } => Event::LinkUp { peer, channel },
            Arrival::Down { peer, channel } => Event::LinkDown { peer, channel },
            Arrival::Received { from, channel, message } => {
                if matches!(message, Message::Forward { .. } | Message::Zab(pole_zab::Message::Propose { .. })) {
                    self.write_placement.arrived();
                }
                if let (Message::Forward { .. }, Some(peers)) = (&message, &mut self.peers) {
                    peers.forwarded(from);
                }
                Event::Received { from, channel, message }
            }
            Arrival::Note { text } => return warn!(target: PEER, what = text, "peer"),
        });
    }

    fn take_expired(&mut self, now: Time) {
        let is_due =
            |timers: &BTreeMap<Timer, Time>| timers.iter().find(|(_, at)| **at <= now).map(|(timer, _)| *timer);
        while let Some(timer) = is_due(&self.timers) {
            self.timers.remove(&timer);
            if timer == Timer::Liveness {
                self.events.push(Event::Touched { sessions: self.shared.take_touched(now) });
            }
            self.events.push(Event::Expired(timer));
        }
    }

    fn carry_out(&mut self, effect: Effect, now: Time) {
        match effect {
            Effect::Send { to, channel, message } => {
                let leads = self.leads();
                self.meter.sent(to, &message, leads, now, &self.shared.status);
                if let Some(peers) = &mut self.peers {
                    peers.send(to, channel, &message);
                }
            }
            Effect::Write { ticket, op } => {
                if let DiskOp::Append(entries) = &op {
                    self.meter.appended(ticket, entries, now, &self.shared.status);
                }
                self.writes.push((ticket, op));
            }
            Effect::OpenTransfer { transfer, after, state } => self.background.open_transfer(transfer, after, state),
            Effect::NextPiece { transfer, bytes } => self.background.next_piece(transfer, bytes),
            Effect::ReadLog { transfer, after, through, bytes } => {
                self.background.read_log(transfer, after, through, bytes);
            }
            Effect::CloseTransfer { transfer } => self.background.close_transfer(transfer),
            Effect::Restore { ticket, zxid } => self.background.restore(ticket, zxid),
            Effect::Continue => self.must_continue = true,
            Effect::Reset { peer, channel } => {
                if let Some(peers) = &mut self.peers {
                    peers.reset(peer, channel);
                }
            }
            Effect::Arm { timer, after } => drop(self.timers.insert(timer, now + after)),
            Effect::Cancel(timer) => drop(self.timers.remove(&timer)),
            Effect::Attached { client, answer, .. } => {
                let Some(handle) = self.clients.get(&client) else { return };
                handle.attached(answer);
                self.dirty.push(Arc::clone(handle));
            }
            Effect::Reply { client, cxid, zxid, body } => {
                let Some(handle) = self.clients.get(&client) else { return };
                if let Some((asked, bytes)) = handle.reply(cxid.0, zxid.0.cast_signed(), &body, now) {
                    self.shared.remove_outstanding(asked.totals);
                    if let Some(audit) = self.shared.audit.get().filter(|_| !asked.write.is_empty()) {
                        let (session, address) = (handle.session(), handle.address.ip());
                        audit.add(Record::Request { session, address, request: asked.write, reply: body });
                    }
                    let kind = if asked.is_write { RequestKind::Update } else { RequestKind::Read };
                    let tally = &self.shared.status.tally;
                    tally.answered(kind, 1, bytes, asked.arrived, now);
                    tally.reply_sizes(Some(ReplySizes { last: bytes, min: bytes, max: bytes }), now);
                }
                self.dirty.push(Arc::clone(handle));
            }
            Effect::Notify { client, zxid, body } => {
                let Some(handle) = self.clients.get(&client) else { return };
                self.meter.notified(&body, now, &self.shared.status);
                handle.notify(zxid.0.cast_signed(), &body);
                self.dirty.push(Arc::clone(handle));
            }
            Effect::Confirmed { at } => self.shared.confirm(at),
            Effect::Close { client, reason } => {
                if let Some(handle) = self.clients.remove(&client) {
                    handle.close(reason);
                    self.dirty.push(handle);
                }
            }
            Effect::TransferRefused(refusal) => self.refuse_transfers(refusal),
            Effect::Members { description, version } => self.set_members(&description, version),
            Effect::Note(note) => {
                self.shared.record(&note);
                self.meter.note(&note, now, &self.shared.status);
                log::note(&note);
            }
            Effect::Halt { reason } => {
                self.shared.status.counters.add(Counter::UnrecoverableErrorCount, 1);
                self.stopping = Some(Exit::Halted(reason));
            }
        }
    }

    /// Connects to other members, and stores them beside the configuration file, as Apache does.
    fn set_members(&mut self, description: &[u8], version: Zxid) {
        let text = String::from_utf8_lossy(description);
        let members = match Members::parse_description(&text) {
            Ok((members, _)) => members,
            Err(why) => return warn!(target: NODE, %version, %why, "members that cannot be read"),
        };
        if let Some(peers) = &mut self.peers {
            peers.set_members(&members.membership(), addresses(&members));
        }
        let me = self.shared.settings.me;
        if !members.servers.contains_key(&me) {
            let what = "this server is not a member of the ensemble any more: stop it, or add it again";
            warn!(target: NODE, %version, %what, "removed");
        }
        let ensemble = self.shared.settings.config.ensemble.as_ref();
        if let Some(file) = ensemble.filter(|ensemble| ensemble.reconfig).and_then(|ensemble| ensemble.file.0.clone()) {
            dynamic::save_in_background(file, members.clone(), version);
        }
        self.shared.set_members(members);
    }

    /// Lets other threads read what the turn changed, and sends the output of the connections.
    fn publish(&mut self) {
        self.shared.applied.store(self.node.applied().0.cast_signed(), Ordering::Release);
        self.disk.note_committed(self.node.applied());
        self.node.machine_mut().store_mut().publish();
        self.contract.published();
        let at = self.shared.call_context();
        let has_replies = !self.dirty.is_empty();
        for handle in self.dirty.drain(..) {
            handle.flush(at);
        }
        if has_replies {
            timeline::step("has sent to its client");
        }
    }
}

/// Upper bound on a turn, even if more has arrived: its results are sent at its end, and the links read and write only
/// between turns.
const TURN_MAX: Duration = Duration::from_millis(5);

/// Up to this many clients are answered before messages to other servers are sent. Each costs a system call.
const CLIENTS_FIRST_MAX: usize = 2;

/// How long a stopping leader waits for its hand-over, which normally takes a few round trips.
const HAND_OVER_LIMIT: Span = Span::from_ms(3_000);
