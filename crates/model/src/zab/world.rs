//! The ensemble as one value: a few production state machines, their disks, the links between them, and the global
//! observations.
//!
//! A step at one server leads to the next world, with all immediate consequences carried out. Parts are shared between
//! worlds: a step changes one server and a few queues; the rest is neither copied nor hashed again.
//!
//! Invariant: a link that both ends have closed is open again at once. No server uses an open link before it is made to
//! follow a server, so opening it later would show nothing new.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pole_types::{ServerId, Zxid};
use pole_zab::{Limits, MembersOf, Message, Origin, Output, Phase, Recovered, Zab};

use super::bounds::Bounds;
use super::check::{self, Observations};
use super::disk::Disk;
use super::members::{self, Members};
use super::sabotage::Sabotage;
use super::wire::{Packet, Wires};
use crate::digest::digest;
use crate::violation::Violation;

/// One server: the production state machine and its disk.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Server {
    pub(crate) zab: Zab,
    pub(crate) disk: Disk,
}

/// A server with the digest of its state.
#[derive(Debug)]
pub(crate) struct HashedServer {
    pub(crate) server: Server,
    digest: u64,
}

/// How much of the bounds is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) doubles: u8,
    pub(crate) writes: u8,
    pub(crate) resignations: u8,
    pub(crate) timeouts: u8,
    pub(crate) changes: u8,
    /// Servers 2 and 3 are symmetric until the first event that involves one of them, unless a change of the members
    /// treats them differently.
    pub(crate) symmetry_broken: bool,
}

/// The ensemble.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) servers: Vec<Arc<HashedServer>>,
    /// By sender, then receiver.
    pub(crate) wires: Wires,
    /// The round in which each server was last made to lead. It is as high as the epochs opened before, not a count of
    /// elections, so failed elections that left no trace are one state.
    pub(crate) rounds: Vec<u8>,
    /// The members before any change.
    pub(crate) members: Members,
    pub(crate) observations: Arc<Observations>,
    pub(crate) usage: Usage,
    pub(crate) violation: Option<Violation>,
    pub(crate) sabotage: Sabotage,
    /// See [`super::Bounds::prompt`].
    pub(crate) prompt: bool,
}

pub(crate) fn id(at: usize) -> ServerId {
    ServerId(at as u64 + 1)
}

pub(crate) fn index(id: ServerId) -> usize {
    usize::try_from(id.0).expect("a small id") - 1
}

impl World {
    /// Linked servers with empty disks and without a leader.
    pub(crate) fn blank(sabotage: Sabotage, bounds: &Bounds) -> Self {
        let (servers, members) = (bounds.servers(), bounds.members);
        let usage = Usage { symmetry_broken: !bounds.is_symmetric(), ..Usage::default() };
        let start = |at| Arc::new(HashedServer::new(start(at, members, Recovered::blank())));
        let mut world = Self {
            servers: (0..servers).map(start).collect(),
            wires: Wires::new(servers),
            rounds: vec![0; servers],
            members,
            observations: Arc::default(),
            usage,
            violation: None,
            sabotage,
            prompt: bounds.prompt,
        };
        world.reopen_links();
        world
    }

    /// The indices of all servers.
    pub(crate) fn all(&self) -> std::ops::Range<usize> {
        0..self.servers.len()
    }

    pub(crate) fn zab(&self, at: usize) -> &Zab {
        &self.servers[at].server.zab
    }

    pub(crate) fn disk(&self, at: usize) -> &Disk {
        &self.servers[at].server.disk
    }

    /// Lets one server act, and carries out its outputs and their consequences.
    pub(crate) fn act(&mut self, at: usize, call: impl FnOnce(&mut Zab, &mut Vec<Output>)) -> Result<(), Violation> {
        let mut server = self.servers[at].server.clone();
        let mut outputs = Vec::new();
        call(&mut server.zab, &mut outputs);
        let mut queue = VecDeque::from(outputs);
        loop {
            while let Some(output) = queue.pop_front() {
                let mut more = Vec::new();
                self.carry_out(at, &mut server, output, &mut more)?;
                queue.extend(more);
            }
            let mut more = Vec::new();
            seal_change(&mut server.zab, &mut more);
            server.zab.flush(&mut more);
            if more.is_empty() {
                break;
            }
            queue.extend(more);
        }
        server.zab.assert_invariants();
        if server.zab.committed() != self.zab(at).committed() {
            Arc::make_mut(&mut self.observations).record_commits(id(at), &server)?;
        }
        self.servers[at] = Arc::new(HashedServer::new(server));
        check::durability(self)
    }

