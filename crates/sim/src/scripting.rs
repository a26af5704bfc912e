//! What scripts see of a world, and what they do to it.
//!
//! Observations are kept in the order in which they happened. This is separate from `faults`: there the random
//! generator decides what happens and when it ends, here a script does.

use pole_node::{Message, Note};
use pole_types::{Epoch, ServerId, Zxid};

use super::disk::{CrashPoint, Image, Survival};
use super::hosts::{CrashKind, Host};
use super::network::Settings;
use super::setup::LineKind;
use super::workload::{Client, ServerMessage};
use super::world::{SimEvent, World};
use super::zk::SimClient;
use super::{MS, SECOND, Setup};
use crate::Rng;

/// Something that a script prints.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// A server reports a note.
    Noted { server: usize, note: Note },
    /// A server has crashed at the crash point set for it.
    Reached { server: usize, point: CrashPoint, disk: DurableState },
    /// A server is established as leader; `quorum` have taken its epoch over.
    Leads { server: usize, epoch: Epoch, quorum: Vec<ServerId> },
    /// A server reads its log from disk to send it to another server.
    ReadsLog { server: usize, after: Zxid },
    /// A server has restored its state from a snapshot that it received.
    Restored { server: usize, zxid: Zxid },
    /// A server halts.
    Halted { server: usize, reason: String },
    /// A message that is part of a synchronisation.
    Sent { from: usize, to: ServerId, message: pole_zab::Message },
    /// A ZooKeeper client receives or does something.
    SimClient { client: usize, action: String },
    /// A workload client receives something.
    ServerMessage { client: usize, message: ServerMessage },
}

/// The durable state that a crash leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableState {
    pub(crate) last: Zxid,
    pub(crate) accepted: Epoch,
    pub(crate) current: Epoch,
}

impl DurableState {
    pub(crate) fn of(image: &Image) -> Self {
        Self { last: image.last(), accepted: image.accepted_epoch, current: image.current_epoch }
    }
}

/// The behaviour of a server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskMode {
    /// It works, and a crash loses everything that was not synced.
    Ok,
    /// The next sync fails.
    Fail,
    /// No operation ends.
    Hang,
    /// The next crash keeps this much of the work in progress.
    CrashKeeps(Survival),
    /// The duration of a sync, in nanoseconds.
    SyncTakes(u64),
}

impl Observation {
    /// The observation of a message, if scripts print it.
    pub(crate) fn of_message(from: usize, to: ServerId, message: &Message) -> Option<Self> {
        use pole_zab::Message as M;
        let Message::Zab(message) = message else { return None };
        let is_printed = match message {
            M::Truncate { .. } | M::Entries { .. } | M::Pull { .. } | M::RefuseEpoch { .. } | M::Decline => true,
            M::Snapshot(part) => part.offset == 0,
            M::AckEpoch(promise) => !promise.fresh,
            M::Hello(_)
            | M::NewEpoch { .. }
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
            | M::Pong { .. } => false,
        };
        is_printed.then(|| Self::Sent { from, to, message: message.clone() })
    }
}

impl Setup {
    /// The LAN of scripts: nothing in it is random.
    pub(crate) fn scripted(servers: usize) -> Self {
        let mut setup = Self::lan(0, servers);
        if let LineKind::Even(line) = &mut setup.line {
            line.jitter_ppm = 0;
        }
        // A stalled connection stays open until a server or the script closes it.
        setup.network = Settings { transport_timeout: 3_600 * SECOND, ..setup.network };
        setup
    }
}

impl World {
    /// A world for a script, in which no server is started yet.
    pub(crate) fn scripted(setup: Setup) -> Self {
        let mut world = Self::still(setup, None);
        world.observations = Some(Vec::new());
        for host in &mut world.hosts {
            host.disk.survival = Survival::Nothing;
        }
        for link in 0..world.network.links.len() {
            world.dial_later(link, 0);
        }
        world
    }

    pub(crate) fn is_scripted(&self) -> bool {
        self.observations.is_some()
    }

    /// Keeps an observation, if a script runs.
    pub(crate) fn observe(&mut self, observation: impl FnOnce(&Self) -> Option<Observation>) {
        if self.observations.is_some() {
            let seen = observation(self);
            self.observations.iter_mut().for_each(|observations| observations.extend(seen.clone()));
        }
    }

    /// The observation of a note.
    pub(crate) fn observation_of_note(&self, server: usize, note: &Note) -> Observation {
        if let Note::Serving { leader, epoch } = note
            && *leader == id(server)
        {
            let took = |host: &Host| host.node.is_some() && host.disk.durable.current_epoch == *epoch;
            let quorum = (0..self.hosts.len()).filter(|s| took(&self.hosts[*s])).map(id).collect();
            return Observation::Leads { server, epoch: *epoch, quorum };
        }
        Observation::Noted { server, note: note.clone() }
    }

