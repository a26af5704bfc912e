//! The node's thread: it feeds events to the node and carries out what the node asks for.
//!
//! In: letters, messages of peers, expired timers. Out: writes, messages, answers, log lines.
//! Why one thread with its own runtime: a message from a peer reaches the node without a thread switch, and what the
//! node decided on everything that was waiting goes out together: one write for each link and each connection.
//! Holds: effects are carried out in the order given; others read the tree only when the events of watches are queued.
//! Not here: any decision of the protocol (`node`).

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pole_election::Span;
use pole_node::{ClientId, Contract, Effect, Event, Node, Timer, Znodes};
use pole_oracle::Time;
use pole_storage::Writer;
use pole_tree::Tree;
use pole_zab::{DiskOp, Ticket, Zxid};

use crate::awake::Awake;
use crate::background::{Background, drop_elsewhere};
use crate::client::Handle;
use crate::clock::wall_ms;
use crate::log;
use crate::mailbox::Letter;
use crate::peer::{Arrival, Delays, Inbox, Peers};
use crate::shared::{Shared, SharedTree};

/// The node and its hands.
pub(crate) struct Driver {
    pub(crate) node: Node<Znodes<SharedTree>>,
    pub(crate) shared: Arc<Shared>,
    /// None: this server is on its own.
    pub(crate) peers: Option<Peers>,
    inbox: Inbox,
    disk: Writer,
    background: Background,
    clients: HashMap<ClientId, Arc<Handle>>,
    timers: BTreeMap<Timer, Time>,
    /// Of one turn; kept for their memory.
    letters: Vec<Letter>,
    events: Vec<Event>,
    effects: Vec<Effect>,
    writes: Vec<(Ticket, DiskOp)>,
    /// How long a write on this thread took of late.
    write_took: Duration,
    pub(crate) awake: Awake,
    /// The node has more to do than it should do at once.
    continues: bool,
    /// The longest turn so far.
    pub(crate) longest_turn: Duration,
    /// Connections with something to send.
    dirty: Vec<Arc<Handle>>,
    /// The server was told to stop, and leads: it hands over first, but not for longer than this.
    leaving: Option<Time>,
    stopping: Option<Exit>,
    contract: Checked,
}

/// The contract with the node, checked in builds with debug assertions: that is, in tests.
#[derive(Default)]
struct Checked(Contract);