    /// Carries out an output in the same way as `node`.
    fn carry_out(
        &mut self,
        at: usize,
        server: &mut Server,
        output: Output,
        more: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        match output {
            Output::Send { to, message } => {
                let message = self.sabotage.sent(message);
                if Observations::is_acknowledgement(&message) {
                    self.observe(|observations| observations.record_sent(id(at), to, &message, server))?;
                }
                self.send(at, index(to), server, message);
            }
            Output::Write { ticket, op } => {
                if let Some(op) = self.sabotage.written(op) {
                    server.disk.pending.push_back((ticket, op));
                }
                if self.sabotage.reports_early() {
                    server.zab.written(ticket, more);
                }
            }
            Output::Reset { peer } => self.close(at, index(peer)),
            Output::LeaderLost { leader, .. } => {
                if server.zab.leader() == Some(leader) && leader != id(at) {
                    server.zab.step_down(more);
                }
            }
            Output::QuorumLost => match server.zab.phase() {
                Phase::Promising | Phase::Pulling | Phase::Synchronising | Phase::Established => {
                    server.zab.step_down(more)
                }
                Phase::Looking
                | Phase::Greeting
                | Phase::Promised
                | Phase::Joining
                | Phase::TakingOver
                | Phase::Serving
                | Phase::Gathering => {}
            },
            Output::Outbid { .. } => server.zab.reopen(more),
            Output::Established { epoch } => {
                self.observe(|observations| observations.record_commits(id(at), server))?;
                self.observe(|observations| observations.record_established(id(at), epoch, server))?;
            }
            Output::WantsSnapshot { .. }
            | Output::Installed { .. }
            | Output::Restore { .. }
            | Output::OpenTransfer { .. }
            | Output::NextPiece { .. }
            | Output::ReadLog { .. }
            | Output::CloseTransfer { .. } => {
                unreachable!("no log is trimmed within these bounds, and no difference is long")
            }
            Output::Members { members, version } => {
                if let Some(members) = self.sabotage.counted(&members, &server.zab) {
                    server.zab.learn_members(members, version, more);
                }
            }
            Output::Logged { .. }
            | Output::Truncated { .. }
            | Output::Ready(_)
            | Output::Joined { .. }
            | Output::Progress
            | Output::Promised { .. }
            | Output::Discovered { .. }
            | Output::MayForward
            | Output::CommittedDirectly
            | Output::Serving { .. }
            | Output::HandedOver { .. } => {}
        }
        Ok(())
    }

    fn observe(&mut self, note: impl FnOnce(&mut Observations) -> Result<(), Violation>) -> Result<(), Violation> {
        let mut observations = (*self.observations).clone();
        note(&mut observations)?;
        if observations != *self.observations {
            self.observations = Arc::new(observations);
        }
        Ok(())
    }

    /// Sends a message, if both ends of the link are open.
    fn send(&mut self, from: usize, to: usize, sender: &Server, message: Message) {
        if message == Message::Received {
            return; // lets a long difference go on, and within these bounds none is long
        }
        if sender.zab.is_linked(id(to)) && self.zab(to).is_linked(id(from)) {
            self.wires[from][to].push(Packet::message(message));
        }
    }

    /// Closes one end of a link: packets in flight to it are lost, and the other end learns of it after those in
    /// flight to it.
    pub(crate) fn close(&mut self, at: usize, peer: usize) {
        self.wires[peer][at].0.clear();
        if self.zab(peer).is_linked(id(at)) {
            self.wires[at][peer].push(Packet::Close);
        } else {
            self.wires[at][peer].0.clear();
        }
    }

    /// Opens the links that both ends have closed.
    pub(crate) fn reopen_links(&mut self) {
        for a in self.all() {
            for b in a + 1..self.servers.len() {
                if !self.zab(a).is_linked(id(b)) && !self.zab(b).is_linked(id(a)) {
                    self.wires[a][b].0.clear();
                    self.wires[b][a].0.clear();
                    self.open(a, b);
                }
            }
        }
    }

    fn open(&mut self, a: usize, b: usize) {
        for (at, peer) in [(a, b), (b, a)] {
            let mut server = self.servers[at].server.clone();
            let mut outputs = Vec::new();
            server.zab.link_up(id(peer), &mut outputs);
            self.servers[at] = Arc::new(HashedServer::new(server));
            for output in outputs {
                if let Output::Send { to, message } = output {
                    // The other end opens at the same time.
                    self.wires[at][index(to)].push(Packet::message(message));
                }
            }
        }
    }

    /// Crashes a server and restarts it with what its disk kept. An immediate restart loses no generality: a server
    /// that is down does nothing, and neither does one without a leader or followers.
    pub(crate) fn crash(&mut self, at: usize, operations: usize, torn: usize) -> Result<(), Violation> {
        let mut disk = self.disk(at).clone();
        let mut image = disk.crash(operations, torn)?;
        if self.sabotage.forgets_promises() {
            image.accepted_epoch = image.current_epoch;
        }
        for peer in self.all().filter(|peer| *peer != at) {
            self.close(at, peer);
        }
        self.servers[at] = Arc::new(HashedServer::new(start(at, self.members, image)));
        check::durability(self)
    }

    /// The round of an election that begins now.
    pub(crate) fn next_round(&self) -> u8 {
        let epochs = self.all().map(|at| self.zab(at).standing().accepted_epoch.0).max().unwrap_or(0);
        u8::try_from(epochs).expect("few epochs") + 1
    }

    pub(crate) fn set_disk(&mut self, at: usize, disk: Disk) {
        let zab = self.zab(at).clone();
        self.servers[at] = Arc::new(HashedServer::new(Server { zab, disk }));
    }
}

impl HashedServer {
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn new(server: Server) -> Self {
        let digest = digest(&server);
        Self { server, digest }
    }
}

fn start(at: usize, members: Members, image: Recovered) -> Server {
    // Servers that are not members follow, so that a change can add them.
    let limits = Limits { joiners: true, ..Limits::default() };
    let members = (members.membership(), Zxid::ZERO);
    let zab = Zab::new_changing(id(at), members, MembersOf(members::changed_by), limits, image.clone());
    Server { zab, disk: Disk::new(image) }
}

/// Puts an entry without effect behind a change of the members that is committed, in the same way as `node`.
fn seal_change(zab: &mut Zab, out: &mut Vec<Output>) {
    let is_open = zab.is_changing_members() || zab.members_version() == Zxid::ZERO;
    if zab.phase() == Phase::Established && !is_open && zab.log().last() == zab.members_version() {
        zab.propose(vec![(Origin::default(), members::NOTHING.into())], vec![], out);
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.servers.iter().for_each(|hashed| hashed.digest.hash(state));
        self.wires.hash(state);
        self.rounds.hash(state);
        self.observations.hash(state);
        self.usage.hash(state);
        self.violation.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}