    /// Takes the observations since the last call.
    pub(crate) fn take_observations(&mut self) -> Vec<Observation> {
        self.observations.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs until the condition holds, at most for `within`. Returns whether it holds.
    pub(crate) fn run_until_condition(&mut self, within: u64, condition: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + within;
        while !condition(self) {
            if self.report.failure.is_some() {
                return false;
            }
            if !self.next(end) {
                self.now = end;
                return condition(self);
            }
        }
        true
    }

    /// Schedules the start of a server, and dials its links.
    pub(crate) fn schedule_start(&mut self, server: usize) {
        self.queue.push(self.now, SimEvent::Start(server));
        self.dial_soon(server);
    }

    /// Dials the links of a server at once.
    fn dial_soon(&mut self, server: usize) {
        for link in 0..self.network.links.len() {
            if self.network.links[link].ends.contains(&server) {
                self.queue.push(self.now + 1, SimEvent::Dial(link));
            }
        }
    }

    /// Crashes a server now, or at a crash point after a number of passes.
    pub(crate) fn crash_at(&mut self, server: usize, at: Option<(CrashPoint, u32)>) {
        match at {
            Some((point, passes)) => {
                (self.hosts[server].crash_point, self.hosts[server].passes_left) = (Some(point), passes);
            }
            None => self.crash(server, CrashKind::Killed),
        }
    }

    /// Cuts the power of a machine; its peers are not notified.
    pub(crate) fn cut_power(&mut self, server: usize) {
        self.crash(server, CrashKind::Silent);
    }

    /// Sets the behaviour of a server's disk.
    pub(crate) fn set_disk(&mut self, server: usize, mode: DiskMode) {
        let fsync = self.setup.disk.fsync;
        let host = &mut self.hosts[server];
        match mode {
            DiskMode::Ok => {
                let hung = host.disk.hangs_until() > self.now;
                host.disk.repair();
                host.disk.set_fsync(fsync);
                host.disk.survival = Survival::Nothing;
                let boot = host.boot;
                if hung {
                    self.queue.push(self.now, SimEvent::DiskStepEnds { server, boot });
                }
            }
            DiskMode::Fail => host.disk.fail(),
            DiskMode::Hang => host.disk.hang(u64::MAX),
            DiskMode::CrashKeeps(survival) => host.disk.survival = survival,
            DiskMode::SyncTakes(fsync) => host.disk.set_fsync(fsync),
        }
    }

    /// Opens or blocks the direction from one server to another.
    pub(crate) fn set_direction(&mut self, from: usize, to: usize, open: bool) {
        match (open, self.network.is_blocked(from, to)) {
            (true, true) => {
                let sent = self.network.unblock(from, to, self.now);
                self.arrive(sent);
                self.dial_soon(from);
            }
            (false, false) => self.network.block(from, to),
            (true, false) | (false, true) => {}
        }
    }

    /// Breaks both connections between two servers. They are redialled.
    pub(crate) fn break_links(&mut self, a: usize, b: usize) -> Result<(), String> {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            if wire.ends == [a.min(b), a.max(b)] {
                let generation = wire.generation;
                self.breaks(link, generation)?;
            }
        }
        Ok(())
    }

    /// Breaks both connections between two servers at the end of the first one; the second is not notified.
    pub(crate) fn break_links_at(&mut self, a: usize, b: usize) -> Result<(), String> {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            if let (true, Some(end)) = (wire.ends.contains(&b) && wire.up, wire.ends.iter().position(|end| *end == a)) {
                self.breaks_at(link, end)?;
            }
        }
        Ok(())
    }

    /// Releases the messages held back from one server to another.
    pub(crate) fn release(&mut self, from: usize, to: usize) {
        let sent = self.network.release(from, to, self.now);
        self.arrive(sent);
    }

    fn arrive(&mut self, sent: Vec<(usize, usize, u64, Message)>) {
        for (link, end, at, message) in sent {
            let generation = self.network.links[link].generation;
            self.queue.push(at, SimEvent::Arrives { link, end, generation, message });
        }
    }

    /// Ends all faults and holds, and starts all servers.
    pub(crate) fn end_scripted_faults(&mut self) -> Result<(), String> {
        let servers = self.hosts.len();
        for (from, to) in (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b))) {
            self.release(from, to);
        }
        self.end_faults()?;
        (0..servers).for_each(|server| self.dial_soon(server));
        Ok(())
    }

    /// Adds a workload client that sends only what the script says.
    pub(crate) fn new_client(&mut self) -> usize {
        let index = self.clients.len();
        let mut client = Client::new(&self.setup, index, &Rng::new(0));
        client.delay = MS / 20;
        self.clients.push(client);
        index
    }

    /// Adds a ZooKeeper client.
    pub(crate) fn new_sim_client(&mut self, timeout_ms: u64) -> usize {
        let client = self.sim_clients.len();
        self.sim_clients.push(SimClient::scripted(&self.setup, client, timeout_ms));
        self.queue.push(self.now, SimEvent::SimClientWakes { client, wakeup: 0 });
        client
    }

    /// Whether all running servers serve under one leader. Paused servers do not count.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let epoch = self.epoch_of(leader);
        self.hosts.iter().all(|host| {
            let Some(node) = &host.node else { return true };
            host.paused || (node.zab().serving_epoch() == epoch && node.zab().leader() == Some(id(leader)))
        })
    }

    /// Whether all running servers also have logged and applied the whole history.
    pub(crate) fn is_level(&self) -> bool {
        let last = self.checker.history.last();
        let level = |at: Zxid| at == last;
        let mut nodes = self.hosts.iter().filter_map(|host| host.node.as_ref());
        self.is_settled() && nodes.all(|node| level(node.applied()) && level(node.zab().log().last()))
    }
}

/// The id of a server, from its index.
pub(crate) fn id(server: usize) -> ServerId {
    ServerId(server as u64 + 1)
}
