//! Target `peer-node`: one server of three, whose peers send any message in any order.
//!
//! The input opens and closes links, sends messages (as bytes, as chosen kinds, or as correct answers to the node's
//! messages), expires timers, completes writes, and sends requests of clients. Except for the messages, the driver
//! keeps the contract of [`pole_node::Event`], which is checked.
//!
//! Properties: no panic; an event causes a bounded number of effects and bytes; the node sends only messages that its
//! peers can decode.

mod answers;
mod choices;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};

use bytes::{Bytes, BytesMut};
use pole_jute::Deframer;
use pole_node::{Channel, ClientId, Config, Contract, Effect, Event, Machine, Message, Node, Timer, TreeStore, Znodes};
use pole_oracle::Spec;
use pole_server::peer::codec;
use pole_tree::{Rules, Tree, Watches, WriteRequest};
use pole_types::{Cxid, Epoch, ServerId, SessionId, Time, Voters, Zxid};
use pole_zab::{DiskOp, Entry, Limits, Recovered, Ticket, TransferId};

use choices::{Choices, NodeView};

/// The input is a byte that chooses the oracle and the initial disk, then a sequence of steps
/// ([`crate::machine::steps`]). The selector of a step says what happens and with which peer; the body chooses the
/// rest.
pub(crate) fn nodes(input: &[u8]) {
    let Some((start, input)) = input.split_first() else { return };
    let mut server = Server::new(*start);
    server.event(Event::Start);
    for (selector, body) in crate::machine::steps(input) {
        server.step(selector, &body);
        if server.halted {
            return;
        }
    }
}

struct Server {
    node: Node<Znodes<FuzzTree>>,
    contract: Contract,
    now: Time,
    timers: BTreeMap<Timer, Time>,
    links: BTreeSet<(ServerId, Channel)>,
    /// Messages of the node that its peers have not answered.
    unanswered: BTreeMap<(ServerId, Channel), VecDeque<Message>>,
    disk: Disk,
    transfers: BTreeMap<TransferId, VecDeque<Bytes>>,
    /// Completions that the driver has not reported to the node yet.
    completions: VecDeque<Completion>,
    clients: BTreeMap<ClientId, SessionId>,
    last_client: u64,
    halted: bool,
}

/// The result of an effect that the driver reports later.
enum Completion {
    Event(Event),
    Restore { ticket: Ticket, zxid: Zxid, state: Bytes },
}

#[derive(Default)]
struct Disk {
    /// Writes that were not reported yet.
    writes: VecDeque<Ticket>,
    log: Vec<Entry>,
    /// The snapshot that is being received, and the installed one.
    received: BytesMut,
    installed: Bytes,
}

struct FuzzTree {
    tree: Tree,
    watches: RefCell<Watches>,
}

impl TreeStore for FuzzTree {
    fn tree(&self) -> impl Deref<Target = Tree> + '_ {
        &self.tree
    }

    fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> + '_ {
        self.watches.borrow_mut()
    }
}

impl Server {
    fn new(start: u8) -> Self {
        let oracle = ORACLES[usize::from(start) % ORACLES.len()];
        let oracle = Spec::parse(oracle).and_then(|spec| spec.build()).expect("a known oracle");
        let config = Config {
            retain_bytes: 512,
            snapshot_every: 8,
            limits: Limits { piece_bytes: 256, pieces_in_flight: 2, ..Limits::default() },
            ..Config::new(ME, Voters::new([1, 2, 3].map(ServerId)))
        };
        let tree = FuzzTree { tree: Tree::new(Rules::DEFAULT), watches: RefCell::default() };
        let machine = Znodes::new(tree, Rules::DEFAULT, Bytes::new());
        let recovered = if start >= 128 { recovered() } else { Recovered::blank() };
        let disk = Disk { log: recovered.entries.clone(), ..Disk::default() };
        Self {
            node: Node::new(config, oracle, machine, recovered, Time(0)),
            contract: Contract::default(),
            now: Time(0),
            timers: BTreeMap::new(),
            links: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            disk,
            transfers: BTreeMap::new(),
            completions: VecDeque::new(),
            clients: BTreeMap::new(),
            last_client: 0,
            halted: false,
        }
    }