impl Checked {
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

/// How the server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it was told to.
    Stopped,
    /// It could go no further.
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
        let awake = Awake::new(Duration::from_millis(shared.settings.config.pole.awake_ms));
        Self {
            background: Background::new(Arc::clone(&shared), &disk),
            node,
            shared,
            peers,
            inbox,
            disk,
            clients: HashMap::new(),
            timers: BTreeMap::new(),
            letters: Vec::new(),
            events: Vec::from([Event::Start]),
            effects: Vec::new(),
            writes: Vec::new(),
            write_took: Duration::ZERO,
            awake,
            continues: false,
            longest_turn: Duration::ZERO,
            dirty: Vec::new(),
            leaving: None,
            stopping: None,
            contract: Checked::default(),
        }
    }

    /// Changes the emulated lines to other servers.
    pub(crate) fn set_delays(&mut self, delays: Delays) {
        if let Some(peers) = &mut self.peers {
            peers.set_delays(Some(delays));
        }
    }

    /// Runs until the server is told to stop or can go no further.
    pub(crate) async fn run(mut self) -> Exit {
        loop {
            self.turn();
            // What was written on this thread is news.
            while !self.events.is_empty() && self.stopping.is_none() {
                self.turn();
            }
            if let Some(exit) = self.stopping.take() {
                self.disk.stop();
                return exit;
            }
            if self.continues || !self.inbox.is_empty() {
                // There is more, but the links want to read and write too.
                tokio::task::yield_now().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// What has happened since the last turn, and what follows from it.
    fn turn(&mut self) {
        let (now, began) = (self.shared.clock.now(), Instant::now());
        self.node.set_wall_ms(wall_ms());
        self.take_letters();
        self.take_expired(now);
        if mem::take(&mut self.continues) {
            self.events.push(Event::Continue);
        }
        self.step(now);
        // One by one: a link that is reset takes back what has arrived on it.
        while began.elapsed() < TURN_MAX
            && let Some(arrival) = self.inbox.pop()
        {
            self.take_arrival(arrival);
            self.step(now);
        }
        // Few clients wait for little; many would make the other servers, and their clients, wait for much.
        if self.dirty.len() <= ANSWERED_FIRST_MAX {
            self.publish();
            self.flush();
        } else {
            self.flush();
            self.publish();
        }
        self.write();
        self.longest_turn = self.longest_turn.max(began.elapsed());
        // Also when nobody could take over.
        let is_done = |until: Time| now >= until || !self.leads() || self.node.hand_over().is_none();
        if self.leaving.is_some_and(is_done) {
            self.stopping.get_or_insert(Exit::Stopped);
        }
    }

    /// What other servers are to hear goes out.
    fn flush(&mut self) {
        if let Some(peers) = &mut self.peers {
            peers.flush();
        }
    }

    /// What the node makes of the events, and what it asks for.
    fn step(&mut self, now: Time) {
        if self.events.is_empty() {
            return;
        }
        let mut effects = mem::take(&mut self.effects);
        self.contract.events(&self.events);
        self.node.step_all(self.events.drain(..), now, &mut effects);
        self.contract.given(&effects);
        for effect in effects.drain(..) {
            self.contract.carried_out(&effect);
            self.carry_out(effect, now);
        }
        self.effects = effects;
    }

    /// Writes what the turn asks for. A server with little to do writes on this thread: to wake the disk's thread and be
    /// woken by it takes about as long as the write. One with much to do must not wait, and a disk that was slow of late
    /// is not trusted to be quick.
    fn write(&mut self) {
        let entries = |op: &DiskOp| match op {
            DiskOp::Append(entries) => entries.len(),
            // Rare, and longer than an append.
            DiskOp::Truncate { .. }
            | DiskOp::AcceptedEpoch(_)
            | DiskOp::CurrentEpoch(_)
            | DiskOp::TakeOver(_)
            | DiskOp::Receive { .. }
            | DiskOp::Install { .. }
            | DiskOp::Checkpoint(_) => usize::MAX,
        };
        let [(_, op)] = &self.writes[..] else {
            return self.writes.drain(..).for_each(|(ticket, op)| self.disk.write(ticket, op));
        };
        if entries(op) > ENTRIES_HERE_MAX || self.write_took > WRITE_HERE_MAX {
            // Now and then it is tried again.
            self.write_took = self.write_took * 31 / 32;
            return self.writes.drain(..).for_each(|(ticket, op)| self.disk.write(ticket, op));
        }
        let began = Instant::now();
        self.awake.write_begins(began, self.write_took);
        if let Some(through) = self.disk.write_here(&mut self.writes) {
            let ended = Instant::now();
            self.awake.write_ended(ended);
            self.write_took = (self.write_took * 7 + (ended - began)) / 8;
            self.events.push(Event::Written { through });
        }
    }

    /// Stops; a leader with followers hands over first.
    fn leave(&mut self) {
        if self.leads() && self.shared.settings.voters > 1 {
            self.events.push(Event::Transfer { to: None });
            self.leaving = Some(self.shared.clock.now() + HAND_OVER_LIMIT);
        } else {
            self.stopping = Some(Exit::Stopped);
        }
    }

    fn leads(&self) -> bool {
        self.node.zab().leader() == Some(self.shared.settings.me)
    }

    async fn wait(&mut self) {
        let next = self.timers.values().copied().chain(self.leaving).min().map(|at| self.shared.clock.instant(at));
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

    fn take_letters(&mut self) {
        let mut letters = mem::take(&mut self.letters);
        self.shared.mailbox.take(&mut letters);
        for letter in letters.drain(..) {
            match letter {
                Letter::Event(event) => {
                    if let Event::Detach { client } = &event {
                        self.clients.remove(client);
                    }
                    self.events.push(event);
                }
                Letter::Attach { handle, event } => {
                    self.clients.insert(handle.id, handle);
                    self.events.push(event);
                }
                Letter::Look(look) => look(self),
                Letter::Serve(connection) => drop(tokio::task::spawn_local(connection)),
                Letter::Restored { ticket, zxid, tree } => self.restored(ticket, zxid, tree),
                Letter::Said(text) => log::info("disk", &[("what", &text)]),
                Letter::Warning(text) => log::warn("disk", &[("what", &text)]),
                Letter::Stop => self.leave(),
            }
        }
        self.letters = letters;
    }

    /// A state was restored: the node's own gives way to it, unless another was asked for since.
    fn restored(&mut self, ticket: Ticket, zxid: Zxid, tree: Result<Box<Tree>, String>) {
        if !self.background.is_restored(ticket) {
            return drop_elsewhere(tree);
        }
        let failed = match tree {
            Ok(tree) => {
                drop_elsewhere(self.node.machine_mut().replace(zxid, *tree));
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
            Arrival::Received { from, channel, message } => Event::Received { from, channel, message },
            Arrival::Note { text } => return log::warn("peer", &[("what", &text)]),
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
                if let Some(peers) = &mut self.peers {
                    peers.send(to, channel, &message);
                }
            }
            Effect::Write { ticket, op } => self.writes.push((ticket, op)),
            Effect::OpenTransfer { transfer, after, state } => self.background.open_transfer(transfer, after, state),
            Effect::NextPiece { transfer, bytes } => self.background.next_piece(transfer, bytes),
            Effect::ReadLog { transfer, after, through, bytes } => {
                self.background.read_log(transfer, after, through, bytes);
            }
            Effect::CloseTransfer { transfer } => self.background.close_transfer(transfer),
            Effect::Restore { ticket, zxid } => self.background.restore(ticket, zxid),
            Effect::Continue => self.continues = true,
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
                if let Some((asked, settled)) = handle.reply(cxid.0, zxid.0.cast_signed(), &body, now) {
                    self.shared.settled(settled);
                    self.shared.status.tally.answered(1, asked, now);
                }
                self.dirty.push(Arc::clone(handle));
            }
            Effect::Notify { client, zxid, body } => {
                let Some(handle) = self.clients.get(&client) else { return };
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
            Effect::Note(note) => log::note(&self.shared, &note),
            Effect::Halt { reason } => self.stopping = Some(Exit::Halted(reason)),
        }
    }

    /// What the turn changed may be read, and what it said is sent.
    fn publish(&mut self) {
        self.shared.applied.store(self.node.applied().0.cast_signed(), Ordering::Release);
        self.disk.note_committed(self.node.applied());
        self.node.machine_mut().shelf_mut().publish();
        self.contract.published();
        let at = self.shared.moment();
        for handle in self.dirty.drain(..) {
            handle.flush(at);
        }
    }
}

/// A turn ends after so long even if more has arrived: what it decided waits for its end, and the links read and write
/// only between turns.
const TURN_MAX: Duration = Duration::from_millis(5);

/// A system call for each.
const ANSWERED_FIRST_MAX: usize = 2;

/// More transactions at once than this come from several clients: then there is more to do than to wait.
const ENTRIES_HERE_MAX: usize = 2;

/// A disk that takes longer has a thread of its own for good reason.
const WRITE_HERE_MAX: Duration = Duration::from_millis(1);

/// A hand-over takes a few round trips; one that takes longer is not worth waiting for.
const HAND_OVER_LIMIT: Span = Span::from_ms(3_000);