    fn step(&mut self, selector: u8, body: &Bytes) {
        let peer = ServerId(if selector & 16 == 0 { 1 } else { 3 });
        let channel = if selector & 32 == 0 { Channel::Quorum } else { Channel::Election };
        match selector % 16 {
            0 => self.link_up(peer, channel),
            1 => {
                if self.links.remove(&(peer, channel)) {
                    self.event(Event::LinkDown { peer, channel });
                }
            }
            2 => {
                if let Ok(message) = codec::decode(body.clone()) {
                    self.receive(peer, channel, message);
                }
            }
            3..=5 => {
                let message = self.choose(peer, body, |choices| choices.message());
                // Most messages use the channel that they belong to.
                self.receive(peer, if selector >= 240 { channel } else { channel_of(&message) }, message);
            }
            6 | 7 => self.answer(peer, channel, body),
            8 => self.expire(body.first().copied().unwrap_or(0)),
            9 | 10 => self.write(body.first().copied().unwrap_or(u8::MAX)),
            11 | 12 => self.ask(selector >> 4, body),
            13 => self.complete_next(),
            14 => self.now = Time(self.now.0 + u64::from(selector >> 4) * 10_000_000),
            _ => {
                let to = body.first().map(|id| ServerId(u64::from(id % 5)));
                self.event(Event::Transfer { to });
            }
        }
    }

    fn link_up(&mut self, peer: ServerId, channel: Channel) {
        if self.links.insert((peer, channel)) {
            self.unanswered.remove(&(peer, channel));
            self.event(Event::LinkUp { peer, channel });
        }
    }

    fn receive(&mut self, from: ServerId, channel: Channel, message: Message) {
        if self.links.contains(&(from, channel)) {
            self.event(Event::Received { from, channel, message });
        }
    }

    /// A peer answers the oldest message that it has not answered.
    fn answer(&mut self, peer: ServerId, channel: Channel, body: &[u8]) {
        let Some(message) = self.unanswered.get_mut(&(peer, channel)).and_then(VecDeque::pop_front) else { return };
        for answer in self.choose(peer, body, |choices| choices.answers(&message)) {
            self.receive(peer, channel, answer);
        }
    }

    fn choose<R>(&self, from: ServerId, body: &[u8], choose: impl FnOnce(&mut Choices<'_>) -> R) -> R {
        let zab = self.node.zab();
        let view = NodeView {
            standing: zab.standing(),
            committed: zab.committed(),
            base: zab.log().base(),
            epochs: zab.log().epochs().clone(),
            round: self.node.election().round(),
            fingerprint: self.node.oracle().fingerprint(),
            state: self.node.machine().snapshot().to_bytes(),
        };
        choose(&mut Choices { left: body, view: &view, from })
    }

    /// Advances time until the timer with this index expires, together with those that are due before it.
    fn expire(&mut self, index: u8) {
        let Some(until) = self.timers.values().copied().nth(usize::from(index) % self.timers.len().max(1)) else {
            return;
        };
        for _ in 0..EXPIRED_MAX {
            let due = self.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            let Some((at, timer)) = due.filter(|(at, _)| *at <= until && !self.halted) else { return };
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            if timer == Timer::Liveness {
                self.event(Event::Touched { sessions: self.clients.values().copied().collect() });
            }
            self.event(Event::Expired(timer));
        }
    }

    /// The next `count` writes become durable.
    fn write(&mut self, count: u8) {
        let count = self.disk.writes.len().min(count.into());
        let through = self.disk.writes.drain(..count).next_back();
        if let Some(through) = through {
            self.event(Event::Written { through });
        }
    }

    fn ask(&mut self, selector: u8, body: &[u8]) {
        let (client, cxid) = (ClientId(self.last_client), Cxid(i32::from(body.first().copied().unwrap_or(0) % 8)));
        if selector % 8 < 2 {
            self.last_client += 1;
            let (client, session) = (ClientId(self.last_client), SessionId(i64::from(selector % 8) + 1));
            self.clients.insert(client, session);
            return self.event(Event::Attach { client, session, body: WriteRequest::attach(4_000, false) });
        }
        if !self.clients.contains_key(&client) {
            return;
        }
        let request = self.choose(ME, body.get(1..).unwrap_or_default(), |choices| choices.request());
        let event = match selector % 8 {
            2..5 => Event::Request { client, cxid, body: request },
            5 => Event::Read { client, cxid, body: request },
            6 => Event::Sync { client, cxid },
            _ => {
                self.clients.remove(&client);
                Event::Detach { client }
            }
        };
        self.event(event);
    }

    /// Reports the next completion to the node.
    fn complete_next(&mut self) {
        match self.completions.pop_front() {
            None => {}
            Some(Completion::Event(event)) => self.event(event),
            Some(Completion::Restore { ticket, zxid, state }) => {
                let failed = self.node.machine_mut().restore(zxid, &state).err();
                self.event(Event::Restored { ticket, failed });
            }
        }
    }

    fn event(&mut self, event: Event) {
        self.contract.event(&event).expect("this driver keeps the contract");
        self.now = Time(self.now.0 + 1_000);
        let mut effects = Vec::new();
        self.node.step(event, self.now, &mut effects);
        assert!(effects.len() <= EFFECTS_MAX, "{} effects", effects.len());
        let mut bytes = 0;
        for effect in effects {
            self.contract.given(&effect);
            self.contract.carried_out(&effect);
            bytes += self.carry_out(effect);
        }
        assert!(bytes <= EFFECT_BYTES_MAX, "{bytes} bytes");
    }

    /// Carries out an effect. Returns its size in bytes.
    fn carry_out(&mut self, effect: Effect) -> usize {
        match effect {
            Effect::Send { to, channel, message } => {
                let bytes = assert_decodable(&message);
                if self.links.contains(&(to, channel)) {
                    let unanswered = self.unanswered.entry((to, channel)).or_default();
                    unanswered.push_back(message);
                    unanswered.truncate(UNANSWERED_MAX);
                }
                return bytes;
            }
            Effect::Reset { peer, channel } => drop(self.links.remove(&(peer, channel))),
            Effect::Write { ticket, op } => {
                self.disk.writes.push_back(ticket);
                return self.disk.write(op);
            }
            Effect::OpenTransfer { transfer, state, .. } => {
                let state = state.map(|state| state.to_bytes()).unwrap_or_default();
                let pieces = state.chunks(256).map(Bytes::copy_from_slice).collect();
                self.transfers.insert(transfer, pieces);
                return state.len();
            }
            Effect::NextPiece { transfer, .. } => {
                let pieces = self.transfers.get_mut(&transfer).expect("an open transfer");
                let body = pieces.pop_front().unwrap_or_default();
                let last = pieces.is_empty();
                self.completions.push_back(Completion::Event(Event::PieceReady { transfer, body, last }));
            }
            Effect::ReadLog { transfer, after, through, .. } => {
                assert!(self.transfers.contains_key(&transfer), "no such transfer");
                let entries = self.disk.log.iter().filter(|entry| entry.zxid > after && entry.zxid <= through);
                let entries = entries.take(2).cloned().collect();
                self.completions.push_back(Completion::Event(Event::LogRead { transfer, entries }));
            }
            Effect::CloseTransfer { transfer } => {
                self.transfers.remove(&transfer).expect("an open transfer");
            }
            Effect::Restore { ticket, zxid } => {
                self.completions.retain(|completion| matches!(completion, Completion::Event(_)));
                self.completions.push_back(Completion::Restore { ticket, zxid, state: self.disk.installed.clone() });
            }
            Effect::Continue => self.completions.push_back(Completion::Event(Event::Continue)),
            Effect::Arm { timer, after } => drop(self.timers.insert(timer, self.now + after)),
            Effect::Cancel(timer) => drop(self.timers.remove(&timer)),
            Effect::Close { client, .. } => {
                if self.clients.remove(&client).is_some() {
                    self.completions.push_back(Completion::Event(Event::Detach { client }));
                }
            }
            Effect::Reply { body, .. } | Effect::Notify { body, .. } => return body.len(),
            Effect::Attached { .. }
            | Effect::Confirmed { .. }
            | Effect::TransferRefused(_)
            | Effect::Members { .. }
            | Effect::Note(_) => {}
            Effect::Halt { .. } => self.halted = true,
        }
        0
    }
}

impl Disk {
    fn write(&mut self, op: DiskOp) -> usize {
        match op {
            DiskOp::Append(entries) => {
                let bytes = entries.iter().map(|entry| entry.body.len()).sum();
                self.log.extend(entries);
                return bytes;
            }
            DiskOp::Truncate { to } => self.log.retain(|entry| entry.zxid <= to),
            DiskOp::Receive { offset, body, .. } => {
                self.received.truncate(offset);
                self.received.extend_from_slice(&body);
            }
            DiskOp::Install { .. } => {
                self.installed = self.received.split().freeze();
                self.log.clear();
            }
            DiskOp::AcceptedEpoch(_) | DiskOp::CurrentEpoch(_) | DiskOp::TakeOver(_) | DiskOp::Checkpoint(_) => {}
        }
        0
    }
}

/// A disk with two transactions, which a leader of epoch 3 proposed.
fn recovered() -> Recovered {
    let view = NodeView {
        standing: Default::default(),
        committed: Zxid::ZERO,
        base: Zxid::ZERO,
        epochs: pole_zab::Epochs::starting_at(Zxid::ZERO),
        round: Default::default(),
        fingerprint: 0,
        state: Bytes::new(),
    };
    // One transaction from an attached client, one that failed.
    let chosen = [3, 1, 70, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 6];
    let entries = Choices { left: &chosen, view: &view, from: ME }.entries(Zxid::ZERO, Epoch(3));
    Recovered { accepted_epoch: Epoch(3), current_epoch: Epoch(3), snapshot: None, entries }
}

/// Asserts that the frames of a message can be decoded by its receiver. Returns their length in bytes.
fn assert_decodable(message: &Message) -> usize {
    let mut frames = BytesMut::new();
    codec::encode(message, &mut frames);
    let bytes = frames.len();
    while let Some(frame) = Deframer::new(EFFECT_BYTES_MAX).next(&mut frames).expect("a frame") {
        codec::decode(frame).unwrap_or_else(|refused| panic!("{message:?}: {refused}"));
    }
    assert!(frames.is_empty(), "whole frames");
    bytes
}

fn channel_of(message: &Message) -> Channel {
    match message {
        Message::Election(_) | Message::Heartbeat { .. } | Message::Echo { .. } | Message::Members { .. } => {
            Channel::Election
        }
        Message::Zab(_)
        | Message::Forward { .. }
        | Message::Touch { .. }
        | Message::TouchDone { .. }
        | Message::SyncAsk { .. }
        | Message::SyncDone { .. }
        | Message::Remaining { .. }
        | Message::Behind { .. }
        | Message::TransferAsk { .. }
        | Message::LeaderSought { .. }
        | Message::TransferRefused { .. } => Channel::Quorum,
    }
}

const ME: ServerId = ServerId(2);

const ORACLES: [&str; 8] =
    ["latency", "history", "request", "consensus", "worst-case", "rotating", "recovery/1ms", "custom"];

/// More effects than any event of this target causes: an input is a few kilobytes long.
const EFFECTS_MAX: usize = 1_000;

const EFFECT_BYTES_MAX: usize = 1 << 20;

const EXPIRED_MAX: usize = 64;

/// The limit of unanswered messages per peer and channel.
const UNANSWERED_MAX: usize = 64;
